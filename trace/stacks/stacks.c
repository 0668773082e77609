#include "trace/stacks/stacks.h"

#include "base/pages.h"
#include "trace/stacks/unwind.h"

#define SLOTS  (GP_STACKS_MAX * 2) /* at least half of the slots are always empty, so every search ends */
#define WALKED (1u << 14)

static void unmap(gp_stacks_t *stacks)
{
  gp_pages_unmap(stacks->slots, SLOTS * sizeof(*stacks->slots));
  gp_pages_unmap(stacks->python_slots, SLOTS * sizeof(*stacks->python_slots));
  gp_pages_unmap(stacks->walked, WALKED * sizeof(*stacks->walked));
  gp_pages_unmap(stacks->places, GP_STACKS_MAX * sizeof(*stacks->places));
}

bool gp_stacks_init(gp_stacks_t *stacks, gp_region_t *region)
{
  static _Atomic uint64_t last_id;
  gp_stacks_t made = {.region = region};

  made.log = gp_region_section(region, GP_SECTION_STACKS, &made.log_bytes);
  made.slots = gp_pages_map(SLOTS * sizeof(*made.slots), false);
  made.python_slots = gp_pages_map(SLOTS * sizeof(*made.python_slots), false);
  made.walked = gp_pages_map(WALKED * sizeof(*made.walked), false);
  made.places = gp_pages_map(GP_STACKS_MAX * sizeof(*made.places), false);
  bool has_codes = gp_codes_init(&made.codes, region);
  if (!made.slots || !made.python_slots || !made.walked || !made.places || !has_codes ||
      !gp_modules_init(&made.modules, region)) {
    gp_codes_fini(&made.codes);
    unmap(&made);
    return false;
  }
  gp_lock_init(&made.lock, GP_RANK_STACKS);
  made.id = atomic_fetch_add(&last_id, 1) + 1;
  gp_assert(made.id != 0); /* 0 means that a thread has no table yet */
  *stacks = made;
  return true;
}

void gp_stacks_fini(gp_stacks_t *stacks)
{
  if (!stacks->log)
    return;
  gp_assert_internal(gp_lock_is_free(&stacks->lock));
  gp_modules_fini(&stacks->modules);
  gp_codes_fini(&stacks->codes);
  unmap(stacks);
  *stacks = (gp_stacks_t){0};
}

