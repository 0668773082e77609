#include "trace/stacks/python_layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace/stacks/stack_room.h"

#define TRIES 4

/* CPython's array of copies of the instructions: its capacity, followed by pointers to the copies. */
typedef struct copies {
  int64_t capacity;
  uintptr_t starts[];
} copies_t;

/* Reads two words through the kernel, so that memory that was freed meanwhile causes no fault. Returns false
 * if one of them is not readable. */
static bool read_two(const void *a, const void *b, uint64_t *ret_a, uint64_t *ret_b)
{
  const struct iovec here[] = {{ret_a, sizeof(*ret_a)}, {ret_b, sizeof(*ret_b)}};
  const struct iovec there[] = {
      {(void *)(uintptr_t)a, sizeof(*ret_a)}, {(void *)(uintptr_t)b, sizeof(*ret_b)}};
  int saved_errno = errno;
  long got = syscall(SYS_process_vm_readv, getpid(), here, 2L, there, 2L, 0L);
  errno = saved_errno;
  return got == (long)(sizeof(*ret_a) + sizeof(*ret_b));
}

/*
 * A frame's own copy exists as long as the frame's thread lives, but the array may be replaced: when a thread
 * with a higher number starts, the interpreter allocates a larger array. It frees the old array after every
 * attached thread has passed a safe point. The calling thread is usually not attached. So the result of a
 * read is valid only if the code object had the same array before and after the read.
 */
uintptr_t gp_python_copy_of(const gp_python_t *python, uintptr_t frame, uintptr_t code)
{
  const _Atomic uintptr_t *place = (const _Atomic uintptr_t *)(code + python->code_copies);
  int32_t number = *(const int32_t *)(frame + python->frame_copy);

  for (int i = 0; i < TRIES && number > 0; i++) {
    uintptr_t array = atomic_load_explicit(place, memory_order_acquire);
    const copies_t *copies = (const copies_t *)array;
    uint64_t capacity, start;
    bool good = read_two(&copies->capacity, &copies->starts[number], &capacity, &start);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(place, memory_order_relaxed) == array)
      return good && (uint64_t)number < capacity ? start : 0;
  }
  return 0;
}

/* Maximum number of frames of a chain to check. If a chain is longer, the check is made at another time. */
#define FRAMES_MAX   100000
#define LENGTH_MAX   65536       /* maximum length of a name or a path */
#define TABLE_MAX    (64u << 20) /* maximum bytes of a line table or of instructions */
#define TYPE_MEMBERS 240         /* offset of tp_members in a type */
#define TYPE_BYTES   32          /* offset of tp_basicsize */
#define MEMBER_BYTES 40          /* size of a member: name, type, offset, flags, text */
#define MEMBERS_MAX  64
#define VIA_NOTHING  UINT16_MAX
#define OBJECT_TYPE  8 /* offset of the type in an object */
#define TEXT_KIND    2 /* first bit of the character kind in a string's state */
/* The values of OBJECT_TYPE and TEXT_KIND for free-threaded interpreters. Their objects begin with a thread
 * and a second count. Since 3.14, a string's state begins with a byte that other threads write. */
#define THREADED_TYPE 24
#define THREADED_KIND 8
/* Distance from the first line to the version in a code object of 3.12 and 3.13, where no table or member
 * contains the offset: the version is the sixth number after the first line. gp_python_layout_prove checks
 * this. */
#define VERSION_BEHIND_FIRST_LINE 24

static bool read_word(uintptr_t address, uint64_t *ret_word)
{
  if (address % sizeof(uint64_t) || !gp_word_is_readable(address))
    return false;
  *ret_word = gp_python_word(address);
  return true;
}

