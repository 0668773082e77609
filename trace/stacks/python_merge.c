#include "trace/stacks/python_merge.h"

#include "trace/stacks/python_frames.h"
#include "format/stack_log.h"

typedef struct merge {
  const uint64_t *words;
  size_t count;
  size_t next; /* of words */
  uint64_t *to;
  size_t used;
  size_t capacity;
} merge_t;

static void put(merge_t *merge, uint64_t frame)
{
  if (merge->used < merge->capacity)
    merge->to[merge->used++] = frame;
}

/* Puts the Python frames of the next run; if is_last, of all that are left. */
static void put_run(merge_t *merge, bool is_last)
{
  bool is_entry = false;
  while (merge->next < merge->count && (is_last || !is_entry)) {
    uint64_t word = merge->words[merge->next++];
    is_entry = gp_frame_is_entry(word);
    if (word != GP_PYTHON_EMPTY_RUN)
      put(merge, word);
  }
}

/* The native frames of a call. */
typedef struct native {
  const gp_python_t *python;
  const uint64_t *frames;
  size_t count;
  bool has_part; /* the longest function is a part of the loop */
} native_t;

static bool is_in(const native_t *native, size_t i, uintptr_t start, uintptr_t end)
{
  return i < native->count && gp_frame_address(native->frames[i]) >= start &&
         gp_frame_address(native->frames[i]) < end;
}

static bool is_interpreters(const native_t *native, size_t i)
{
  return is_in(native, i, native->python->start, native->python->end);
}

/* The outermost frame of a run of the loop: where the loop has calls, as with tail calls, they are inside. */
static bool is_loop(const native_t *native, size_t i)
{
  const gp_python_t *python = native->python;
  return is_in(native, i, python->loop, python->loop_end) ||
         (native->has_part && is_in(native, i, python->part, python->part_end) &&
             !is_in(native, i + 1, python->loop, python->loop_end));
}

static size_t count_loops(const native_t *native)
{
  size_t loops = 0;
  for (size_t i = 0; i < native->count; i++)
    loops += is_loop(native, i);
  return loops;
}

/*
 * With -X perf the interpreter calls its loop through code that it makes for each function, so that perf sees
 * the function. Such a frame says what the Python frame beside it says. Unwinders may end there.
 */
static bool is_trampoline(const native_t *native, size_t i)
{
  return i > 0 && gp_frame_module(native->frames[i]) < 0 && is_loop(native, i - 1) &&
         (i + 1 == native->count || native->python->start == native->python->end ||
             is_interpreters(native, i + 1));
}

/*
 * Runs and native frames of the loop belong together one by one from the innermost outwards. There may be
 * more runs: the native stack is cut, or the compiler put a part of the loop elsewhere. There may be more
 * native frames: in a greenlet. The longest function counts as a part of the loop where there are not enough
 * frames without it, and not too many with it.
 */
size_t gp_python_merge(const gp_python_t *python, const uint64_t *frames, size_t frame_count, bool is_cut,
    const uint64_t *words, size_t count, uint64_t *ret_words, size_t capacity)
{
  merge_t merge = {.words = words, .count = count, .to = ret_words, .capacity = capacity};
  native_t native = {python, frames, frame_count, true};
  size_t runs = 0;

  for (size_t i = 0; i < count; i++)
    runs += gp_frame_is_entry(words[i]);
  size_t with_part = count_loops(&native);
  native.has_part = false;
  size_t loops = count_loops(&native);
  if (loops < runs && with_part <= runs) {
    native.has_part = true;
    loops = with_part;
  }
  for (size_t i = 0; i < frame_count; i++) {
    if (is_loop(&native, i) && merge.next < count)
      put_run(&merge, --loops == 0 && !is_cut);
    else if (!is_interpreters(&native, i) && !is_trampoline(&native, i))
      put(&merge, frames[i]);
  }
  put_run(&merge, true);
  return merge.used;
}
