/*
 * An interpreter that is none: exports what CPython 3.13 exports, or the version 3.N of GP_FAKE_PYTHON_MINOR,
 * with a table of offsets of its own and one frame, in which every thread is. Built with FREE_THREADED, it is
 * a free-threaded one, and from 3.14 on the frame runs a copy of the instructions. GP_FAKE_PYTHON says what
 * is wrong with it:
 * - nothing: the frame is named `fake`, fake.py:12
 * - cookie: the table does not begin as CPython's
 * - version: the interpreter is newer than any that is known
 * - table: the table is another version's
 * - threaded: it says that it is free-threaded, and its objects are not, or the other way round
 * - frame: the frame is in memory that cannot be read
 * - type: the frame runs something that is neither code nor readable
 * - name: the name is longer than memory
 * - copy: the frame is in a copy of the instructions that is not there
 * - chain: the chain of frames has no end
 * - begun: the interpreter has not begun
 * - two: there is a second interpreter
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef FREE_THREADED
#define HEAD        4 /* words of an object's head; the last is its type */
#define IS_THREADED 1
#else
#define HEAD        2
#define IS_THREADED 0
#endif

typedef struct text {
  uint64_t head[HEAD];
  uint64_t length;
  uint64_t hash;
  uint32_t state; /* compact ASCII of one byte a character */
  uint32_t padding;
  char characters[24];
} text_t;

typedef struct bytes {
  uint64_t head[HEAD];
  uint64_t length;
  uint64_t hash;
  uint8_t contents[8];
} bytes_t;

/* What threads run instead of the instructions */
typedef struct copies {
  int64_t capacity;
  uint16_t *starts[2];
} copies_t;

typedef struct code {
  uint64_t head[HEAD - 1];
  void *type;
  uint64_t size;
  text_t *qualname;
  int32_t first_line;
  int32_t padding;
  bytes_t *linetable;
  text_t *filename;
  copies_t *copies;
  uint16_t instructions[4];
} code_t;

typedef struct frame {
  uint64_t other;
  uint16_t *instr_ptr;
  struct frame *previous;
  uintptr_t executable; /* from 3.14 on with a tag in the lowest bit */
  int32_t copy;
} frame_t;

typedef struct thread_state {
  uint64_t other[5];
  frame_t *current_frame;
} thread_state_t;

typedef struct interpreter {
  uint64_t other[3];
  uint64_t code_generation;
  uint32_t copies_generation;
} interpreter_t;

extern uint64_t _PyRuntime[96];
extern unsigned long Py_Version;
extern uint64_t PyCode_Type[52];
uint64_t _PyRuntime[96];
unsigned long Py_Version = 0x030d00f0;
uint64_t PyCode_Type[52];

static text_t name = {.length = 4, .characters = "fake"};
static text_t file = {.length = 7, .characters = "fake.py"};
static bytes_t table = {.length = 2, .contents = {0x80 | 12 << 3 | 3, 0}}; /* four units, two lines further */
static uint16_t copy[4];
static copies_t copies = {2, {NULL, copy}};
static code_t code = {.type = PyCode_Type,
    .size = 4,
    .qualname = &name,
    .first_line = 10,
    .linetable = &table,
    .filename = &file,
    .copies = &copies};
static uint64_t none[HEAD] = {1}; /* an object that is no code */
static frame_t entry;
static frame_t frame = {.instr_ptr = code.instructions, .previous = &entry};
static thread_state_t state = {.current_frame = &frame};
static interpreter_t interpreter;

static int is_wrong(const char *what)
{
  const char *wrong = getenv("GP_FAKE_PYTHON");
  return wrong && strcmp(wrong, what) == 0;
}