/* Returns the offset of a member from the type's member table, or 0 if there is no member with that name. */
static uint16_t member_of(uintptr_t type, const char *name)
{
  uint64_t member, text, offset;

  if (!type || !read_word(type + TYPE_MEMBERS, &member))
    return 0;
  for (int i = 0; i < MEMBERS_MAX; i++, member += MEMBER_BYTES) {
    if (!read_word(member, &text) || !text || !read_word(member + 16, &offset))
      return 0;
    size_t length = strlen(name) + 1, same = 0;
    while (same < length && gp_word_is_readable(text + same) &&
           *(const char *)(uintptr_t)(text + same) == name[same])
      same++;
    if (same == length)
      return offset < UINT16_MAX ? (uint16_t)offset : 0;
  }
  return 0;
}

/* The positions, in words, of the needed offsets in _Py_DebugOffsets, which is at the beginning of
 * _PyRuntime. Members are named as in Include/internal/pycore_debug_offsets.h. */
typedef struct table {
  uint8_t interpreter_code_generation; /* 0: the table does not contain it */
  uint8_t thread_current_frame;
  uint8_t frame_previous;
  uint8_t frame_executable;
  uint8_t frame_instr_ptr;
  uint8_t code_filename;
  uint8_t code_qualname;
  uint8_t code_linetable;
  uint8_t code_firstlineno;
  uint8_t code_adaptive;
  uint8_t object_type;
  uint8_t bytes_size;
  uint8_t bytes_contents;
  uint8_t text_state;
  uint8_t text_length;
  uint8_t text_ascii_size;
  uint8_t interpreter_tlbc_generation; /* for free-threaded interpreters; 0: these are not supported */
  uint8_t frame_tlbc_index;
  uint8_t code_tlbc;
} table_t;

#define FIRST_TABLE 13

static const table_t tables[] = {
    {0, 23, 29, 30, 31, 35, 37, 38, 39, 43, 45, 65, 66, 68, 69, 70, 0, 0, 0},
    {20, 26, 32, 33, 34, 40, 42, 43, 44, 48, 51, 75, 76, 78, 79, 80, 21, 38, 49},
    {20, 26, 40, 41, 42, 48, 50, 51, 52, 56, 59, 87, 88, 90, 91, 92, 0, 0, 0},
};

#define LAST_THREADED 14
#define LAST_TABLE    (FIRST_TABLE + (int)(sizeof(tables) / sizeof(tables[0])) - 1)

/* Reads an offset from the table. Returns false if the offset is not readable or too large. */
static bool read_offset(const gp_python_symbols_t *symbols, uint8_t word, uint16_t *ret_offset)
{
  uint64_t offset;
  if (!read_word(symbols->runtime + word * sizeof(offset), &offset) || offset >= UINT16_MAX)
    return false;
  *ret_offset = (uint16_t)offset;
  return true;
}

static bool has_offset(const gp_python_symbols_t *symbols, uint8_t word, uint16_t expected)
{
  uint16_t offset;
  return read_offset(symbols, word, &offset) && offset == expected;
}

/* Returns true if the runtime contains the table of this version. */
static bool is_of_version(
    const gp_python_symbols_t *symbols, unsigned long version, uint64_t *ret_is_free_threaded)
{
  uint64_t cookie, of_version;
  return read_word(symbols->runtime, &cookie) && memcmp(&cookie, "xdebugpy", 8) == 0 &&
         read_word(symbols->runtime + 8, &of_version) && of_version == version &&
         read_word(symbols->runtime + 16, ret_is_free_threaded);
}

/* Sets the members that differ in a free-threaded interpreter. Its objects have a larger header, and since
 * 3.14 each thread has its own copy of a code object's instructions. Returns false if the version is not
 * supported. */
static bool read_threads(
    const gp_python_symbols_t *symbols, const table_t *table, int minor, gp_python_t *python)
{
  uint16_t offset;
  uint64_t now;

  python->object_type = THREADED_TYPE;
  if (minor == FIRST_TABLE)
    return true;
  uintptr_t interpreter = (uintptr_t)symbols->main_interpreter();
  python->text_kind = THREADED_KIND;
  if (minor > LAST_THREADED || !read_offset(symbols, table->interpreter_tlbc_generation, &offset) ||
      !read_word((interpreter + offset) & ~UINT64_C(7), &now) ||
      !read_offset(symbols, table->frame_tlbc_index, &python->frame_copy) ||
      !read_offset(symbols, table->code_tlbc, &python->code_copies))
    return false;
  python->copies_generation = (const _Atomic uint32_t *)(interpreter + offset);
  return python->frame_copy && python->code_copies;
}

