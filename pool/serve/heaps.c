#include "pool/serve/heaps.h"

#include <pthread.h>
#include <unistd.h>

#include "base/pages.h"

_Thread_local gp_own_heaps_t gp_own_heaps __attribute__((tls_model("initial-exec")));

/* The engines that have heaps. The end of a thread consults the list, so that it does not access heaps of a
 * destroyed engine. */
static gp_lock_t engines_lock = GP_LOCK_INIT(GP_RANK_OWNERS);
static gp_list_t engines = {&engines, &engines};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static pid_t key_pid;

/* Maximum number of steps back in the search for a returned block's position in the list of deferred blocks.
 */
#define MOST_STEPS 256

/* Adds the heap's counts to the device's statistics. The caller holds the locks of the device and of the
 * heap. */
static void fold(gp_engine_t *engine, gp_heap_t *heap)
{
  gp_assert_internal(gp_lock_is_held(&heap->lock));
  heap->served += heap->counts->amounts.allocs;
  gp_heap_counts_fold(heap->counts, gp_device_stats(heap->device));
  heap->now_ns = gp_device_time(heap->device, heap->now_ns);
  if (engine->observer.join)
    engine->observer.join(engine->observer.self, heap->device->ordinal, heap->event_ns);
  atomic_store_explicit(&heap->has_news, false, memory_order_relaxed);
}

bool gp_heap_record_alloc(
    gp_engine_t *engine, gp_heap_t *heap, gp_block_t *block, uint64_t requested, uint64_t now_ns)
{
  const gp_observer_t *observer = &engine->observer;
  const gp_next_owner_t next = {.requested = requested,
      .block_id = gp_heap_next_block_id(engine, heap, block->block_id),
      .origin = gp_origin(engine)};
  uint64_t time_ns = 0;

  gp_assert_internal(gp_lock_is_held(&heap->lock));
  if (heap->now_ns < now_ns)
    heap->now_ns = now_ns;
  if (observer->reuse && block->observer_cookie.slot != 0)
    time_ns = observer->reuse(observer->self, &block->observed, &next, heap->device->ordinal,
        block->segment != NULL, &heap->event_ns, heap->now_ns);
  if (time_ns == 0) {
    heap->is_refused = true;
    gp_heap_note_news(heap); /* makes the next fold handle is_refused */
    return false;
  }
  block->requested = next.requested;
  block->block_id = next.block_id;
  block->origin = next.origin;
  block->time_ns = time_ns;
  return true;
}

/* Updates the sums of the fence policy (fence_policy.h) after a block has become deferred. */
static void note_freed(const gp_engine_t *engine, gp_device_t *device, const gp_block_t *block)
{
  uint64_t covered = gp_covered(engine);

  if (block->free_epoch <= covered)
    return;
  if (device->newest_free_epoch <= covered)
    device->freed_since_fence = 0;
  if (device->newest_free_epoch < block->free_epoch)
    device->newest_free_epoch = block->free_epoch;
  device->freed_since_fence += block->size;
}

/* Inserts the block into the list of deferred blocks, before `place` or further ahead, so that the list stays
 * in the order of stamps. If the position is too far away, raises the block's stamp instead. Returns the
 * block's link. */
static gp_list_t *defer_before(gp_block_t *block, gp_list_t *place, unsigned *steps)
{
  gp_list_t *deferred = &block->context->deferred;

  while (*steps > 0 && place->prev != deferred &&
         gp_list_entry(place->prev, gp_block_t, order)->free_epoch > block->free_epoch) {
    place = place->prev;
    (*steps)--;
  }
  if (place->prev != deferred &&
      gp_list_entry(place->prev, gp_block_t, order)->free_epoch > block->free_epoch)
    block->free_epoch = gp_list_entry(place->prev, gp_block_t, order)->free_epoch;
  gp_list_insert_after(place->prev, &block->order);
  return &block->order;
}

/* Makes a block deferred that was just removed from its heap. The heap has been folded. Returns the block's
 * link. */
static gp_list_t *defer(gp_engine_t *engine, gp_block_t *block, gp_list_t *place, unsigned *steps)
{
  gp_assert_internal(block->state == GP_STATE_LIVE && block->refs == 1 && block->is_kept);
  block->is_kept = false;
  atomic_store_explicit(&block->home, NULL, memory_order_relaxed);
  block->refs = 0;
  block->state = GP_STATE_DEFERRED;
  block->context->deferred_bytes += block->size;
  if (!block->segment)
    block->bin->deferred_count++;
  note_freed(engine, block->context->device, block);
  return defer_before(block, place, steps);
}