static inline uint64_t mix(uint64_t hash, uint64_t more)
{
  hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

/* Returns a hash of the addresses alone, so that a stack's hash does not depend on the loaded modules. Uses
 * four lanes, because each step within a lane must wait for the previous step. */
static uint32_t hash_of(const uintptr_t *addresses, size_t count)
{
  uint64_t lanes[4] = {count, 1, 2, 3};
  size_t i = 0;

  for (; i + 4 <= count; i += 4) {
    for (size_t k = 0; k < 4; k++)
      lanes[k] = mix(lanes[k], addresses[i + k]);
  }
  for (; i < count; i++)
    lanes[0] = mix(lanes[0], addresses[i]);
  return (uint32_t)mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
}

static bool has_addresses(const uint64_t *words, const uintptr_t *addresses, size_t count)
{
  uint64_t different = 0;

  if (words[0] != count)
    return false;
  for (size_t i = 0; i < count; i++) /* no early exit: after equal hashes, the words nearly always match */
    different |= words[1 + i] ^ (addresses[i] - 1);
  return gp_frame_address(different) == 0;
}

/* Returns the slot of these addresses in this generation of modules and sets *ret_found. If there is none,
 * returns an empty slot. Another thread may fill an empty slot at any time, so only a thread that holds the
 * lock can rely on it. */
static gp_stack_slot_t *find(gp_stacks_t *stacks, uint32_t hash, const uintptr_t *addresses, size_t count,
    uint32_t generation, bool *ret_found)
{
  for (uint32_t i = hash;; i++) {
    gp_stack_slot_t *slot = &stacks->slots[i & (SLOTS - 1)];
    uint32_t place = atomic_load_explicit(&slot->place, memory_order_acquire);
    *ret_found = place && slot->hash == hash &&
                 atomic_load_explicit(&slot->generation, memory_order_relaxed) == generation &&
                 has_addresses(&stacks->log->words[place - 1], addresses, count);
    if (!place || *ret_found)
      return slot;
  }
}

static uint64_t frame_of(gp_stacks_t *stacks, uintptr_t address)
{
  uint64_t call = address - 1;
  return gp_frame_pack(call, gp_modules_find(&stacks->modules, call));
}

/* Returns the slot of the stack with exactly these frames, or NULL if there is none. After a change of the
 * modules, the addresses may belong to different code than before, or again to the same code. */
static gp_stack_slot_t *find_same_frames(
    gp_stacks_t *stacks, uint32_t hash, const uintptr_t *addresses, size_t count)
{
  for (uint32_t i = hash;; i++) {
    gp_stack_slot_t *slot = &stacks->slots[i & (SLOTS - 1)];
    uint32_t place = atomic_load_explicit(&slot->place, memory_order_relaxed);
    if (!place)
      return NULL;
    const uint64_t *words = &stacks->log->words[place - 1];
    bool same = slot->hash == hash && words[0] == count;
    for (size_t k = 0; same && k < count; k++)
      same = words[1 + k] == frame_of(stacks, addresses[k]);
    if (same)
      return slot;
  }
}

/* Returns room for `count` words after the end of the log, where readers do not read yet. Returns NULL if
 * there is no room. */
static uint64_t *draft(gp_stacks_t *stacks, size_t count)
{
  gp_stack_log_t *log = stacks->log;

  gp_assert(gp_lock_is_held(&stacks->lock));
  if (!gp_region_grow(stacks->region, GP_SECTION_STACKS, sizeof(*log)))
    return NULL;
  uint32_t index = atomic_load_explicit(&log->stack_count, memory_order_relaxed);
  uint32_t used = atomic_load_explicit(&log->word_count, memory_order_relaxed);
  size_t bytes = sizeof(*log) + (used + 1 + count) * sizeof(log->words[0]);
  if (index == GP_STACKS_MAX || bytes > stacks->log_bytes ||
      !gp_region_grow(stacks->region, GP_SECTION_STACKS, bytes)) {
    (void)atomic_fetch_add_explicit(&log->lost, 1, memory_order_relaxed);
    return NULL;
  }
  return &log->words[used + 1];
}

/* Publishes the drafted stack of `count` words. Returns the stack's number. */
static uint32_t publish(gp_stacks_t *stacks, size_t count)
{
  gp_stack_log_t *log = stacks->log;
  uint32_t index = atomic_load_explicit(&log->stack_count, memory_order_relaxed);
  uint32_t used = atomic_load_explicit(&log->word_count, memory_order_relaxed);

  log->words[used] = count;
  stacks->places[index] = used;
  /* Release: a reader that sees the count also sees the words. */
  atomic_store_explicit(&log->stack_count, index + 1, memory_order_relaxed);
  atomic_store_explicit(&log->word_count, used + 1 + (uint32_t)count, memory_order_release);
  return index + 1;
}

/* Appends the stack and publishes it in its slot. Returns the stack's number, or 0 if there is no room. */
static uint32_t append(gp_stacks_t *stacks, gp_stack_slot_t *slot, uint32_t hash, const uintptr_t *addresses,
    size_t count, uint32_t generation)
{
  uint64_t *words = draft(stacks, count);

  if (!words)
    return 0;
  for (size_t i = 0; i < count; i++)
    words[i] = frame_of(stacks, addresses[i]);
  uint32_t number = publish(stacks, count);
  gp_assert(atomic_load_explicit(&slot->place, memory_order_relaxed) == 0);
  slot->hash = hash;
  slot->index = number - 1;
  atomic_store_explicit(&slot->generation, generation, memory_order_relaxed);
  /* Release: a thread that finds the slot also sees the words. */
  atomic_store_explicit(&slot->place, stacks->places[number - 1] + 1, memory_order_release);
  return number;
}

static __attribute__((noinline)) uint32_t intern_slowly(
    gp_stacks_t *stacks, uint32_t hash, const uintptr_t *addresses, size_t count, gp_loader_counts_t counts)
{
  uint32_t number;
  bool found;

  gp_lock_take(&stacks->lock);
  if (!gp_modules_are_current(&stacks->modules, counts))
    gp_modules_scan(&stacks->modules);
  uint32_t generation = atomic_load_explicit(&stacks->modules.generation, memory_order_relaxed);
  gp_stack_slot_t *slot = find(stacks, hash, addresses, count, generation, &found);
  if (found) { /* another thread has added the stack in the meantime */
    number = slot->index + 1;
  } else {
    gp_stack_slot_t *same = find_same_frames(stacks, hash, addresses, count);
    if (same)
      atomic_store_explicit(&same->generation, generation, memory_order_relaxed);
    number = same ? same->index + 1 : append(stacks, slot, hash, addresses, count, generation);
  }
  gp_lock_release(&stacks->lock);
  return number;
}

uint32_t gp_stacks_intern(
    gp_stacks_t *stacks, const uintptr_t *addresses, size_t count, gp_loader_counts_t counts)
{
  bool found = false;

  gp_assert(gp_locks_held() == 0);
  if (count == 0 || !stacks->log)
    return 0;
  uint32_t hash = hash_of(addresses, count);
  if (gp_modules_are_current(&stacks->modules, counts)) {
    uint32_t generation = atomic_load_explicit(&stacks->modules.generation, memory_order_relaxed);
    gp_stack_slot_t *slot = find(stacks, hash, addresses, count, generation, &found);
    if (found)
      return slot->index + 1;
  }
  return intern_slowly(stacks, hash, addresses, count, counts);
}

/* Returns a digest, which is never 0. Uses two chains, because each step within a chain must wait for the
 * previous step. */
static inline uint64_t digest_of(uint32_t native, const uint64_t *words, size_t count)
{
  uint64_t even = native ^ GP_DIGEST_SEED, odd = count ^ GP_DIGEST_SEED;
  size_t i = 0;

  for (; i + 4 <= count; i += 4) {
    even = gp_digest_fold(words[i] ^ GP_DIGEST_SEED, words[i + 1] ^ even);
    odd = gp_digest_fold(words[i + 2] ^ GP_DIGEST_SEED, words[i + 3] ^ odd);
  }
  for (; i < count; i++)
    even = gp_digest_fold(words[i] ^ GP_DIGEST_SEED, even);
  return gp_digest_fold(even, odd) | 1;
}

static gp_python_slot_t *find_python(gp_stacks_t *stacks, uint64_t digest, uint64_t *ret_there)
{
  for (uint32_t i = (uint32_t)(digest >> 32);; i++) {
    gp_python_slot_t *slot = &stacks->python_slots[i & (SLOTS - 1)];
    *ret_there = atomic_load_explicit(&slot->digest, memory_order_acquire);
    if (!*ret_there || *ret_there == digest)
      return slot;
  }
}

static __attribute__((noinline)) uint32_t intern_python_slowly(gp_stacks_t *stacks, const gp_python_t *python,
    uint64_t digest, uint32_t native, const uint64_t *words, size_t count, size_t depth)
{
  uint64_t merged[GP_UNWIND_FRAMES_MAX], there;
  uint32_t number = 0;

  gp_assert(depth <= GP_UNWIND_FRAMES_MAX);
  gp_lock_take(&stacks->lock);
  gp_python_slot_t *slot = find_python(stacks, digest, &there);
  if (there) { /* another thread has added the stack in the meantime */
    number = slot->number;
  } else {
    const uint64_t *stack = native ? &stacks->log->words[stacks->places[native - 1]] : NULL;
    size_t native_count = stack ? stack[0] : 0;
    size_t used = gp_python_merge(
        python, stack ? stack + 1 : NULL, native_count, native_count >= depth, words, count, merged, depth);
    uint64_t *to = used > 0 ? draft(stacks, used) : NULL;
    for (size_t i = 0; to && i < used; i++)
      to[i] = merged[i];
    if (to) {
      number = slot->number = publish(stacks, used);
      atomic_store_explicit(&slot->digest, digest, memory_order_release);
    }
  }
  gp_lock_release(&stacks->lock);
  return number ? number : native;
}

uint32_t gp_stacks_intern_python(gp_stacks_t *stacks, const gp_python_t *python, uint32_t native,
    const uint64_t *words, size_t count, size_t depth)
{
  uint64_t digest = digest_of(native, words, count), there;

  gp_assert(gp_locks_held() == 0 && count > 0);
  if (!stacks->log)
    return 0;
  gp_python_slot_t *slot = find_python(stacks, digest, &there);
  return there ? slot->number : intern_python_slowly(stacks, python, digest, native, words, count, depth);
}

/* The key of a walked stack, made from the walk's digest and the native stack. The number is stored XORed
 * with `cover`. */
typedef struct walked_key {
  uint64_t digest;
  uint64_t cover;
} walked_key_t;

static inline walked_key_t walked_key(uint32_t native, uint64_t digest)
{
  uint64_t both = gp_digest_fold(digest ^ native, GP_DIGEST_SEED);
  return (walked_key_t){both, both * UINT64_C(0x9e3779b97f4a7c15)};
}

uint32_t gp_stacks_recall(const gp_stacks_t *stacks, uint32_t native, uint64_t digest)
{
  if (!stacks->log || !digest)
    return 0;
  walked_key_t key = walked_key(native, digest);
  gp_walked_stack_t *place = &stacks->walked[key.digest & (WALKED - 1)];
  uint64_t number = atomic_load_explicit(&place->number, memory_order_acquire) ^ key.cover;
  bool is_there = atomic_load_explicit(&place->digest, memory_order_relaxed) == key.digest;
  return is_there && number <= GP_STACKS_MAX ? (uint32_t)number : 0;
}

void gp_stacks_remember(gp_stacks_t *stacks, uint32_t native, uint64_t digest, uint32_t number)
{
  if (!stacks->log || !digest || !number)
    return;
  walked_key_t key = walked_key(native, digest);
  gp_walked_stack_t *place = &stacks->walked[key.digest & (WALKED - 1)];
  atomic_store_explicit(&place->digest, key.digest, memory_order_relaxed);
  atomic_store_explicit(&place->number, number ^ key.cover, memory_order_release);
}

/* Returns whole sections. Readers read only as far as the counts in a log say, and that part is always
 * present. */
gp_stack_logs_t gp_stacks_logs(const gp_stacks_t *stacks)
{
  const gp_modules_t *modules = &stacks->modules;
  gp_stack_logs_t logs = {0};
  if (!stacks->log || gp_region_used(stacks->region, GP_SECTION_STACKS) < sizeof(*stacks->log))
    return logs;
  logs.stacks = stacks->log;
  logs.stack_bytes = stacks->log_bytes;
  /* Reads these logs after the stacks. Modules and code objects are logged before any stack refers to them,
   * so none is missing. */
  if (gp_region_used(modules->region, GP_SECTION_MODULES) >= sizeof(*modules->log)) {
    logs.modules = modules->log;
    logs.module_bytes = modules->log_bytes;
  }
  if (gp_region_used(stacks->region, GP_SECTION_CODES) >= sizeof(*stacks->codes.log)) {
    logs.codes = stacks->codes.log;
    logs.code_bytes = stacks->codes.log_bytes;
  }
  return logs;
}