/* By the names of _Py_DebugOffsets. */
static void fill_table(unsigned minor)
{
  static const struct {
    uint8_t code_generation, current_frame, previous, code, object, bytes, text, copies_generation, copy,
        copies;
  } places[] = {{0, 23, 29, 35, 45, 65, 68, 0, 0, 0}, {20, 26, 32, 40, 51, 75, 78, 21, 38, 49},
      {20, 26, 40, 48, 59, 87, 90, 21, 46, 57}};
  unsigned i = minor - 13;

  _PyRuntime[1] = is_wrong("table") ? Py_Version + 0x10000 : Py_Version;
  _PyRuntime[2] = is_wrong("threaded") != IS_THREADED;
  if (IS_THREADED && minor > 13) {
    _PyRuntime[places[i].copies_generation] = offsetof(interpreter_t, copies_generation);
    _PyRuntime[places[i].copy] = offsetof(frame_t, copy);
    _PyRuntime[places[i].copies] = offsetof(code_t, copies);
    frame.copy = is_wrong("copy") ? 7 : 1;
    frame.instr_ptr = copy;
  }
  _PyRuntime[places[i].code_generation] =
      offsetof(interpreter_t, code_generation); /* 0: the cookie follows */
  _PyRuntime[places[i].current_frame] = offsetof(thread_state_t, current_frame);
  _PyRuntime[places[i].previous] = offsetof(frame_t, previous);
  _PyRuntime[places[i].previous + 1] = offsetof(frame_t, executable);
  _PyRuntime[places[i].previous + 2] = offsetof(frame_t, instr_ptr);
  _PyRuntime[places[i].code] = offsetof(code_t, filename);
  _PyRuntime[places[i].code + 2] = offsetof(code_t, qualname);
  _PyRuntime[places[i].code + 3] = offsetof(code_t, linetable);
  _PyRuntime[places[i].code + 4] = offsetof(code_t, first_line);
  _PyRuntime[places[i].code + 8] = offsetof(code_t, instructions);
  _PyRuntime[places[i].object] = offsetof(code_t, type);
  _PyRuntime[places[i].bytes] = offsetof(bytes_t, length);
  _PyRuntime[places[i].bytes + 1] = offsetof(bytes_t, contents);
  _PyRuntime[places[i].text] = offsetof(text_t, state);
  _PyRuntime[places[i].text + 1] = offsetof(text_t, length);
  _PyRuntime[places[i].text + 2] = offsetof(text_t, characters);
  memcpy(_PyRuntime, is_wrong("cookie") ? "ydebugpx" : "xdebugpy", 8);
}

static __attribute__((constructor)) void begin(void)
{
  const char *told = getenv("GP_FAKE_PYTHON_MINOR");
  unsigned minor = told ? (unsigned)atoi(told) : 13;

  Py_Version = (is_wrong("version") ? 99ul : minor) << 16 | 0x030000f0;
  fill_table(minor);
  name.state = file.state = 0x19u << (IS_THREADED && minor > 13 ? 8 : 2);
  frame.executable = (uintptr_t)&code + (minor >= 14);
  entry.executable = (uintptr_t)none + (minor >= 14);
  if (is_wrong("frame"))
    state.current_frame = (frame_t *)0x10;
  if (is_wrong("type"))
    frame.executable = 0x7f0000000008;
  if (is_wrong("name"))
    name.length = UINT64_C(1) << 40;
  if (is_wrong("chain"))
    frame.previous = &frame;
}

void *PyGILState_GetThisThreadState(void);
int Py_IsInitialized(void);
void *PyInterpreterState_Head(void);
void *PyInterpreterState_Main(void);
const char *Py_GetVersion(void);

void *PyGILState_GetThisThreadState(void)
{
  return &state;
}

int Py_IsInitialized(void)
{
  return !is_wrong("begun");
}

void *PyInterpreterState_Head(void)
{
  return is_wrong("two") ? (void *)&name : &interpreter;
}

void *PyInterpreterState_Main(void)
{
  return &interpreter;
}

const char *Py_GetVersion(void)
{
  return "3.99.7 (fake)";
}