/* Removes the heap's oldest block from its bin, in which it is also the oldest. */
static void leave_bin(gp_heap_t *heap, const gp_block_t *block)
{
  gp_heap_bin_t *bin = gp_heap_bin(heap, block->size);

  gp_assert_internal(bin->oldest == &block->in_bin);
  bin->oldest = block->in_bin.next;
  if (!bin->oldest)
    bin->newest = NULL;
}

/* Returns the heap's `count` oldest blocks to the device, which defers them as if they had just been freed.
 * The caller holds the locks of the device and of the heap. */
static void give(gp_engine_t *engine, gp_heap_t *heap, uint32_t count)
{
  gp_list_t *place = &heap->context->deferred;
  gp_list_t *link = &heap->blocks;
  unsigned steps = MOST_STEPS;

  gp_assert_internal(gp_lock_is_held(&heap->lock) && gp_lock_is_held(&heap->device->lock));
  fold(engine, heap);
  for (uint32_t i = 0; i < count; i++) {
    link = link->next;
    leave_bin(heap, gp_list_entry(link, gp_block_t, order));
    heap->bytes -= gp_list_entry(link, gp_block_t, order)->size;
  }
  while (link != &heap->blocks) { /* newest first, so that each position is near the previous one */
    gp_block_t *block = gp_list_entry(link, gp_block_t, order);
    link = link->prev;
    gp_list_remove(&block->order);
    place = defer(engine, block, place, &steps);
  }
  gp_heap_set_kept(heap, atomic_load_explicit(&heap->kept, memory_order_relaxed) - count);
}

/* Closes the heap, which first returns all its blocks. The caller holds the device's lock. */
static void close_heap(gp_engine_t *engine, gp_heap_t *heap)
{
  gp_lock_take_polled(&heap->lock);
  give(engine, heap, atomic_load_explicit(&heap->kept, memory_order_relaxed));
  gp_assert_internal(gp_list_is_empty(&heap->blocks) && heap->bytes == 0);
  heap->context = NULL;
  heap->device->open_heaps--;
  atomic_fetch_sub_explicit(&engine->open_heaps, 1, memory_order_relaxed);
  gp_lock_release_polled(&heap->lock);
}

/* After this many allocations judge() checks whether the heap saves its thread time. If it does not, the heap
 * stays closed for a number of hits, between FIRST_REST and LONGEST_REST. */
#define JUDGED_ALLOCATIONS 1024
#define FIRST_REST         4096
#define LONGEST_REST       65536

/* Closes the heap if it costs its thread more time than it saves. A request that the heap could not serve
 * costs twice the time that a request from the heap saves. */
static void judge(gp_engine_t *engine, gp_heap_t *heap)
{
  if (heap->served + heap->missed < JUDGED_ALLOCATIONS)
    return;
  bool serves = heap->served >= 2 * heap->missed;
  heap->served = heap->missed = 0;
  if (serves) {
    heap->next_rest = FIRST_REST;
    return;
  }
  if (heap->context)
    close_heap(engine, heap);
  heap->rest = heap->next_rest;
  heap->next_rest = 2 * heap->rest < LONGEST_REST ? 2 * heap->rest : LONGEST_REST;
}

void gp_heap_fold(gp_engine_t *engine, gp_heap_t *heap, bool is_alloc)
{
  gp_lock_take_polled(&heap->lock);
  fold(engine, heap);
  if (heap->is_refused) {
    heap->is_refused = false;
    if (heap->context)
      give(engine, heap, atomic_load_explicit(&heap->kept, memory_order_relaxed));
  }
  gp_lock_release_polled(&heap->lock);
  heap->missed += is_alloc;
  if (is_alloc)
    judge(engine, heap);
}

void gp_heaps_collect_open(gp_engine_t *engine, gp_device_t *device)
{
  for (gp_heap_t *heap = device->heaps; heap; heap = heap->next)
    if (heap->context)
      close_heap(engine, heap);
  gp_assert_internal(device->open_heaps == 0);
}

bool gp_heaps_keep(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  for (const gp_heap_t *heap = device->heaps; heap; heap = heap->next)
    if (atomic_load_explicit(&heap->kept, memory_order_relaxed) > 0)
      return true;
  return false;
}

void gp_heaps_settle(gp_engine_t *engine, gp_device_t *device)
{
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  gp_lock_release(&device->lock);
}

