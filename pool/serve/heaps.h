/*
 * Heaps: per-thread caches of freed blocks. A thread's heap keeps freed blocks of up to GP_HEAP_BLOCK_MAX, in
 * the order of their stamps, and the thread's next allocations reuse the blocks that are covered. Such a free
 * or allocation takes only the heap's own lock.
 *
 * The home of a block is the heap of the thread that got the block from the device's lists. Whichever thread
 * frees the block puts it there. Until the heap returns the block to the device's list of deferred blocks,
 * the device sees the block as LIVE, and the device's statistics lack the free. A heap counts its allocations
 * and frees since it last added them to the statistics (a fold). Readers of the record add the heaps' counts
 * (format/heap_counts.h). The device's lists, statistics and decisions are exact only after one of these:
 * - gp_heaps_collect makes all heaps of the device return all blocks, and closes them. Then the state is as
 *   if each block had just been freed, and stays so while the caller holds the device's lock. Any code that
 *   examines more than one block calls it, and so does a miss. So no heap keeps memory that another request
 *   could use.
 * - gp_heap_disown does the same for one block, which has no home from then on.
 *
 * A heap is opened under the device's lock, by its thread's next hit, in mode `context` only. The events of a
 * heap are later than the device's events before the heap was opened, and earlier than the device's events
 * after the fold. Therefore the events of one block are ordered by time, whichever heap it was in. Events of
 * two heaps may have the same time. With one thread, peaks are exact. With several, a peak may be off by the
 * bytes that the heaps of other threads kept at that time.
 *
 * Any thread may call these functions.
 */
#ifndef GP_POOL_SERVE_HEAPS_H
#define GP_POOL_SERVE_HEAPS_H

#include "pool/events.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/stamps.h"

#define GP_HEAP_BLOCK_MAX GP_MIB       /* largest block that a heap may keep, in bytes */
#define GP_HEAP_BYTES     (4 * GP_MIB) /* most bytes that a heap keeps */
#define GP_HEAP_BLOCKS    256u         /* most blocks that a heap keeps */
#define GP_HEAP_BINS      64u          /* number of bins, a power of two */
#define GP_HEAP_BLOCK_IDS 64u          /* block ids that a heap reserves from the engine at a time */

/* The kept blocks of one size, linked by in_bin.next, oldest first. `size` is valid only while the bin has
 * blocks. */
typedef struct gp_heap_bin {
  uint64_t size;
  gp_bin_entry_t *oldest;
  gp_bin_entry_t *newest;
} gp_heap_bin_t;

/*
 * The heap of one thread on one device. Invariants: `context` changes only under both the device's lock and
 * the heap's own, so either lock is enough to read it. The heap's own lock guards the members after
 * `context`. A closed heap keeps no block. `blocks` lists the kept blocks, in the order of their stamps; each
 * is also in the bin of its size.
 */
struct gp_heap {
  _Alignas(GP_CACHE_LINE) gp_lock_t lock;
  atomic_bool has_news;     /* a fold has something to add; also read without the lock */
  _Atomic uint32_t kept;    /* number of kept blocks; also read without the lock */
  gp_device_t *device;      /* never changes */
  gp_context_t *context;    /* context of the kept blocks; NULL: the heap is closed */
  uint64_t bytes;           /* bytes of the kept blocks */
  uint64_t newest_epoch;    /* newest stamp among all blocks that the heap has kept */
  uint64_t covered;         /* value of engine->covered when the heap last read it */
  uint64_t next_block_id;   /* next of the block ids reserved for this heap */
  uint64_t end_block_id;    /* end of these ids, exclusive */
  uint64_t now_ns;          /* newest time of the heap, see gp_heap_time */
  uint64_t event_ns;        /* time of the heap's last event that the observer received */
  bool is_refused;          /* the observer rejected an allocation, so the heap has to return its blocks */
  unsigned unclocked;       /* allocations since the last one that read the clock, see gp_heap_time */
  gp_heap_counts_t *counts; /* &own_counts until the observer provides memory */
  gp_list_t blocks;
  gp_heap_bin_t bins[GP_HEAP_BINS];

