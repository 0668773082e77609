/*
 * The pool engine. It serves allocations and frees, reuses freed memory after the device has completed the
 * work that used it, and enforces limits. A process has one engine.
 *
 * Any thread may call these functions unless a comment says otherwise. Results of type int are the driver's
 * codes (driver.h), 0 for success. A gp_context_t is the engine's record of a driver context. The engine
 * frees it only in gp_engine_destroy, so a pointer to it stays valid after the context is "lost".
 */
#ifndef GP_POOL_ENGINE_H
#define GP_POOL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/observer.h"
#include "format/states.h"
#include "format/stats.h"
#include "base/options.h"

typedef struct gp_engine gp_engine_t;
typedef struct gp_context gp_context_t;
typedef struct gp_stream_record gp_stream_record_t;

/*
 * Creates an engine. Copies the three structures, but not the memory that they point to, which must live as
 * long as the engine. `observer` may be NULL. Returns NULL if the host is out of memory.
 */
gp_engine_t *gp_engine_create(
    const gp_driver_t *driver, const gp_observer_t *observer, const gp_options_t *options);

/* Frees the engine's records, but not the device memory, because it makes no driver call. No other call on
 * the engine may be running. NULL is legal. */
void gp_engine_destroy(gp_engine_t *engine);

/* Returns the record of a driver context, and creates it on the first call. The device must be below
 * GP_MAX_DEVICES. If the handle has a record with another id, the context of that record has ended, and the
 * function first marks the record as lost. Returns NULL if the host is out of memory. */
gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context);

/* Returns the record of a context handle, or NULL if the handle is unknown. */
gp_context_t *gp_engine_find_context(gp_engine_t *engine, const void *handle);

/* Returns a context that identifies a device: one of its live contexts, or a placeholder record if it has
 * none. Returns NULL if the ordinal is not below GP_MAX_DEVICES. */
gp_context_t *gp_engine_device_context(gp_engine_t *engine, int device);

/* The progress of one allocation's attempts to make room. The caller zeroes the record and sets `counted`;
 * the engine sets the other members. */
typedef struct gp_oom_attempts {
  int next_step;
  unsigned passes;        /* number of passes over all steps that have begun */
  uint64_t ticket;        /* age of the request, see oom_turn.h; 0: the request has not asked for a turn */
  uint64_t start_ns;      /* time at which the first step began */
  uint64_t came_back;     /* result of came_back() (oom.c) at the beginning of the pass */
  uint64_t begin_epoch;   /* waits exclude memory freed after this epoch; 0: no wait has begun */
  uint64_t brief_ns;      /* time spent in brief waits for other threads */
  uint64_t before_ns;     /* time spent waiting for work submitted before the wanted memory was freed */
  uint64_t later_ns;      /* time spent waiting for work that may be newer, or for other threads */
  uint64_t progress_ns;   /* later_ns when the newer work last made progress */
  uint64_t busy_context;  /* driver id of the context whose work this thread last waited for; 0: none */
  uint64_t counted;       /* bytes that a limit counts for the allocation; 0: the allocation's size */
  uint64_t busy_since_ns; /* time at which the fence over this work was recorded; 0: there is no fence */
  bool has_timed_out;     /* a wait has timed out */
  bool has_told;
} gp_oom_attempts_t;

/* Return the context's driver id and driver handle. The id is 0 if the driver has no ids. */
uint64_t gp_context_id(const gp_context_t *context);
void *gp_context_handle(const gp_context_t *context);

/*
 * Marks a context as lost that the program has destroyed or reset. Drops the records of its blocks without a
 * driver call, because the memory ended with the context. NULL and a context that is already lost are legal.
 */
void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context);
bool gp_context_is_lost(const gp_context_t *context);
int gp_context_device(const gp_context_t *context); /* the device's ordinal */

/* Marks the primary context of a device as lost. Called after the device was reset. */
void gp_engine_primary_lost(gp_engine_t *engine, int device);

/* Allocates `bytes` in the context, which must be current in the calling thread. A size of 0 and sizes that
 * overflow are forwarded to the driver, whose error is returned. On failure *ret_address is untouched. */
int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/* Tries to serve an allocation from idle blocks, without a driver call. If it returns false, it has
 * counted and recorded nothing, and the caller calls gp_engine_alloc. */
