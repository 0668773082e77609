#include "trace/stacks/python.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loader_walk.h"
#include "base/log.h"
#include "base/objects.h"
#include "trace/stacks/cfi.h"
#include "trace/stacks/python_layout.h"

typedef enum state {
  STATE_NONE,     /* no interpreter was loaded when `loads` was set */
  STATE_FOUND,    /* an interpreter is loaded, but its layout is not known yet */
  STATE_READY,    /* the_python has the layout, which the first chain of frames confirmed */
  STATE_GIVEN_UP, /* Python frames are not recorded any more */
} state_t;

static _Atomic state_t state;
static _Atomic uint64_t loads; /* the loader's counts at the last search for an interpreter */
static _Atomic uint64_t unloads;
static atomic_flag is_busy = ATOMIC_FLAG_INIT;
static gp_python_symbols_t symbols; /* set from STATE_FOUND on */
static gp_python_t the_python;      /* set from STATE_READY on */

void gp_python_give_up(const char *why)
{
  if (atomic_exchange(&state, STATE_GIVEN_UP) != STATE_GIVEN_UP)
    gp_log(GP_LOG_ERROR, "stacks have no Python frames: %s", why);
}

static uintptr_t address_of(const gp_object_t *object, const char *name, size_t *ret_bytes)
{
  const ElfW(Sym) *symbol = gp_object_symbol(object, name);
  if (symbol && ret_bytes)
    *ret_bytes = symbol->st_size;
  return symbol ? object->base + symbol->st_value : 0;
}

/* Returns true if the object is CPython itself and not a program that embeds it. */
static bool is_interpreters_own(const struct dl_phdr_info *info, const char *soname)
{
  char program[4096];
  const char *path = info->dlpi_name;

  if (!path[0]) { /* the object is the program itself */
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    path = program;
  }
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0 ||
         strncmp(soname, "libpython", 9) == 0;
}

/* Minimum size of the loop's symbol if the compiler left the loop in one piece. */
#define WHOLE_LOOP_BYTES 8192

/* Finds the part of the loop that the compiler may have moved elsewhere. That part has no symbol, but is the
 * object's longest function. */
static void find_part(const struct dl_phdr_info *info, gp_python_symbols_t *found)
{
#if defined(__x86_64__)
  if (!gp_frame_rules_longest(info, &found->part, &found->part_end))
    found->part = found->part_end = 0;
#else
  (void)info;
  (void)found;
#endif
}

/* Searches an object for an interpreter; a callback for gp_loader_walk. The first object that exports all
 * symbols is also the one in which the loader would find them. */
static int look_in(struct dl_phdr_info *info, size_t size, void *arg)
{
  gp_python_symbols_t *found = arg;
  gp_object_t object;
  size_t loop_bytes = 0;

  (void)size;
  if (!gp_object_read(info, &object))
    return 0;
  *(void **)&found->thread_state = (void *)address_of(&object, "PyGILState_GetThisThreadState", NULL);
  if (!found->thread_state)
    return 0;
  found->runtime = address_of(&object, "_PyRuntime", NULL);
  *(void **)&found->is_initialized = (void *)address_of(&object, "Py_IsInitialized", NULL);
  *(void **)&found->first_interpreter = (void *)address_of(&object, "PyInterpreterState_Head", NULL);
  *(void **)&found->main_interpreter = (void *)address_of(&object, "PyInterpreterState_Main", NULL);
  *(void **)&found->version_text = (void *)address_of(&object, "Py_GetVersion", NULL);
  found->version = address_of(&object, "Py_Version", NULL);
  found->code_type = address_of(&object, "PyCode_Type", NULL);
  found->frame_type = address_of(&object, "PyFrame_Type", NULL);
  found->loop = address_of(&object, "_PyEval_EvalFrameDefault", &loop_bytes);
  found->loop_end = found->loop + loop_bytes;
  if (loop_bytes < WHOLE_LOOP_BYTES)
    find_part(info, found);
  if (!found->is_initialized || !found->version_text || !found->code_type)
    return 0;
  if (is_interpreters_own(info, object.soname)) {
    found->start = (uintptr_t)object.begin;
    found->end = (uintptr_t)object.end;
  }
  return 1;
}

/* Searches the loaded objects for an interpreter, which any library may bring along. Returns the new state.
 * If the interpreter was unloaded, its functions no longer exist, so Python frames are given up
 * permanently. */
static state_t look(state_t now, gp_loader_counts_t counts)
{
  gp_python_symbols_t found = {0};
  bool is_there = gp_loader_walk(look_in, &found) == 1;

  if (now == STATE_NONE && is_there) {
    symbols = found;
    now = STATE_FOUND;
    atomic_store_explicit(&state, now, memory_order_release);
  } else if (now != STATE_NONE && (!is_there || found.thread_state != symbols.thread_state)) {
    gp_python_give_up("the interpreter was unloaded");
    now = STATE_GIVEN_UP;
  }
  atomic_store_explicit(&unloads, counts.unloads, memory_order_relaxed);
  atomic_store_explicit(&loads, counts.loads, memory_order_release);
  return now;
}

static bool is_alone(void *(*first)(void), void *(*main)(void))
{
  return first() == main();
}

/* Determines and checks the interpreter's layout. Returns the new state. Most calls return early, because the
 * interpreter is not initialized or this thread does not run Python. */
static state_t begin(void)
{
  gp_python_t python;
  char why[160];

  if (!symbols.is_initialized())
    return STATE_FOUND;
  gp_python_check_t check = gp_python_layout_find(&symbols, &python, why, sizeof(why));
  if (check == GP_PYTHON_GOOD && !is_alone(python.first_interpreter, python.main_interpreter))
    return STATE_FOUND;
  if (check == GP_PYTHON_GOOD)
    check = gp_python_layout_prove(&python, why, sizeof(why));
  if (check == GP_PYTHON_BAD) {
    gp_python_give_up(why);
    return STATE_GIVEN_UP;
  }
  if (check == GP_PYTHON_LATER)
    return STATE_FOUND;
  the_python = python;
  atomic_store_explicit(&state, STATE_READY, memory_order_release);
  return STATE_READY;
}

static __attribute__((noinline)) state_t advance(state_t now, gp_loader_counts_t counts)
{
  if (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire))
    return STATE_NONE; /* another thread is doing this work, so this call gets no Python frames */
  now = atomic_load(&state);
  if (now == STATE_NONE || (now != STATE_GIVEN_UP && atomic_load(&unloads) != counts.unloads))
    now = look(now, counts);
  if (now == STATE_FOUND)
    now = begin();
  atomic_flag_clear_explicit(&is_busy, memory_order_release);
  return now;
}

const gp_python_t *gp_python_find(gp_loader_counts_t counts)
{
  state_t now = atomic_load_explicit(&state, memory_order_acquire);

  if (now == STATE_GIVEN_UP ||
      (now == STATE_NONE && atomic_load_explicit(&loads, memory_order_acquire) == counts.loads))
    return NULL;
  if (now != STATE_READY || atomic_load_explicit(&unloads, memory_order_relaxed) != counts.unloads)
    now = advance(now, counts);
  if (now != STATE_READY || !the_python.is_initialized() ||
      !is_alone(the_python.first_interpreter, the_python.main_interpreter))
    return NULL;
  return &the_python;
}
