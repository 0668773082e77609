#include "trace/stacks/python_codes.h"

#include "base/pages.h"
#include "trace/stacks/python_layout.h"

typedef struct merge {
  const uint64_t *words;
  size_t count;
  size_t next; /* index of the next word in `words` */
  uint64_t *to;
  size_t used;
  size_t capacity;
} merge_t;

static void put(merge_t *merge, uint64_t frame)
{
  if (merge->used < merge->capacity)
    merge->to[merge->used++] = frame;
}

/* Appends the Python frames of the next run of the loop. If is_last is set, appends those of all remaining
 * runs. */
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
  bool has_part; /* the interpreter's longest function counts as a part of the loop */
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

/* Returns true if frame i is the outermost native frame of a run of the loop. If the loop consists of several
 * functions, as with tail calls, their frames are further in. */
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
 * Returns true if frame i is a perf trampoline. With -X perf the interpreter calls its loop through code that
 * it generates for each Python function, so that perf sees the function. The trampoline's frame only repeats
 * the adjacent Python frame. Unwinders may stop there.
 */
static bool is_trampoline(const native_t *native, size_t i)
{
  return i > 0 && gp_frame_module(native->frames[i]) < 0 && is_loop(native, i - 1) &&
         (i + 1 == native->count || native->python->start == native->python->end ||
             is_interpreters(native, i + 1));
}

/*
 * Pairs each run with a native frame of the loop, from the innermost outwards. There may be more runs than
 * native frames of the loop, if the native stack is truncated or if the compiler moved a part of the loop
 * elsewhere. In a greenlet there may be more native frames than runs. The longest function counts as a part
 * of the loop if there are too few native frames without it, and not too many with it.
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

/* Returns the index of the frame's instruction in the thread's own copy of the instructions. Not inlined,
 * because it is slow and rarely called, as stacks repeat. */
static __attribute__((noinline)) uint64_t instruction_in_copy(
    const gp_python_t *python, uintptr_t frame, uintptr_t code)
{
  uintptr_t copy = gp_python_copy_of(python, frame, code);
  uint64_t at = (gp_python_word(frame + python->frame_instruction) - copy) / 2;
  return copy && at < gp_python_size(python, code) ? at : GP_FRAME_INSTRUCTION_NONE;
}

/* Returns the index of the frame's instruction in units of two bytes. Returns GP_FRAME_INSTRUCTION_NONE if
 * the index is unknown or too large. */
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

/* Returns true if the frame itself is marked as the outermost frame of its run, as in GP_PYTHON_OBJECTS and
 * GP_PYTHON_FLAGS. */
static inline bool is_entry(const gp_python_t *python, gp_python_chain_t chain, uintptr_t frame)
{
  return chain == GP_PYTHON_OBJECTS ||
         (chain == GP_PYTHON_FLAGS && *(const uint8_t *)(frame + python->frame_end) != 0);
}

/* Does what gp_python_frames does. Inlined once for each kind of chain. */
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

/* Returns a number that proves that the code object is still the one that was at this address before. Returns
 * 0 if there is no proof. Objects other than code objects, such as None, are never freed and need no
 * proof. */
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
  size_t left = 2 * capacity; /* at least every second frame adds a word */

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

#define SLOTS (GP_CODES_MAX * 2) /* at least half of the slots are always empty, so every search ends */

/* Maximum sizes of names, paths and line tables. Longer ones are truncated; lines beyond the kept part of a
 * table are unknown. */
#define TEXT_BYTES_MAX  4096u
#define TABLE_BYTES_MAX (256u * 1024)

static_assert(GP_CODES_MAX <= 1u << (64 - GP_CODE_INDEX_BIT), "an index beside an address");