/* Finds the interpreter's count of freed code objects. If the version has no such count, finds the code
 * objects' version instead. */
static bool find_proof(const gp_python_symbols_t *symbols, const table_t *table, gp_python_t *python)
{
  uint16_t offset;
  uint64_t now;

  if (!table->interpreter_code_generation) {
    python->code_version = (uint16_t)(python->code_first_line + VERSION_BEHIND_FIRST_LINE);
    return true;
  }
  uintptr_t interpreter = (uintptr_t)symbols->main_interpreter();
  if (!read_offset(symbols, table->interpreter_code_generation, &offset) ||
      !read_word(interpreter + offset, &now))
    return false;
  python->generation = (const _Atomic uint64_t *)(interpreter + offset);
  return true;
}

static bool read_table(
    const gp_python_symbols_t *symbols, int minor, unsigned long version, gp_python_t *python)
{
  const table_t *table = &tables[minor - FIRST_TABLE];
  uint64_t is_free_threaded;

  python->chain = GP_PYTHON_NONES;
  python->state_via = VIA_NOTHING;
  if (!is_of_version(symbols, version, &is_free_threaded) ||
      (is_free_threaded && !read_threads(symbols, table, minor, python)) ||
      !has_offset(symbols, table->object_type, python->object_type) ||
      !has_offset(symbols, table->bytes_size, python->object_type + GP_PYTHON_SIZE) ||
      !has_offset(symbols, table->bytes_contents, python->object_type + GP_PYTHON_CONTENTS) ||
      !has_offset(symbols, table->text_state, python->object_type + GP_PYTHON_STATE) ||
      !has_offset(symbols, table->text_length, python->object_type + GP_PYTHON_SIZE) ||
      !read_offset(symbols, table->thread_current_frame, &python->state_frame) ||
      !read_offset(symbols, table->frame_executable, &python->frame_code) ||
      !read_offset(symbols, table->frame_previous, &python->frame_previous) ||
      !read_offset(symbols, table->frame_instr_ptr, &python->frame_instruction) ||
      !read_offset(symbols, table->code_qualname, &python->code_name) ||
      !read_offset(symbols, table->code_filename, &python->code_file) ||
      !read_offset(symbols, table->code_linetable, &python->code_table) ||
      !read_offset(symbols, table->code_firstlineno, &python->code_first_line) ||
      !read_offset(symbols, table->code_adaptive, &python->code_start) ||
      !read_offset(symbols, table->text_ascii_size, &python->ascii_bytes))
    return false;
  python->other_bytes = (uint16_t)(python->ascii_bytes + 16);
  return find_proof(symbols, table, python);
}

/* Sets the layout for versions without the table. The offsets come from the member tables of types, or are
 * constants that did not change between the releases of a version. */