  gp_heap_t *next;             /* link in device->heaps; never changes */
  uint32_t number;             /* unique in the engine; never changes */
  gp_heap_counts_t own_counts; /* used while `counts` points to it */

  /* The device's lock guards the following members. */
  bool is_owned;           /* a live thread owns the heap */
  unsigned other_contexts; /* requests in other contexts since the heap was opened */
  uint64_t served;         /* allocations since the heap was opened, or since judge() last checked it */
  uint64_t missed;         /* allocations in that time that the device's lists served */
  unsigned rest;           /* hits of the thread before the heap may be opened again */
  unsigned next_rest;      /* value for `rest` when the heap is closed next time */

  gp_heap_t *thread_next; /* the thread's next heap; only that thread uses this member */
};

/* gp_heaps_init is called when the engine starts, after the settings are read. gp_heaps_fini is called when
 * the engine ends. */
void gp_heaps_init(gp_engine_t *engine);
void gp_heaps_fini(gp_engine_t *engine);

/* The heaps of the calling thread, most recently used first. They are valid only if `serial` is the engine's
 * serial. */
typedef struct gp_own_heaps {
  uint64_t serial;
  gp_heap_t *first;
  unsigned pause; /* allocations before the thread tries again to get a heap, see gp_heap_find_own */
} gp_own_heaps_t;

extern _Thread_local gp_own_heaps_t gp_own_heaps __attribute__((tls_model("initial-exec")));

/* Finds or creates the thread's heap of the device, which gp_heap_own then returns. If the host is out of
 * memory, or there are too many heaps, the thread gets no heap, and tries again some allocations later. The
 * caller holds no lock. */
void gp_heap_find_own(gp_engine_t *engine, gp_device_t *device);

/* Returns the thread's heap of the device. Returns NULL if the thread has none, or has most recently used the
 * heap of another device. */
static inline gp_heap_t *gp_heap_own(const gp_engine_t *engine, const gp_device_t *device)
{
  gp_heap_t *heap = gp_own_heaps.serial == engine->serial ? gp_own_heaps.first : NULL;
  return heap && heap->device == device ? heap : NULL;
}

/* Returns true if heaps may be used: the observer has functions for their events, or wants no events. */
static inline bool gp_heaps_are_recorded(const gp_engine_t *engine)
{
  return engine->observer.keep != NULL || !gp_event_is_wanted(engine, NULL);
}

/* Finds the thread's heap. Called before the thread allocates from the device's lists. The caller holds no
 * lock. */
static inline void gp_heap_prepare(gp_engine_t *engine, gp_device_t *device)
{
  if (!gp_heap_own(engine, device) && engine->has_heaps && gp_heaps_are_recorded(engine))
    gp_heap_find_own(engine, device);
}

/* Adds the counts of the calling thread's heap to the device's statistics. The caller holds the device's
 * lock, because it is about to change the statistics. With is_alloc, the caller serves a request that the
 * heap could not serve. */
void gp_heap_fold(gp_engine_t *engine, gp_heap_t *heap, bool is_alloc);

