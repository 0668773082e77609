#include "trace/stacks/python_frames.h"

#include "base/assert.h"
#include "format/stack_log.h"
#include "trace/stacks/python_codes.h"
#include "trace/stacks/python_layout.h"

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

#define OWNER_C_STACK 3 /* FRAME_OWNED_BY_CSTACK of 3.12 */

/* The same in a thread's own copy of the instructions. Not inlined: reads are slow, and stacks repeat. */
static __attribute__((noinline)) uint64_t instruction_in_copy(
    const gp_python_t *python, uintptr_t frame, uintptr_t code)
{
  uintptr_t copy = gp_python_copy_of(python, frame, code);
  uint64_t at = (gp_python_word(frame + python->frame_instruction) - copy) / 2;
  return copy && at < gp_python_size(python, code) ? at : GP_FRAME_INSTRUCTION_NONE;
}

/* The instruction in units of two bytes, from the first. Beyond what has room: not known. */
static inline uint32_t instruction_of(
    const gp_python_t *python, gp_python_chain_t chain, uintptr_t frame, uintptr_t code)
{
  uint64_t at;

  if (chain == GP_PYTHON_OBJECTS)
    at = (uint64_t)(*(const int32_t *)(frame + python->frame_instruction) >> python->instruction_shift);
  else
    at = (gp_python_word(frame + python->frame_instruction) - code - python->code_start) / 2;
  if (python->frame_copy && at >= gp_python_size(python, code))
    at = instruction_in_copy(python, frame, code);
  return at < GP_FRAME_INSTRUCTION_NONE ? (uint32_t)at : GP_FRAME_INSTRUCTION_NONE;
}

static inline bool ends_run(
    const gp_python_t *python, gp_python_chain_t chain, uintptr_t frame, uintptr_t code)
{
  if (chain == GP_PYTHON_OWNERS)
    return *(const uint8_t *)(frame + python->frame_end) == OWNER_C_STACK;
  return chain == GP_PYTHON_NONES && gp_python_type(python, code) != python->code_type;
}

/* The frame is the outermost of its run. */
static inline bool is_entry(const gp_python_t *python, gp_python_chain_t chain, uintptr_t frame)
{
  return chain == GP_PYTHON_OBJECTS ||
         (chain == GP_PYTHON_FLAGS && *(const uint8_t *)(frame + python->frame_end) != 0);
}

/* Inlined for each kind of chain. */
static inline __attribute__((always_inline)) size_t walk(gp_codes_t *codes, const gp_python_t *python,
    gp_python_chain_t chain, uintptr_t frame, uint64_t *words, size_t capacity)
{
  gp_code_file_t file = {0};
  size_t count = 0;

  for (; frame && count < capacity; frame = gp_python_word(frame + python->frame_previous)) {
    uintptr_t code = gp_python_frame_code(python, frame);
    if (ends_run(python, chain, frame, code)) {
      if (count > 0 && !gp_frame_is_entry(words[count - 1]))
        words[count - 1] |= UINT64_C(1) << GP_FRAME_ENTRY_BIT;
      else
        words[count++] = GP_PYTHON_EMPTY_RUN;
      continue;
    }
    if (gp_python_type(python, code) != python->code_type) {
      gp_python_give_up("a frame has no code object");
      return 0;
    }
    words[count++] = gp_frame_pack_python(gp_codes_find(codes, python, code, &file),
        instruction_of(python, chain, frame, code), is_entry(python, chain, frame));
  }
  return count;
}

size_t gp_python_frames(gp_codes_t *codes, const gp_python_t *python, uint64_t *words, size_t capacity)
{
  uintptr_t state = (uintptr_t)python->thread_state();

  gp_assert(gp_locks_held() == 0);
  if (!state || !codes->log)
    return 0;
  uintptr_t frame = gp_python_first_frame(python, state);
  switch (python->chain) {
  case GP_PYTHON_OBJECTS: return walk(codes, python, GP_PYTHON_OBJECTS, frame, words, capacity);
  case GP_PYTHON_FLAGS: return walk(codes, python, GP_PYTHON_FLAGS, frame, words, capacity);
  case GP_PYTHON_OWNERS: return walk(codes, python, GP_PYTHON_OWNERS, frame, words, capacity);
  case GP_PYTHON_NONES: return walk(codes, python, GP_PYTHON_NONES, frame, words, capacity);
  }
  return 0;
}

/* What proves that the object is the code object that was at this address before, and no later one; 0:
 * nothing does. What is no code object stays for good. */
static inline uint64_t proof_of(const gp_python_t *python, uint64_t generation, uintptr_t code)
{
  if (!python->code_version)
    return generation;
  return gp_python_type(python, code) == python->code_type ? *(const uint32_t *)(code + python->code_version)
                                                           : 1;
}

uint64_t gp_python_walk_digest(const gp_python_t *python, size_t capacity)
{
  uintptr_t state = (uintptr_t)python->thread_state();
  uintptr_t frame = state ? gp_python_first_frame(python, state) : 0;
  uint64_t generation = python->generation ? *python->generation + 1 : 0;
  uint64_t digest = generation, proof = generation | python->code_version;
  size_t left = 2 * capacity; /* at most every second frame adds no word */

  if (!frame || !proof)
    return 0;
  if (python->copies_generation)
    digest = gp_digest_fold(digest ^ GP_DIGEST_SEED, *python->copies_generation ^ ~GP_DIGEST_SEED);
  for (; frame && left > 0 && proof; left--) {
    uintptr_t code = gp_python_frame_code(python, frame);
    uint64_t at = gp_python_word(frame + python->frame_instruction);
    proof = proof_of(python, generation, code);
    digest = gp_digest_fold(code ^ proof << 32 ^ GP_DIGEST_SEED, at ^ digest);
    frame = gp_python_word(frame + python->frame_previous);
  }
  return proof ? digest | 1 : 0;
}
