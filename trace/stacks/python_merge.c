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

static bool is_loop(const gp_python_t *python, uint64_t frame, bool has_part)
{
  uint64_t address = gp_frame_address(frame);
  return (address >= python->loop && address < python->loop_end) ||
         (has_part && address >= python->part && address < python->part_end);
}

static size_t count_loops(const gp_python_t *python, const uint64_t *native, size_t count, bool has_part)
{
  size_t loops = 0;
  for (size_t i = 0; i < count; i++)
    loops += is_loop(python, native[i], has_part);
  return loops;
}

static bool is_interpreters(const gp_python_t *python, uint64_t frame)
{
  uint64_t address = gp_frame_address(frame);
  return address >= python->start && address < python->end;
}

/*
 * With -X perf the interpreter calls its loop through code that it makes for each function, so that perf sees
 * the function. Such a frame says what the Python frame beside it says. Unwinders may end there.
 */
static bool is_trampoline(
    const gp_python_t *python, const uint64_t *native, size_t count, size_t i, bool has_part)
{
  return i > 0 && gp_frame_module(native[i]) < 0 && is_loop(python, native[i - 1], has_part) &&
         (i + 1 == count || python->start == python->end || is_interpreters(python, native[i + 1]));
}

/*
 * Runs and native frames of the loop belong together one by one from the innermost outwards. There may be
 * more runs: the native stack is cut, or the compiler put a part of the loop elsewhere. There may be more
 * native frames: in a greenlet. The longest function counts as a part of the loop where there are not enough
 * frames without it, and not too many with it.
 */
size_t gp_python_merge(const gp_python_t *python, const uint64_t *native, size_t native_count, bool is_cut,
    const uint64_t *words, size_t count, uint64_t *ret_words, size_t capacity)
{
  merge_t merge = {.words = words, .count = count, .to = ret_words, .capacity = capacity};
  size_t runs = 0;

  for (size_t i = 0; i < count; i++)
    runs += gp_frame_is_entry(words[i]);
  size_t loops = count_loops(python, native, native_count, false);
  size_t with_part = count_loops(python, native, native_count, true);
  bool has_part = loops < runs && with_part <= runs;
  if (has_part)
    loops = with_part;
  for (size_t i = 0; i < native_count; i++) {
    if (is_loop(python, native[i], has_part) && merge.next < count)
      put_run(&merge, --loops == 0 && !is_cut);
    else if (!is_interpreters(python, native[i]) && !is_trampoline(python, native, native_count, i, has_part))
      put(&merge, native[i]);
  }
  put_run(&merge, true);
  return merge.used;
}