static inline void gp_heap_fold_own(gp_engine_t *engine, gp_device_t *device, bool is_alloc)
{
  gp_heap_t *heap = gp_heap_own(engine, device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (heap && atomic_load_explicit(&heap->has_news, memory_order_relaxed))
    gp_heap_fold(engine, heap, is_alloc);
}

/* gp_heap_adopt makes the thread's heap the home of a block that was just allocated, if the heap may keep the
 * block. gp_heap_open prepares the heap for that block's context. The caller holds the device's lock, and
 * must not use the block afterwards. */
void gp_heap_open(gp_engine_t *engine, gp_heap_t *heap, gp_context_t *context);

/* Returns true if a heap may keep the block: the observer has a cookie for the block exactly if it wants
 * events. */
static inline bool gp_heap_is_recorded(const gp_engine_t *engine, const gp_block_t *block)
{
  return (block->observer_cookie.slot != 0) == gp_event_is_wanted(engine, NULL);
}

static inline bool gp_heap_may_keep(const gp_block_t *block)
{
  return block->size <= GP_HEAP_BLOCK_MAX && block->refs == 1 && !block->tainted && !block->exact &&
         !gp_block_is_async(block) && block->borrowed == 0 && !(block->segment && block->segment->is_closed);
}

static inline void gp_heap_adopt(gp_engine_t *engine, gp_block_t *block)
{
  gp_heap_t *heap = gp_heap_own(engine, block->context->device);

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  if (!heap)
    return;
  if (heap->rest > 0) {
    heap->rest--;
    return;
  }
  if (!gp_heaps_are_recorded(engine) || !gp_heap_is_recorded(engine, block) || !gp_heap_may_keep(block))
    return;
  if (heap->context != block->context)
    gp_heap_open(engine, heap, block->context);
  if (heap->context == block->context)
    atomic_store_explicit(&block->home, heap, memory_order_release);
}

/* Removes the block from its home. If the home kept the block, the block is deferred afterwards. The caller
 * holds the device's lock, and has checked that the block has a home. */
void gp_heap_disown(gp_engine_t *engine, gp_block_t *block);

/* Makes all heaps of the device return their blocks, as described above. The caller holds the device's lock.
 * gp_heaps_settle does the same for callers that do not hold the lock. */
void gp_heaps_collect_open(gp_engine_t *engine, gp_device_t *device);

static inline void gp_heaps_collect(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (device->open_heaps > 0)
    gp_heaps_collect_open(engine, device);
}

/* Returns true if a heap of the device keeps a block. The caller holds the device's lock. */
bool gp_heaps_keep(const gp_device_t *device);

void gp_heaps_settle(gp_engine_t *engine, gp_device_t *device);

/* Returns false if a heap's lock could not be taken, see gp_engine_locks_available. Called at the end of the
 * process. The caller holds the device's lock. */
bool gp_heaps_locks_available(gp_device_t *device);

static inline gp_heap_bin_t *gp_heap_bin(gp_heap_t *heap, uint64_t size)
{
  return &heap->bins[(size / GP_BLOCK_GRANULE * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
}

_Static_assert(GP_HEAP_BINS == 1u << (64 - 58), "as many bins as hashes");

static inline void gp_heap_raise(uint64_t *highest, uint64_t added, uint64_t taken)
{
  if (added > taken && added - taken > *highest)
    *highest = added - taken;
}

/* Count a free or an allocation. Called before the observer is notified, because the reader of a killed
 * process's record rolls back counts without an event. `by` is 1, or -1 to undo the count. */
static inline void gp_heap_count_free(gp_heap_t *heap, const gp_block_t *block, uint64_t by)
{
  gp_heap_amounts_t *amounts = &heap->counts->amounts;
  amounts->frees += by;
  amounts->free_bytes += by * block->size;
  amounts->free_requested += by * block->requested;
}

static inline void gp_heap_count_alloc(gp_heap_t *heap, uint64_t size, uint64_t requested, uint64_t by)
{
  gp_heap_amounts_t *amounts = &heap->counts->amounts;
  amounts->allocs += by;
  amounts->alloc_bytes += by * size;
  amounts->alloc_requested += by * requested;
}

static inline void gp_heap_note_news(gp_heap_t *heap)
{
  atomic_store_explicit(&heap->has_news, true, memory_order_relaxed);
}

static inline void gp_heap_set_kept(gp_heap_t *heap, uint32_t kept)
{
  atomic_store_explicit(&heap->kept, kept, memory_order_relaxed);
}

/* Puts a block into its home after the program's free has been counted. The caller holds the heap's lock. */
static inline void gp_heap_keep(gp_engine_t *engine, gp_heap_t *heap, gp_heap_bin_t *bin, gp_block_t *block)
{
  gp_heap_amounts_t *amounts = &heap->counts->amounts;

  gp_assert_internal(gp_lock_is_held(&heap->lock));
  gp_lock_fence(); /* as in gp_stamp: the thread took the heap's lock after the program's submissions */
  block->free_epoch = atomic_load(&engine->epoch);
  if (heap->newest_epoch < block->free_epoch) {
    heap->newest_epoch = block->free_epoch;
    gp_stamps_raise(&engine->newest_free_epoch, block->free_epoch);
  }
  block->is_kept = true;
  block->in_bin.next = NULL;
  if (bin->newest)
    bin->newest->next = &block->in_bin;
  else
    bin->oldest = &block->in_bin;
  bin->newest = &block->in_bin;
  bin->size = block->size;
  gp_list_push_back(&heap->blocks, &block->order);
  heap->bytes += block->size;
  gp_heap_raise(&amounts->highest_kept, amounts->free_bytes, amounts->alloc_bytes);
  gp_heap_set_kept(heap, atomic_load_explicit(&heap->kept, memory_order_relaxed) + 1);
  gp_heap_note_news(heap);
}

/* Notifies the observer of a free. Returns false if the observer rejects a free from a heap. The caller holds
 * the heap's lock. */
static inline bool gp_heap_tell_free(gp_engine_t *engine, gp_heap_t *heap, gp_block_t *block, uint64_t now_ns)
{
  const gp_observer_t *observer = &engine->observer;

  gp_assert_internal(gp_lock_is_held(&heap->lock));
  if (heap->now_ns < now_ns)
    heap->now_ns = now_ns;
  return observer->keep && block->observer_cookie.slot != 0 &&
         observer->keep(observer->self, &block->observed, heap->device->ordinal, block->segment != NULL,
             &heap->event_ns, heap->now_ns) != 0;
}

/* Notifies the observer that the block has a new owner, and sets the owner's members. Returns false if the
 * observer rejects an allocation from a heap. Out of line, so that other allocations need no stack space for
 * it. */
bool gp_heap_record_alloc(
    gp_engine_t *engine, gp_heap_t *heap, gp_block_t *block, uint64_t requested, uint64_t now_ns);

/* Returns the bin for the block if the heap is the block's home and can keep the block; otherwise returns
 * NULL. The caller holds the heap's lock. */
static inline gp_heap_bin_t *gp_heap_place_for(gp_heap_t *heap, const gp_block_t *block, uint64_t address)
{
  if (!heap->context || atomic_load_explicit(&block->home, memory_order_acquire) != heap ||
      __atomic_load_n(&block->address, __ATOMIC_RELAXED) != address || block->context != heap->context ||
      block->is_kept || atomic_load_explicit(&heap->kept, memory_order_relaxed) >= GP_HEAP_BLOCKS ||
      heap->bytes + block->size > GP_HEAP_BYTES)
    return NULL;
  gp_heap_bin_t *bin = gp_heap_bin(heap, block->size);
  return !bin->oldest || bin->size == block->size ? bin : NULL;
}

/* Frees a block into the heap that is its home, if that heap can keep it. If it returns false, nothing has
 * changed. The caller holds no lock. */
static inline bool gp_heap_free(gp_engine_t *engine, uint64_t address)
{
  if (atomic_load_explicit(&engine->open_heaps, memory_order_relaxed) == 0)
    return false;
  gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  gp_heap_t *heap = block ? atomic_load_explicit(&block->home, memory_order_acquire) : NULL;

  if (!heap || gp_engine_service(engine) != GP_SERVICE_POOL)
    return false;
  bool is_wanted = gp_event_is_wanted(engine, NULL);
  uint64_t now_ns = is_wanted ? gp_now(engine) : 0; /* read before the lock is taken */
  gp_lock_take_polled(&heap->lock);
  gp_heap_bin_t *bin = gp_heap_place_for(heap, block, address);
  if (bin) {
    gp_heap_count_free(heap, block, 1);
    if ((is_wanted || block->observer_cookie.slot != 0) && !gp_heap_tell_free(engine, heap, block, now_ns)) {
      gp_heap_count_free(heap, block, -UINT64_C(1));
      bin = NULL;
    } else {
      gp_heap_keep(engine, heap, bin, block);
    }
  }
  gp_lock_release_polled(&heap->lock);
  return bin != NULL;
}

/* Returns the time of an allocation from a heap for which the observer wants no event. Reads the clock as
 * rarely as gp_request_time. */
static inline uint64_t gp_heap_time(gp_engine_t *engine, gp_heap_t *heap)
{
  gp_assert_internal(gp_lock_is_held(&heap->lock));
  if (heap->unclocked++ % GP_REQUESTS_A_CLOCK == 0) {
    uint64_t now_ns = gp_now(engine);
    heap->now_ns = heap->now_ns < now_ns ? now_ns : heap->now_ns;
  }
  return heap->now_ns;
}

/* Returns a new block id that is larger than `last`, the block's previous id, which may have come from
 * another heap. */
static inline uint64_t gp_heap_next_block_id(gp_engine_t *engine, gp_heap_t *heap, uint64_t last)
{
  if (__builtin_expect(heap->next_block_id == heap->end_block_id || heap->next_block_id <= last, 0)) {
    heap->next_block_id = gp_next_block_ids(engine, GP_HEAP_BLOCK_IDS);
    heap->end_block_id = heap->next_block_id + GP_HEAP_BLOCK_IDS;
  }
  return heap->next_block_id++;
}

/* Returns the heap's oldest block of that size, and removes it from the heap, if the block is covered;
 * otherwise returns NULL. The caller holds the heap's lock. */
static inline gp_block_t *gp_heap_take(
    gp_engine_t *engine, gp_heap_t *heap, uint64_t size, bool is_cut, uint64_t requested, uint64_t now_ns)
{
  gp_heap_amounts_t *amounts = &heap->counts->amounts;
  gp_heap_bin_t *bin = gp_heap_bin(heap, size);

  if (!bin->oldest || bin->size != size)
    return NULL;
  gp_block_t *block = gp_block_of_entry(bin->oldest);
  gp_assert_internal(block->is_kept && block->size == size && block->context == heap->context);
  if (block->free_epoch > heap->covered)
    heap->covered = gp_covered(engine);
  if (block->free_epoch > heap->covered || (block->segment != NULL) != is_cut)
    return NULL;
  bool is_told = now_ns != 0 || block->observer_cookie.slot != 0;
  gp_heap_count_alloc(heap, size, requested, 1);
  if (is_told && !gp_heap_record_alloc(engine, heap, block, requested, now_ns)) {
    gp_heap_count_alloc(heap, size, requested, -UINT64_C(1));
    return NULL;
  }
  bin->oldest = bin->oldest->next;
  if (!bin->oldest)
    bin->newest = NULL;
  gp_list_remove(&block->order);
  heap->bytes -= size;
  block->is_kept = false;
  if (!is_told) {
    block->requested = requested;
    block->origin = GP_ORIGIN_NONE;
    block->block_id = gp_heap_next_block_id(engine, heap, block->block_id);
    block->time_ns = gp_heap_time(engine, heap);
  }
  if (amounts->largest_alloc < size)
    amounts->largest_alloc = size;
  gp_heap_raise(&amounts->highest_count, amounts->allocs, amounts->frees);
  gp_heap_raise(&amounts->highest_bytes, amounts->alloc_bytes, amounts->free_bytes);
  gp_heap_raise(&amounts->highest_requested, amounts->alloc_requested, amounts->free_requested);
  gp_heap_set_kept(heap, atomic_load_explicit(&heap->kept, memory_order_relaxed) - 1);
  gp_heap_note_news(heap);
  return block;
}

/* Serves a request for a block of exactly that size from the thread's heap. With is_cut, the block is a part
 * of a segment. If it returns false, nothing has changed. The caller holds no lock. */
static inline bool gp_heap_alloc(gp_engine_t *engine, const gp_context_t *context, uint64_t size, bool is_cut,
    uint64_t requested, uint64_t *ret_address)
{
  gp_heap_t *heap = gp_heap_own(engine, context->device);

  if (!heap || atomic_load_explicit(&heap->kept, memory_order_relaxed) == 0)
    return false;
  uint64_t now_ns = gp_event_is_wanted(engine, NULL) ? gp_now(engine) : 0; /* read before the lock is taken */
  gp_lock_take_polled(&heap->lock);
  gp_block_t *block =
      heap->context == context ? gp_heap_take(engine, heap, size, is_cut, requested, now_ns) : NULL;
  if (block)
    *ret_address = block->address;
  gp_lock_release_polled(&heap->lock);
  return block != NULL;
}

#endif