static bool read_members(const gp_python_symbols_t *symbols, int minor, gp_python_t *python)
{
  uintptr_t code = symbols->code_type;
  uint64_t bytes = 0;

  python->code_file = member_of(code, "co_filename");
  python->code_name = member_of(code, minor >= 11 ? "co_qualname" : "co_name");
  python->code_first_line = member_of(code, "co_firstlineno");
  python->code_table = member_of(code, minor >= 10 ? "co_linetable" : "co_lnotab");
  python->ascii_bytes = minor >= 12 ? 40 : 48;
  python->other_bytes = minor >= 12 ? 56 : 72;
  if (minor <= 10) {
    python->chain = GP_PYTHON_OBJECTS;
    python->state_frame = 24;
    python->state_via = VIA_NOTHING;
    python->frame_code = member_of(symbols->frame_type, "f_code");
    python->frame_previous = member_of(symbols->frame_type, "f_back");
    python->frame_instruction = minor == 10 ? 96 : member_of(symbols->frame_type, "f_lasti");
    python->instruction_shift = minor < 10;
    python->code_start = member_of(code, "co_code");
  } else {
    python->chain = minor == 11 ? GP_PYTHON_FLAGS : GP_PYTHON_OWNERS;
    python->state_frame = 56;
    python->state_via = minor == 11 ? 8 : 0;
    python->frame_code = minor == 11 ? 32 : 0;
    python->frame_previous = minor == 11 ? 48 : 8;
    python->frame_instruction = 56;
    python->frame_end = minor == 11 ? 68 : 70;
    python->code_version = minor == 12 ? (uint16_t)(python->code_first_line + VERSION_BEHIND_FIRST_LINE) : 0;
    /* The instructions follow the other members, so they begin at the end of the type's basic size. */
    if (!read_word(code + TYPE_BYTES, &bytes) || bytes >= UINT16_MAX)
      return false;
    python->code_start = (uint16_t)bytes;
  }
  return python->code_file && python->code_name && python->code_first_line && python->code_table &&
         python->code_start && python->frame_previous && python->frame_instruction;
}

/* Returns the version in the form of PY_VERSION_HEX. Before 3.11 it comes from the version text and contains
 * only the major and minor version. */
static unsigned long version_of(const gp_python_symbols_t *symbols)
{
  uint64_t word = 0;
  if (symbols->version)
    return read_word(symbols->version, &word) ? (unsigned long)word : 0;
  char *end;
  unsigned long major = strtoul(symbols->version_text(), &end, 10);
  unsigned long minor = *end == '.' ? strtoul(end + 1, &end, 10) : 0;
  return major << 24 | minor << 16;
}

gp_python_check_t gp_python_layout_find(
    const gp_python_symbols_t *symbols, gp_python_t *ret_python, char *why, size_t capacity)
{
  unsigned long version = version_of(symbols);
  int minor = version >> 24 == 3 ? (int)(version >> 16 & 255) : 0;
  gp_python_t python = {.thread_state = symbols->thread_state,
      .is_initialized = symbols->is_initialized,
      .first_interpreter = symbols->first_interpreter,
      .main_interpreter = symbols->main_interpreter,
      .code_type = symbols->code_type,
      .object_type = OBJECT_TYPE,
      .text_kind = TEXT_KIND,
      .loop = symbols->loop,
      .loop_end = symbols->loop_end,
      .part = symbols->part,
      .part_end = symbols->part_end,
      .start = symbols->start,
      .end = symbols->end,
      .line_format = minor < 10    ? GP_LINES_STEPS
                     : minor == 10 ? GP_LINES_RANGES
                                   : GP_LINES_LOCATIONS};
  bool is_known = minor >= 8 && minor <= LAST_TABLE && python.first_interpreter && python.main_interpreter;

  if (is_known)
    is_known = minor >= FIRST_TABLE ? read_table(symbols, minor, version, &python)
                                    : read_members(symbols, minor, &python);
  if (!is_known)
    (void)snprintf(why, capacity, "Python %.20s is not supported (3.8 to 3.%d are, free-threaded up to 3.%d)",
        symbols->version_text(), LAST_TABLE, LAST_THREADED);
  *ret_python = python;
  return is_known ? GP_PYTHON_GOOD : GP_PYTHON_BAD;
}

/* Returns true if the object looks like a string that can be a name. */
static bool is_text(const gp_python_t *python, uint64_t text, uint64_t *ret_type)
{
  uint64_t length, word;

  text += python->object_type;
  if (!read_word(text, ret_type) || !read_word(text + GP_PYTHON_SIZE, &length) || length > LENGTH_MAX ||
      !read_word(text + GP_PYTHON_STATE, &word))
    return false;
  gp_python_text_t got = gp_python_text(python, text - python->object_type);
  uintptr_t last = (uintptr_t)got.characters + got.length * got.character;
  return got.length == length && (got.character == 1 || got.character == 2 || got.character == 4) &&
         gp_word_is_readable((uintptr_t)got.characters & ~(uintptr_t)7) &&
         gp_word_is_readable(last & ~(uintptr_t)7);
}