bool gp_engine_alloc_kept(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/*
 * The stream of a stream-ordered request (cudaMallocAsync, cudaFreeAsync). `context` is the stream's context.
 * stream_record is the stream record (reuse/stream_records.h), or NULL if the stream has none. `stream` is
 * the driver's handle, or GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a default stream. The stream must not
 * be capturing: if gp_engine_is_suspended, the caller has queried the driver.
 *
 * With GPUPOOL_ASYNC=plain, or a pool type that cuts, the memory comes from gp_engine_alloc in the stream's
 * context, and ends with that context. Otherwise it is mapped memory of the stream's device, which outlives
 * contexts.
 */
typedef struct gp_stream_order {
  gp_context_t *context;
  gp_stream_record_t *stream_record;
  uint64_t stream;
  struct gp_free_event *event; /* set by the engine; callers pass NULL */
} gp_stream_order_t;

/* The point in a stream after its first `frees` stream-ordered frees. The point is void if stream_record is
 * NULL, or if the stream has ended, because the record then has another id. See reuse/stream_points.h. */
typedef struct gp_stream_point {
  gp_stream_record_t *stream_record;
  struct gp_device *device; /* the stream's device */
  uint64_t id;
  uint64_t frees;
} gp_stream_point_t;

/*
 * gp_engine_alloc_async allocates bytes in stream order, whatever context is current. During captures the
 * pool serves only requests that need no driver call. If it returns true, *ret_code is the result for the
 * program. If it returns false, the caller forwards the request to the driver: either the pool does not serve
 * such memory at present, or the driver has to reject the arguments. On failure *ret_address is untouched.
 */
bool gp_engine_serves_async(const gp_engine_t *engine);   /* whether the pool may serve such a request now */
bool gp_engine_forwards_async(const gp_engine_t *engine); /* whether GPUPOOL_ASYNC=driver and pooling is on */
bool gp_engine_alloc_async(gp_engine_t *engine, const gp_stream_order_t *order, uint64_t bytes,
    uint64_t *ret_address, int *ret_code);

typedef enum gp_free_result {
  GP_FREE_DONE,    /* the pool owned the block; *ret_code is the result for the program */
  GP_FREE_UNKNOWN, /* no pool block starts at the address: forward the free to the driver */
} gp_free_result_t;

/*
 * Frees the block that starts at `address`, whatever context it belongs to. *ret_code is code_invalid_value
 * if the program has already freed the block. In reuse mode `strict`, the free waits for the device as the
 * driver's own free does.
 */
gp_free_result_t gp_engine_free(gp_engine_t *engine, uint64_t address, int *ret_code);

/* Frees a block only if the block stays in the pool and the free needs no wait. If it returns false, it
 * has counted and recorded nothing, and the caller calls gp_engine_free. */
bool gp_engine_free_kept(gp_engine_t *engine, uint64_t address);

/* Frees a block whose address the program never received. The program did not call for a free, so this
 * function releases no other memory to the driver. */
bool gp_engine_put_back(gp_engine_t *engine, uint64_t address);

/*
 * Frees a block that leaves the pool. free_fn makes the driver's call (a stream-ordered free, for example)
 * with no lock held, and its result is returned to the program. This function itself never waits. A block cut
 * from a larger driver allocation stays in the pool, because the driver does not know its address. For such a
 * block free_fn is called with is_cut. It then frees nothing, but has the call's other visible effects: its
 * place in the stream and its errors. After an error the program still owns the block.
 */
typedef int (*gp_free_fn)(void *arg, bool is_cut);
gp_free_result_t gp_engine_free_with(
    gp_engine_t *engine, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * Frees a block in stream order; never waits. A block from gp_engine_alloc is legal: free_fn is then called
 * with is_cut, and only takes the free's place in the stream (see above). free_fn is also called for a block
 * that leaves the pool. During captures, large blocks leave it, and blocks that the pool could keep only with
 * a driver call.
 */
gp_free_result_t gp_engine_free_async(gp_engine_t *engine, const gp_stream_order_t *order, uint64_t address,
    gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * Use of the memory that the pool serves in place of a device's default memory pool. The driver's own figures
 * do not include this memory. kept: bytes that the program has freed and the pool has not released. live:
 * bytes in use by the program. peak: the highest value of live; gp_engine_async_reset_peak sets it to the
 * present value.
 */
typedef struct gp_async_use {
  uint64_t kept;
  uint64_t live;
  uint64_t peak;
  uint64_t reserved_peak; /* highest sum of live and kept, reset in the same way */
} gp_async_use_t;

gp_async_use_t gp_engine_async_use(gp_engine_t *engine, int device);
void gp_engine_async_reset_peak(gp_engine_t *engine, int device, bool of_reserved);

/*
 * Releases stream-ordered memory of the context's device to the driver: memory that is idle, or whose work
 * proves to be complete now. Never waits. The free of cudaMalloc memory may wait, so such memory is released
 * only if no device has work.
 */
void gp_engine_async_trim(gp_engine_t *engine, gp_context_t *context);

/*
 * Called before the program ends the context. If it is the device's last context, releases the mapped
 * stream-ordered memory whose work the device has completed. NULL is legal. Never waits.
 */
void gp_engine_async_leave(gp_engine_t *engine, gp_context_t *context);

/*
 * Called when the program gives the device `other` access to the default memory pool of `device`. Gives
 * `other` the same access to the mapped memory, present and future, that the pool serves in place of the
 * default pool. From now on no cudaMalloc memory is served for it. Returns the driver's code.
 */
int gp_engine_async_access(gp_engine_t *engine, int device, int other);

/*
 * gp_engine_retain adds a reference to a live block. gp_engine_release drops one, and so does the program's
 * cudaFree. The memory returns to the pool when the last reference is dropped. Both functions return false if
 * `address` is not the start of a block in use, or if the block had to be released to the driver and the
 * driver refused.
 */
bool gp_engine_retain(gp_engine_t *engine, uint64_t address);
bool gp_engine_release(gp_engine_t *engine, uint64_t address);

/* Returns true if a block of the pool starts at `address`, or if cut memory contains it, and the block is not
 * being released to the driver. Cut memory is memory that the pool divides into blocks: segments and mapped
 * memory. Such an address must never be passed to the driver's free. */
bool gp_engine_holds(gp_engine_t *engine, uint64_t address);

/* Returns true if `address` lies in an address range that the pool has reserved for mapped memory, even if
 * nothing is mapped there. */
bool gp_engine_is_mapped(gp_engine_t *engine, uint64_t address);

/* A block of cut memory. gp_engine_part returns the block that contains `address`, which may be idle. It
 * returns false if no cut memory contains the address. */
typedef struct gp_part {
  uint64_t address;
  uint64_t size;           /* requested size */
  uint64_t end;            /* address of the end of the block */
  uint64_t driver_address; /* start of the driver allocation that contains the address: a segment, or the */
  uint64_t driver_end;     /* memory mapped there as one; equal to driver_address if nothing is mapped */
  void *context;           /* driver's handle; NULL: stream-ordered mapped memory, which has no context */
  int device;
  bool is_mapped;
  bool is_used; /* the program, or another owner, has a reference */
} gp_part_t;

bool gp_engine_part(gp_engine_t *engine, uint64_t address, gp_part_t *ret_part);

/* Returns true if a block of cut memory in this address range is in use, because the program or another owner
 * has a reference. */
bool gp_engine_uses_part(gp_engine_t *engine, uint64_t address, uint64_t size);

/* Called when the program has given `device` peer access to the context. Gives `device` the same access to
 * the context's mapped memory, present and future. */
void gp_engine_peer_enabled(gp_engine_t *engine, gp_context_t *context, int device);

/* The owner of a block. For cut memory, any address in the block identifies it; otherwise, only its start
 * does. */
typedef enum gp_owner {
  GP_OWNER_UNKNOWN, /* no pool block, or a block being released: ask the driver */
  GP_OWNER_PROGRAM, /* the program, or another owner that has a reference */
  GP_OWNER_POOL,    /* the pool: the program has freed the block */
} gp_owner_t;

gp_owner_t gp_engine_owner(gp_engine_t *engine, uint64_t address);

/*
 * Taints the block that starts at `address`, or that contains it in cut memory: the pool never reuses the
 * block. Called for memory that was exported from the process, or whose driver attributes were changed
 * permanently. When the program frees the block, the block is released to the driver. A part of a segment is
 * released when the whole segment is free. Mapped memory stays in place until its context ends, because the
 * pool itself keeps a reference to it. From now on the pool cuts no large block.
 */
void gp_engine_taint(gp_engine_t *engine, uint64_t address);

/* Called when an export by the program has failed. From now on the pool cuts no block, whatever its size, so
 * that the program can export its next allocations. */
void gp_engine_expect_exports(gp_engine_t *engine);

/* Report a synchronization by the program that covers all work of a context. The caller calls
 * gp_engine_sync_begin before the driver's call, and gp_engine_sync_end with the returned token after
 * success. The pair proves that the context has completed everything freed before gp_engine_sync_begin. That
 * memory becomes reusable once all contexts have completed it. */
uint64_t gp_engine_sync_begin(gp_engine_t *engine);
void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token);

/* Reports that a call of the program has proved that the device has passed a point of a stream. Memory freed
 * in the stream before the point is then reusable. Also releases surplus mapped memory. The point may be
 * void. The caller holds no lock. */
void gp_engine_stream_passed(gp_engine_t *engine, const gp_stream_point_t *point);

/*
 * With GPUPOOL_CHECK (serve/damage.h), these functions search blocks of the context and of its device's
 * stream-ordered memory for damage. gp_engine_search searches blocks that are complete after their frees. It
 * is called after a free or a synchronization. gp_engine_search_ending is called before a context ends. It
 * also searches filled blocks and, if the device is quiet, the red zones of live blocks. Both may wait. They
 * do nothing if the context is NULL. The caller holds no lock.
 */
void gp_engine_search(gp_engine_t *engine, gp_context_t *context);
void gp_engine_search_ending(gp_engine_t *engine, gp_context_t *context);

/* Returns the requested bytes of the block that starts at the address if the block ends in a red zone,
 * otherwise 0. */
uint64_t gp_engine_checked_size(gp_engine_t *engine, uint64_t address);

/* State of one of the driver's memory pools while the program destroys it, see forwarded/forwarded.h. */
typedef struct gp_ending_pool {
  int device;
  bool has_orphans; /* the pool has allocations that are still in use */
  uint64_t kept;    /* bytes of an empty pool, counted until the driver call has returned */
} gp_ending_pool_t;

/*
 * Called around a driver call whose result may prove that work is complete. During a stream capture CUDA
 * rejects many synchronizations and queries as invalid, so their results prove nothing. gp_engine_ask_begin,
 * before the call, returns a token. gp_engine_may_conclude, after the call, returns false if a capture was
 * running at any time since then. gp_engine_sync_end makes this check itself.
 */
uint64_t gp_engine_ask_begin(const gp_engine_t *engine);
bool gp_engine_may_conclude(const gp_engine_t *engine, uint64_t token);

/*
 * Suspend and resume the engine. A suspended engine pools nothing, reuses no cached memory and makes no
 * driver calls of its own. It is suspended while a context is being destroyed, for example. gp_engine_suspend
 * returns when none of the engine's own driver calls is in flight. Suspensions are counted: each needs one
 * resume. gp_engine_is_suspended also returns true during a capture (below), when the engine may make no
 * driver calls of its own.
 */
void gp_engine_suspend(gp_engine_t *engine);
void gp_engine_resume(gp_engine_t *engine);
bool gp_engine_is_suspended(const gp_engine_t *engine);

/* Returns true if the pool would serve an allocation now, and would keep the memory after its free. Takes no
 * lock, so the result is a hint: the engine may be suspended a moment later. */
bool gp_engine_pools(const gp_engine_t *engine);

/*
 * The reach of a stream capture: the threads whose requests without a stream (cudaMalloc, cudaFree) the
 * engine forwards while the capture runs. CUDA prohibits such calls in some threads, and the error has to
 * come from the driver. In reuse mode `context`, the pool serves all other threads with idle memory, and
 * keeps the memory that they free. In mode `strict`, every capture counts as GP_REACH_EVERYTHING. Whatever
 * the reach, the engine makes no driver calls of its own.
 */
typedef enum gp_reach {
  GP_REACH_EVERYTHING, /* all requests of all threads, because nothing is known about the capture */
  GP_REACH_THREADS,    /* requests without a stream, of all threads */
  GP_REACH_THREAD,     /* requests without a stream, of the calling thread only */
  GP_REACH_NONE,
} gp_reach_t;

/*
 * A suspension by a capture that is about to begin in the calling thread. The suspension ends with the
 * context at the latest, because a capture cannot outlive its context; after that, resume_in does nothing. If
 * `context` is NULL or already lost, only resume_in ends the suspension. The caller treats the record as
 * opaque, and passes it to resume_in once.
 */
typedef struct gp_suspension {
  gp_context_t *owner;
  uint64_t unit;   /* the value that this suspension adds to the engine's count */
  uint64_t thread; /* the only thread in reach; 0: all threads or none */
} gp_suspension_t;

gp_suspension_t gp_engine_suspend_in(gp_engine_t *engine, gp_context_t *context, gp_reach_t reach);
void gp_engine_resume_in(gp_engine_t *engine, const gp_suspension_t *suspension);

/*
 * Called before a capture begins in the context, because the engine cannot query the driver during the
 * capture. If the driver's memory pools might lack memory that this pool keeps, this function queries now how
 * much memory is free. Otherwise a driver pool that finds no memory may wait for the device. Does not wait.
 */
void gp_engine_expect_capture(gp_engine_t *engine, gp_context_t *context);

/*
 * Releases at least `bytes` of idle memory of the context's device to the driver, largest blocks first.
 * Releases all idle memory if there is less. Returns the bytes released. The driver's free may wait for the
 * device.
 */
uint64_t gp_engine_trim(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_trim_reason_t reason);

/*
 * Makes room after the driver has refused a call of the program that needs device memory for the driver
 * itself (code, stacks, driver tables). Polls until freed memory is idle. Once the device is quiet, releases
 * all idle memory of the device, including that of the driver's own pools. GPUPOOL_PATIENCE bounds the wait
 * as for an allocation. Returns false if nothing has changed, so that the caller need not retry.
 */
bool gp_engine_make_room(gp_engine_t *engine, gp_context_t *context);

/* Called after the caller has retried the call for which gp_engine_make_room made room. Other threads may
 * then use the remaining memory. */
void gp_engine_room_used(gp_context_t *context);

/*
 * Changes at run time, requested by a user or by the program. These functions do not wait for the device.
 *
 * gp_engine_set_limits sets the limits of all devices, by ordinal, as GPUPOOL_LIMIT does. gp_engine_set_limit
 * sets that of one device. If more than the limit is committed, idle memory is released now, and other memory
 * when it is freed. Until the limit is met, the pool allocates nothing. A new limit also replaces one that
 * was malformed at the start. gp_engine_empty_cache releases the idle memory of all devices. All three
 * release memory at once if the devices are quiet, otherwise later, as surplus (give_back.h). They return the
 * bytes released at once: none during a capture or after pooling has stopped. gp_engine_reset_peaks restarts
 * every peak of the devices in the bit mask at the present value.
 */
uint64_t gp_engine_set_limits(gp_engine_t *engine, const gp_amount_t limits[GP_MAX_DEVICES]);
uint64_t gp_engine_set_limit(gp_engine_t *engine, int device, const gp_amount_t *limit);
uint64_t gp_engine_empty_cache(gp_engine_t *engine);
void gp_engine_reset_peaks(gp_engine_t *engine, uint64_t devices);

/*
 * gp_engine_watch_use requests one call of the observer's peak(). When the program's use of the device,
 * pooled and forwarded, has exceeded `bytes`, the next free makes the call. UINT64_MAX requests no call.
 * gp_engine_tell_peaks makes the calls that are due.
 */
void gp_engine_watch_use(gp_engine_t *engine, int device, uint64_t bytes);
void gp_engine_tell_peaks(gp_engine_t *engine);

/* Returns the use of the device at the pool's last query of the driver. Returns false if there was no query.
 */
bool gp_engine_device_use(gp_engine_t *engine, int device, gp_device_use_t *ret_use);

/* Called before the program queries free memory. Under a limit, checks which stream-ordered frees are
 * complete, so that their memory no longer counts. Does not wait. */
void gp_engine_ask_pending(gp_engine_t *engine, gp_context_t *context);

/* Converts the driver's free and total bytes of a device into the values that the program gets. Cached memory
 * counts as free, and the limit bounds both values. */
void gp_engine_translate_info(
    gp_engine_t *engine, gp_context_t *context, uint64_t *free_bytes, uint64_t *total_bytes);

/* Queries the driver for the free and total bytes and converts them as gp_engine_translate_info does; the
 * context need not be current. Returns false if the query failed, or if the engine may not query the
 * driver now. */
bool gp_engine_ask_info(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/* Reports a result that the driver returned to the program. After a sticky error the engine forwards
 * everything. It prints one message, unless the code means that the driver itself has shut down. */
void gp_engine_note_result(gp_engine_t *engine, int code);

/*
 * Stops pooling permanently, for a reason other than an error: from now on the engine forwards everything.
 * Kept memory is released after the program's next synchronization of its context, or when memory runs out,
 * if the device is quiet then. The pool still frees the blocks that it has allocated.
 */
void gp_engine_stop_pooling(gp_engine_t *engine);

/* The following functions read the engine, for snapshots and tests. None calls the driver. */

/*
 * A view of a block. Its segment is the driver allocation that contains the block. That is either the block
 * alone, or a segment cut into blocks, which cover the segment without gaps. In a cut segment a block that
 * was never allocated is idle, and its block_id, requested and time_ns are 0.
 */
typedef struct gp_block_view {
  uint64_t address;
  uint64_t size; /* bytes that the pool uses for the block */
  uint64_t segment_address;
  uint64_t segment_size; /* bytes that the segment has reserved from the driver */
  uint64_t requested;    /* bytes that the present or last owner requested */
  uint64_t block_id;     /* id of the present or last owner's allocation */
  uint64_t time_ns;      /* time at which the present or last owner allocated the block */
  uint64_t context;      /* driver id of the context; 0: stream-ordered mapped memory, which has no context */
  uint64_t stream; /* if has_stream: driver handle of the stream in which this owner allocated the block */
  uint32_t refs;
  uint32_t origin; /* origin of the present or last owner's allocation */
  uint32_t observer_note;
  gp_block_state_t state;
  bool tainted;
  bool has_stream;
  bool is_cut; /* true for a part of a larger allocation or of mapped memory */
} gp_block_view_t;

/*
 * Called at the end of the process. Returns false if a lock could not be taken within a second. In that case
 * the calling thread itself probably holds the lock, because a signal handler has called exit() in the middle
 * of an allocation. Reading the engine would then deadlock.
 */
bool gp_engine_locks_available(gp_engine_t *engine);

/* Returns the devices that have ever had a context in this engine, as a bit mask of ordinals. */
uint64_t gp_engine_devices(const gp_engine_t *engine);

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats);

/*
 * Returns the statistics of a device and begins a new window for their peaks. The peaks returned are those
 * since this function was last called for the device, or since the peaks were reset. The peaks that other
 * functions return do not change, unless `resets` is true, which restarts them as well.
 */
void gp_engine_turn_peaks(gp_engine_t *engine, int device, bool resets, gp_stats_t *ret_stats);

uint64_t gp_engine_limit(gp_engine_t *engine, int device); /* returns the limit in bytes; 0: none */
uint64_t gp_engine_largest_idle(
    gp_engine_t *engine, int device); /* returns the bytes of the largest idle block; 0 if none is idle */

/*
 * A function that gp_engine_blocks calls at the moment of the copy. The observer has then received every
 * earlier event of the device, and no later one. fn runs with the device's lock held, so it must not take a
 * lock or call the engine.
 */
typedef struct gp_moment {
  void (*fn)(void *arg, int device);
  void *arg;
} gp_moment_t;

/*
 * Copies the views of a device's blocks and its statistics, all from the same moment. The blocks of a segment
 * follow one another by address; segments have no particular order. ret_stats and moment may be NULL. Returns
 * the number of blocks. If that is more than `capacity`, the array has only the first `capacity` blocks, and
 * the caller retries with a larger array.
 */
size_t gp_engine_blocks(gp_engine_t *engine, int device, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment);

/* Recomputes every sum and checks every invariant. Prints each mismatch, and returns true if there is none.
 * No other call may be running. */
bool gp_engine_check(gp_engine_t *engine);

#endif