/* Removes a kept block, which need not be the oldest, from the heap. */
static void take_out(gp_heap_t *heap, gp_block_t *block)
{
  gp_heap_bin_t *bin = gp_heap_bin(heap, block->size);
  gp_bin_entry_t *before = NULL;

  for (gp_bin_entry_t *entry = bin->oldest; entry != &block->in_bin; entry = entry->next)
    before = entry;
  if (before)
    before->next = block->in_bin.next;
  else
    bin->oldest = block->in_bin.next;
  if (bin->newest == &block->in_bin)
    bin->newest = before;
  gp_list_remove(&block->order);
  heap->bytes -= block->size;
  gp_heap_set_kept(heap, atomic_load_explicit(&heap->kept, memory_order_relaxed) - 1);
}

void gp_heap_disown(gp_engine_t *engine, gp_block_t *block)
{
  gp_device_t *device = block->context->device;
  gp_heap_t *heap = atomic_load_explicit(&block->home, memory_order_relaxed);
  unsigned steps = MOST_STEPS;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (heap->context) {
    gp_lock_take_polled(&heap->lock);
    fold(engine, heap);
    if (block->is_kept) {
      take_out(heap, block);
      (void)defer(engine, block, &block->context->deferred, &steps);
    }
    uint32_t kept = atomic_load_explicit(&heap->kept, memory_order_relaxed);
    if (kept >= GP_HEAP_BLOCKS || heap->bytes + block->size > GP_HEAP_BYTES) /* a free found the heap full */
      give(engine, heap, (kept + 1) / 2);
    /* Must come before the lock is released, because another thread's free of the block may be about to put
     * the block into the heap. */
    atomic_store_explicit(&block->home, NULL, memory_order_relaxed);
    gp_lock_release_polled(&heap->lock);
  } else {
    atomic_store_explicit(&block->home, NULL, memory_order_relaxed);
  }
}

/* A thread's heap switches to another context after this many requests in other contexts. */
#define OTHER_CONTEXTS 64

/* Returns true if heaps may be opened. While idle memory has to be released, or the observer watches the
 * device's use, all frees take the device's lock. */
static bool may_open(const gp_engine_t *engine, const gp_device_t *device)
{
  return gp_engine_reuse_mode(engine) == GP_MODE_CONTEXT && gp_engine_service(engine) == GP_SERVICE_POOL &&
         !device->lowered && device->wanted_back == 0 && device->watched_use == UINT64_MAX;
}

/* Moves the heap's counts to the memory that the observer provides. The heap is closed and has nothing to
 * fold, so the counts there may start at zero. */
static void place_counts(gp_engine_t *engine, gp_heap_t *heap)
{
  gp_heap_counts_t *place = NULL;

  if (heap->counts == &heap->own_counts && engine->observer.place_heap)
    place = engine->observer.place_heap(engine->observer.self, heap->number);
  if (!place)
    return;
  *place = (gp_heap_counts_t){.device = (uint32_t)heap->device->ordinal + 1};
  heap->counts = place;
}

void gp_heap_open(gp_engine_t *engine, gp_heap_t *heap, gp_context_t *context)
{
  gp_device_t *device = heap->device;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (heap->context && heap->other_contexts++ < OTHER_CONTEXTS)
    return;
  if (heap->context)
    close_heap(engine, heap);
  if (!may_open(engine, device))
    return;
  gp_lock_take_polled(&heap->lock);
  place_counts(engine, heap);
  heap->context = context;
  heap->now_ns = device->newest_ns;
  heap->other_contexts = 0;
  device->open_heaps++;
  atomic_fetch_add_explicit(&engine->open_heaps, 1, memory_order_relaxed);
  gp_lock_release_polled(&heap->lock);
}

/* Releases a heap at the end of its thread, so that another thread can get the heap. The heap's blocks return
 * to the device. Blocks that the program still uses keep the heap as their home. */
static void give_up(gp_engine_t *engine, gp_heap_t *heap)
{
  gp_lock_take(&heap->device->lock);
  if (heap->context)
    close_heap(engine, heap);
  heap->is_owned = false;
  gp_lock_release(&heap->device->lock);
}

/* Gives up all heaps of the thread. */
static void give_up_all(void)
{
  gp_own_heaps_t own = gp_own_heaps;

  gp_own_heaps = (gp_own_heaps_t){.serial = 0};
  gp_lock_take(&engines_lock);
  gp_assert(gp_lock_is_held(&engines_lock));
  GP_LIST_EACH(&engines, gp_engine_t, with_heaps, engine) {
    if (engine->serial != own.serial)
      continue;
    for (gp_heap_t *heap = own.first, *next; heap; heap = next) {
      next = heap->thread_next; /* read now, because a heap that is given up may belong to another thread */
      give_up(engine, heap);
    }
    break;
  }
  gp_lock_release(&engines_lock);
}

/* Called at the end of a thread. A later destructor may allocate, which makes the thread an owner again and
 * calls this function again. In a forked child no thread may release the locks, so this does nothing there.
 */