bool gp_codes_init(gp_codes_t *codes, gp_region_t *region)
{
  gp_codes_t made = {.region = region};

  made.log = gp_region_section(region, GP_SECTION_CODES, &made.log_bytes);
  made.slots = gp_pages_map(SLOTS * sizeof(*made.slots), false);
  made.hints = gp_pages_map(GP_CODE_HINTS * sizeof(*made.hints), false);
  made.facts = gp_pages_map(GP_CODES_MAX * sizeof(*made.facts), false);
  if (!made.slots || !made.hints || !made.facts) {
    gp_codes_fini(&made);
    return false;
  }
  gp_lock_init(&made.lock, GP_RANK_STACKS);
  *codes = made;
  return true;
}

void gp_codes_fini(gp_codes_t *codes)
{
  gp_pages_unmap(codes->slots, SLOTS * sizeof(*codes->slots));
  gp_pages_unmap(codes->hints, GP_CODE_HINTS * sizeof(*codes->hints));
  gp_pages_unmap(codes->facts, GP_CODES_MAX * sizeof(*codes->facts));
  *codes = (gp_codes_t){0};
}

static inline uint64_t load(const uint8_t *at, size_t bytes)
{
  uint64_t word = 0;
  memcpy(&word, at, bytes);
  return word;
}

static inline uint64_t digest_of(const uint8_t *at, size_t length, uint64_t hash)
{
  size_t left = length;

  for (; left > 16; left -= 16, at += 16)
    hash = gp_digest_fold(load(at, 8) ^ GP_DIGEST_SEED, load(at + 8, 8) ^ hash);
  if (left >= 8)
    return gp_digest_fold(load(at, 8) ^ length, load(at + left - 8, 8) ^ hash);
  if (left >= 4)
    return gp_digest_fold(load(at, 4) ^ length, load(at + left - 4, 4) ^ hash);
  return left ? gp_digest_fold(
                    (uint64_t)at[0] << 16 | (uint64_t)at[left / 2] << 8 | at[left - 1], hash ^ ~length)
              : hash;
}

static inline uint64_t digest_of_text(const gp_python_t *python, uintptr_t text, uint64_t hash)
{
  gp_python_text_t got = gp_python_text(python, text);
  return digest_of(got.characters, got.length * got.character, hash + got.character);
}

static inline int32_t first_line_of(const gp_python_t *python, uintptr_t code)
{
  return *(const int32_t *)(code + python->code_first_line);
}

uint64_t gp_codes_read_file(const gp_python_t *python, uintptr_t text, gp_code_file_t *file)
{
  *file = (gp_code_file_t){text, digest_of_text(python, text, GP_DIGEST_SEED)};
  return file->digest;
}

/* Returns a digest of a code object's contents. The digest is never 0. */
static uint64_t digest_of_code(const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uintptr_t table = gp_python_word(code + python->code_table);
  uint64_t line = (uint32_t)first_line_of(python, code);

  /* Computes two digests in parallel, because each step of one digest must wait for the previous step. */
  uint64_t name_digest =
      digest_of_text(python, gp_python_word(code + python->code_name), gp_codes_file(python, code, file));
  uint64_t table_digest =
      digest_of(gp_python_bytes(python, table), gp_python_size(python, table), line + GP_DIGEST_SEED);
  return gp_digest_fold(name_digest, table_digest) | 1;
}

static gp_code_slot_t *find(gp_codes_t *codes, uint64_t digest, uint64_t *ret_there)
{
  for (uint32_t i = (uint32_t)(digest >> 32);; i++) {
    gp_code_slot_t *slot = &codes->slots[i & (SLOTS - 1)];
    *ret_there = atomic_load_explicit(&slot->digest, memory_order_acquire);
    if (!*ret_there || *ret_there == digest)
      return slot;
  }
}

/* Writes the text in UTF-8, truncated to TEXT_BYTES_MAX, and returns its length. A lone surrogate is encoded
 * like any other character; readers do not accept it as text. */