/* Reads the size of a bytes object. Returns false if the size is not readable or not plausible. */
static bool read_size(const gp_python_t *python, uint64_t bytes, uint64_t *ret_size)
{
  return read_word(bytes + python->object_type + GP_PYTHON_SIZE, ret_size) && *ret_size <= TABLE_MAX;
}

/* Returns true if the frame's instruction is within the code object. */
static bool has_instruction(const gp_python_t *python, uint64_t frame, uint64_t code)
{
  uint64_t at, bytes, size;

  if (python->chain == GP_PYTHON_OBJECTS) {
    if (!gp_word_is_readable(frame + python->frame_instruction) ||
        !read_word(code + python->code_start, &bytes) || !read_size(python, bytes, &size))
      return false;
    int64_t index = *(const int32_t *)(uintptr_t)(frame + python->frame_instruction);
    return index >= -1 && (uint64_t)(index + 1) * (python->instruction_shift ? 1 : 2) <= size;
  }
  if (!read_size(python, code, &size) || !gp_word_is_readable(frame + python->frame_instruction) ||
      !gp_word_is_readable((frame + python->frame_copy) & ~UINT64_C(7)))
    return false;
  at = gp_python_word(frame + python->frame_instruction);
  uint64_t start = code + python->code_start;
  if (python->frame_copy && (at + 2 < start || at > start + size * 2))
    start = gp_python_copy_of(python, frame, code);
  return start && at + 2 >= start && at <= start + size * 2;
}

static bool is_code(const gp_python_t *python, uint64_t code)
{
  uint64_t name, file, table, size, name_type, file_type;

  return read_word(code + python->code_name, &name) && read_word(code + python->code_file, &file) &&
         read_word(code + python->code_table, &table) && is_text(python, name, &name_type) &&
         is_text(python, file, &file_type) && name_type == file_type && read_size(python, table, &size) &&
         gp_word_is_readable(code + python->code_first_line) &&
         *(const int32_t *)(uintptr_t)(code + python->code_first_line) >= 0;
}

static uint32_t version_at(const gp_python_t *python, uint64_t code)
{
  return *(const uint32_t *)(uintptr_t)(code + python->code_version);
}

/* Returns false if two different code objects have the same version. Both must have passed is_code. */
static bool have_own_versions(const gp_python_t *python, uint64_t a, uint64_t b)
{
  return !python->code_version || a == b || version_at(python, a) == 0 ||
         version_at(python, a) != version_at(python, b);
}

gp_python_check_t gp_python_layout_prove(const gp_python_t *python, char *why, size_t capacity)
{
  uint64_t frame, code = 0, type, at, last = 0;
  uintptr_t state = (uintptr_t)python->thread_state();
  size_t frames = 0, named = 0;

  if (!state)
    return GP_PYTHON_LATER;
  bool good = read_word(state + python->state_frame, &frame);
  if (good && frame && python->state_via != VIA_NOTHING)
    good = read_word(frame + python->state_via, &frame);
  for (; good && frame && frames < FRAMES_MAX; frames++) {
    good = read_word(frame + python->frame_code, &code) &&
           read_word(gp_python_untag(code) + python->object_type, &type) &&
           read_word(frame + python->frame_previous, &at);
    code = gp_python_untag(code);
    if (good && type == python->code_type) {
      good = is_code(python, code) && has_instruction(python, frame, code) &&
             (!last || have_own_versions(python, code, last));
      last = code;
      named++;
    } else if (good) {
      good = python->chain == GP_PYTHON_NONES;
    }
    frame = good ? at : 0;
  }
  if (!good)
    (void)snprintf(why, capacity, "the frames of this Python do not have the layout of its version");
  return !good ? GP_PYTHON_BAD : named == 0 || frame ? GP_PYTHON_LATER : GP_PYTHON_GOOD;
}