static void thread_ended(void *self)
{
  (void)self;
  if (getpid() == key_pid)
    give_up_all();
}

static void make_key(void)
{
  key_pid = getpid();
  has_key = pthread_key_create(&key, thread_ended) == 0;
}

static gp_heap_t *make_heap(gp_engine_t *engine, gp_device_t *device)
{
  gp_heap_t *heap = gp_pages_map(sizeof(*heap), false);

  if (!heap)
    return NULL;
  heap->number = atomic_fetch_add(&engine->heap_count, 1);
  if (heap->number >= GP_HEAPS_MAX) {
    atomic_fetch_sub(&engine->heap_count, 1);
    gp_pages_unmap(heap, sizeof(*heap));
    return NULL;
  }
  heap->device = device;
  heap->counts = &heap->own_counts;
  heap->is_owned = true;
  heap->next_rest = FIRST_REST;
  gp_lock_init(&heap->lock, GP_RANK_HEAP);
  gp_list_init(&heap->blocks);
  return heap;
}

/* Returns a heap that no thread owns, or NULL if there is none. */
static gp_heap_t *reuse_heap(gp_device_t *device)
{
  gp_heap_t *heap;

  gp_lock_take(&device->lock);
  for (heap = gp_locked(device)->heaps; heap && heap->is_owned; heap = heap->next) {
  }
  if (heap) {
    heap->is_owned = true;
    heap->rest = 0;
    heap->next_rest = FIRST_REST;
    heap->served = heap->missed = 0;
  }
  gp_lock_release(&device->lock);
  return heap;
}

static gp_heap_t *get_heap(gp_engine_t *engine, gp_device_t *device)
{
  gp_heap_t *heap = reuse_heap(device);

  if (heap || !(heap = make_heap(engine, device)))
    return heap;
  gp_lock_take(&device->lock);
  heap->next = gp_locked(device)->heaps;
  device->heaps = heap;
  gp_lock_release(&device->lock);
  return heap;
}

/* Removes the thread's heap of the device from the thread's list and returns it. Returns NULL if the thread
 * has none. */
static gp_heap_t *take_own(const gp_device_t *device)
{
  for (gp_heap_t **link = &gp_own_heaps.first; *link; link = &(*link)->thread_next)
    if ((*link)->device == device) {
      gp_heap_t *heap = *link;
      *link = heap->thread_next;
      return heap;
    }
  return NULL;
}

/* A thread that could not get a heap tries again after this many allocations. */
#define PAUSE 1024

void gp_heap_find_own(gp_engine_t *engine, gp_device_t *device)
{
  if (gp_own_heaps.pause > 0 && gp_own_heaps.serial == engine->serial) {
    gp_own_heaps.pause--;
    return;
  }
  gp_assert(!gp_holds_engine_lock());
  if (gp_own_heaps.serial != engine->serial) {
    (void)pthread_once(&key_once, make_key);
    if (gp_own_heaps.first)
      give_up_all(); /* these heaps belong to another engine */
    gp_own_heaps.serial = engine->serial;
  }
  gp_heap_t *heap = take_own(device);
  if (!heap &&
      (!has_key || pthread_setspecific(key, &gp_own_heaps) != 0 || !(heap = get_heap(engine, device)))) {
    gp_own_heaps.pause = PAUSE;
    return;
  }
  heap->thread_next = gp_own_heaps.first;
  gp_own_heaps.first = heap;
}

bool gp_heaps_locks_available(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  for (gp_heap_t *heap = device->heaps; heap; heap = heap->next) {
    if (!gp_lock_take_polled_within(&heap->lock, 1))
      return false;
    gp_lock_release_polled(&heap->lock);
  }
  return true;
}

void gp_heaps_init(gp_engine_t *engine)
{
  engine->has_heaps = engine->type->keeps_blocks && !engine->fills && !gp_damage_is_checked(engine) &&
                      engine->max_cached == UINT64_MAX && gp_engine_reuse_mode(engine) != GP_MODE_STRICT;
  gp_lock_take(&engines_lock);
  gp_list_push_back(&engines, &engine->with_heaps);
  gp_lock_release(&engines_lock);
}

void gp_heaps_fini(gp_engine_t *engine)
{
  gp_lock_take(&engines_lock);
  gp_list_remove(&engine->with_heaps);
  gp_lock_release(&engines_lock);
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    while (engine->devices[i].heaps) {
      gp_heap_t *heap = engine->devices[i].heaps;
      engine->devices[i].heaps = heap->next;
      gp_pages_unmap(heap, sizeof(*heap));
    }
}