static uint32_t copy_text(const gp_python_t *python, uintptr_t text, char *to)
{
  gp_python_text_t got = gp_python_text(python, text);
  uint32_t used = 0;

  for (size_t i = 0; i < got.length && used + 4 <= TEXT_BYTES_MAX; i++) {
    uint32_t c = 0;
    memcpy(&c, got.characters + i * got.character, got.character);
    if (c < 0x80) {
      to[used++] = (char)c;
      continue;
    }
    unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* number of bytes that follow */
    to[used++] = (char)((0xff00u >> (more + 1) & 0xffu) | c >> 6 * more);
    while (more-- > 0)
      to[used++] = (char)(0x80 | (c >> 6 * more & 0x3f));
  }
  return used;
}

/* Copies the code object to the end of the log. Returns its index, or GP_FRAME_CODE_NONE if there is no
 * room. */
static uint32_t append(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  gp_code_log_t *log = codes->log;
  uintptr_t table = gp_python_word(code + python->code_table);
  size_t table_length = gp_python_size(python, table);

  if (table_length > TABLE_BYTES_MAX)
    table_length = TABLE_BYTES_MAX;
  if (!gp_region_grow(codes->region, GP_SECTION_CODES, sizeof(*log)))
    return GP_FRAME_CODE_NONE;
  uint32_t index = atomic_load_explicit(&log->code_count, memory_order_relaxed);
  uint32_t used = atomic_load_explicit(&log->byte_count, memory_order_relaxed);
  gp_code_record_t *record = (gp_code_record_t *)(log->data + used);
  if (!gp_region_grow(codes->region, GP_SECTION_CODES,
          sizeof(*log) + used + sizeof(*record) + 2 * (size_t)TEXT_BYTES_MAX + table_length + 8))
    return GP_FRAME_CODE_NONE;
  record->first_line = first_line_of(python, code);
  record->line_format = python->line_format;
  record->name_length = copy_text(python, gp_python_word(code + python->code_name), record->text);
  record->file_length =
      copy_text(python, gp_python_word(code + python->code_file), record->text + record->name_length);
  record->table_length = (uint32_t)table_length;
  memcpy(
      record->text + record->name_length + record->file_length, gp_python_bytes(python, table), table_length);
  record->record_bytes =
      (uint32_t)((sizeof(*record) + record->name_length + record->file_length + table_length + 7) &
                 ~(size_t)7);
  codes->facts[index] = (gp_code_facts_t){.record = record,
      .first_line = first_line_of(python, code),
      .table_length = record->table_length,
      .table = record->text + record->name_length + record->file_length,
      .file = gp_codes_file(python, code, file),
      .name_hash = gp_python_hash(python, gp_python_word(code + python->code_name)),
      .table_hash = gp_python_hash(python, table)};
  atomic_store_explicit(&log->code_count, index + 1, memory_order_relaxed);
  atomic_store_explicit(&log->byte_count, used + record->record_bytes, memory_order_release);
  return index;
}

static __attribute__((noinline)) uint32_t intern_slowly(
    gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file, uint64_t digest)
{
  uint32_t index = GP_FRAME_CODE_NONE;
  uint64_t there;

  gp_lock_take(&codes->lock);
  gp_code_slot_t *slot = find(codes, digest, &there);
  if (there) { /* another thread has added the code object in the meantime */
    index = slot->index;
  } else if (codes->slot_count < GP_CODES_MAX) {
    index = slot->index = append(codes, python, code, file);
    codes->slot_count++;
    atomic_store_explicit(&slot->digest, digest, memory_order_release);
  }
  gp_lock_release(&codes->lock);
  return index;
}

uint32_t gp_codes_intern(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uint64_t digest = digest_of_code(python, code, file), there;
  gp_code_slot_t *slot = find(codes, digest, &there);
  uint32_t index = there ? slot->index : intern_slowly(codes, python, code, file, digest);

  if (index != GP_FRAME_CODE_NONE)
    atomic_store_explicit(gp_codes_hint(codes, code), gp_codes_make_hint(code, index), memory_order_release);
  return index;
}
