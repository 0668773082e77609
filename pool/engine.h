/*
 * The pool engine: allocation, free, deferred reuse, limits. One engine serves a process.
 *
 * All functions may be called by any thread unless their comment says otherwise. Results of type int are
 * the driver's codes (driver.h), 0 for success. "Context" is a context of the driver that the engine
 * knows. The engine never frees such a record before its own end, so a pointer to one stays valid, though
 * the context may be "lost".
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
typedef struct gp_identity gp_identity_t;

/*
 * Makes an engine. driver, observer and options are copied; what they point to must live as long as the
 * engine. observer may be NULL. Returns NULL if the host is out of memory.
 */
gp_engine_t *gp_engine_create(
    const gp_driver_t *driver, const gp_observer_t *observer, const gp_options_t *options);

/* Frees the records, not the device memory: no driver call. No other call may be running. NULL is legal. */
void gp_engine_destroy(gp_engine_t *engine);

/* The record of a driver context, made at first sight. device must be below GP_MAX_DEVICES. If the record
 * of that handle has another id, it is marked lost first. Returns NULL if the host is out of memory. */
gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context);

/* The record of a handle, or NULL if the handle is unknown. */
gp_context_t *gp_engine_find_context(gp_engine_t *engine, const void *handle);

/* The context through which to ask about a device: a live context of the device, or where there is none a
 * stand-in that knows only the device. NULL if the engine has no room for a device of that number. */
gp_context_t *gp_engine_device_context(gp_engine_t *engine, int device);

/* The attempts to make room for one allocation so far. The caller zeroes the record, sets counted, and
 * otherwise leaves it alone. */
typedef struct gp_oom_attempts {
  int next_step;
  unsigned passes;        /* over all steps, begun so far */
  uint64_t ticket;        /* how old the request is, see oom_turn.h; 0: it has not asked for a turn */
  uint64_t start_ns;      /* of the first step */
  uint64_t came_back;     /* what the device had got back when the pass began */
  uint64_t begin_epoch;   /* memory freed since then is not waited for; 0: no wait has begun */
  uint64_t brief_ns;      /* time spent waiting briefly for other threads */
  uint64_t before_ns;     /* time spent waiting for work from before the wanted memory was freed, and ... */
  uint64_t later_ns;      /* ... for work that may have been submitted later, or for other threads */
  uint64_t progress_ns;   /* later_ns when that work was last seen to make progress */
  uint64_t busy_context;  /* driver id of the context whose work was waited for last; 0: none */
  uint64_t counted;       /* what a limit counts for the allocation; 0: its size */
  uint64_t busy_since_ns; /* when the fence that covers that work was recorded; 0: no such fence */
  bool was_in_vain;       /* a wait ended without success */
  bool has_told;
} gp_oom_attempts_t;

/* The driver's id that the record was made with; 0 for a driver without ids. And its handle. */
uint64_t gp_context_id(const gp_context_t *context);
void *gp_context_handle(const gp_context_t *context);

/*
 * The context is gone (destroyed, reset): all its memory went with it. Forgets its blocks without a driver
 * call. NULL and a context already lost are legal.
 */
void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context);
bool gp_context_is_lost(const gp_context_t *context);
int gp_context_device(const gp_context_t *context); /* its ordinal */

/* The same for the primary context of a device, after a reset of the device. */
void gp_engine_primary_lost(gp_engine_t *engine, int device);

/* Allocates bytes in the context, which must be current in the calling thread. The driver answers bytes ==
 * 0 and sizes that overflow. On failure *ret_address is untouched. */
int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/* The same for a caller that takes its usual way to gp_engine_alloc unless the pool can serve the request
 * from idle blocks, without a driver call. False: nothing was counted or recorded. */
bool gp_engine_alloc_kept(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/*
 * A request in stream order (cudaMallocAsync, cudaFreeAsync). Its memory is mapped memory of the stream's
 * device, which outlives contexts, or gp_engine_alloc's memory in the stream's context (GPUPOOL_ASYNC=plain,
 * and types that cut), which ends with that context. context: the stream's. identity: see reuse/identities.h;
 * NULL: the stream has none. stream: the driver's handle; GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a
 * default stream. The stream is not being captured: where gp_engine_is_suspended, the caller has asked the
 * driver about that.
 */
typedef struct gp_order {
  gp_context_t *context;
  gp_identity_t *identity;
  uint64_t stream;
  struct gp_free_event *event; /* the engine's own; of the caller NULL */
} gp_order_t;

/* How far a stream had got: `frees` blocks had been freed in its order. The point is void if identity is
 * NULL or the stream has ended, since its identity then has another id. See reuse/stream_points.h. */
typedef struct gp_stream_point {
  gp_identity_t *identity;
  struct gp_device *device; /* the stream's */
  uint64_t id;
  uint64_t frees;
} gp_stream_point_t;

/*
 * Allocates bytes in stream order, whatever context is current. During captures the pool hands out what it
 * has, if that takes no driver call. False: the caller passes the request to the driver, because the pool
 * keeps no such memory, or does not now, or because the driver has to reject the arguments. True: *ret_code
 * is the result for the program. *ret_address is untouched on failure.
 */
bool gp_engine_keeps_ordered(const gp_engine_t *engine);  /* the pool may serve such a request now */
bool gp_engine_leaves_ordered(const gp_engine_t *engine); /* GPUPOOL_ASYNC=driver, and pooling is on */
bool gp_engine_alloc_ordered(
    gp_engine_t *engine, const gp_order_t *order, uint64_t bytes, uint64_t *ret_address, int *ret_code);

typedef enum gp_free_result {
  GP_FREE_DONE,    /* the pool owned it; *ret_code is the result for the program */
  GP_FREE_UNKNOWN, /* not the address of a pool block: ask the driver */
} gp_free_result_t;

/*
 * Frees the block that starts at address, from any context. The result is code_invalid_value if
 * the program has already freed the block. In reuse mode `strict` the free waits for the device as
 * the driver's own free does.
 */
gp_free_result_t gp_engine_free(gp_engine_t *engine, uint64_t address, int *ret_code);

/* The same, but only if the block stays in the pool, the result is 0, and the free neither waits nor is
 * refused. False: nothing was counted or recorded; the caller asks gp_engine_free. */
bool gp_engine_free_kept(gp_engine_t *engine, uint64_t address);

/* The same for a block that the program never got, outside the program's calls that free memory: so no
 * other memory goes back to the driver here. */
bool gp_engine_put_back(gp_engine_t *engine, uint64_t address);

/*
 * The same, but the block leaves the pool. free_fn makes the driver's call (a stream-ordered free, say)
 * with no lock held, and its result is the program's. This function itself never waits. A block cut from a
 * larger driver allocation stays in the pool, for the driver does not know the block. There free_fn, with
 * is_cut, does what else the program can see of its call: its place in a stream, its errors. After an error
 * the program still has the block.
 */
typedef int (*gp_free_fn)(void *arg, bool is_cut);
gp_free_result_t gp_engine_free_with(
    gp_engine_t *engine, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * Frees a block in stream order, also a block of gp_engine_alloc: there free_fn with is_cut takes the place
 * in the stream (see above). Never waits. free_fn is also called for a block that leaves the pool. During
 * captures that is a block that the pool cannot keep without a driver call, or one that is much memory.
 */
gp_free_result_t gp_engine_free_ordered(gp_engine_t *engine, const gp_order_t *order, uint64_t address,
    gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * Memory that the pool serves in the place of a device's default pool, which the driver does not count. kept:
 * bytes that the program has freed, and the pool has not given back. peak: the most that the program had at
 * once; reset_peak sets it to what it has now.
 */
typedef struct gp_ordered_use {
  uint64_t kept;
  uint64_t live;
  uint64_t peak;
  uint64_t reserved_peak; /* the highest sum of live and kept, reset likewise */
} gp_ordered_use_t;

gp_ordered_use_t gp_engine_ordered_use(gp_engine_t *engine, int device);
void gp_engine_ordered_reset_peak(gp_engine_t *engine, int device, bool of_reserved);

/*
 * Gives stream-ordered memory of the context's device back to the driver: idle memory, and memory found
 * complete now. Never waits. Memory of cudaMalloc, whose free may wait, goes back only if no device has work.
 */
void gp_engine_ordered_trim(gp_engine_t *engine, gp_context_t *context);

/*
 * The program is about to end the context. If it is the last context of its device, complete mapped memory
 * for stream-ordered requests goes back to the device. NULL is legal. Never waits.
 */
void gp_engine_ordered_leave(gp_engine_t *engine, gp_context_t *context);

/*
 * The program gave the device `other` access to the default pool of `device`: the mapped memory that serves
 * in the pool's place follows, also what is allocated already, and memory of cudaMalloc serves no longer.
 * Returns the driver's code.
 */
int gp_engine_async_access(gp_engine_t *engine, int device, int other);

/*
 * Takes one more reference on a live block: its memory returns to the pool when the last holder has released
 * it, the program's cudaFree being one release. Returns false if address is not the start of a block in use,
 * or if the block had to go to the driver and the driver refused.
 */
bool gp_engine_retain(gp_engine_t *engine, uint64_t address);
bool gp_engine_release(gp_engine_t *engine, uint64_t address);

/* A block of the pool begins at address, or cut memory contains it, and it is not on its way to the driver.
 * No free of the driver's own may get such an address. */
bool gp_engine_holds(gp_engine_t *engine, uint64_t address);

/* A range of the pool's mapped memory contains address, perhaps in a hole. */
bool gp_engine_is_mapped(gp_engine_t *engine, uint64_t address);

/* Returns the block of cut memory that contains address, idle blocks included. False: no cut memory contains
 * address. */
typedef struct gp_part {
  uint64_t address;
  uint64_t size;           /* as requested */
  uint64_t end;            /* of the block */
  uint64_t driver_address; /* the driver's allocation around the address asked for: a segment, or what is */
  uint64_t driver_end;     /* mapped there as one; equal: nothing is */
  void *context;           /* the driver's handle; NULL: mapped for stream-ordered requests, of none */
  int device;
  bool is_mapped;
  bool is_used; /* by the program, or by another holder of a reference */
} gp_part_t;

bool gp_engine_part(gp_engine_t *engine, uint64_t address, gp_part_t *ret_part);

/* The program, or another holder of a reference, has a block of cut memory in this range of addresses. */
bool gp_engine_uses_part(gp_engine_t *engine, uint64_t address, uint64_t size);

/* The program has let `device` reach the memory of the context. This applies to mapped memory,
 * too, present and future. */
void gp_engine_peer_enabled(gp_engine_t *engine, gp_context_t *context, int device);

/* Who owns the block that starts at an address, or for cut memory the block that contains the address. */
typedef enum gp_owner {
  GP_OWNER_UNKNOWN, /* no block of the pool, or one on its way to the driver, which answers for it */
  GP_OWNER_PROGRAM, /* or another holder of a reference */
  GP_OWNER_POOL,    /* the program freed the block, and the pool keeps it */
} gp_owner_t;

gp_owner_t gp_engine_owner(gp_engine_t *engine, uint64_t address);

/*
 * Taints the block that starts at address, or for cut memory the block that contains it: it was made
 * visible outside the process, or got driver attributes that stay with the memory. The pool never hands it
 * out again. On free it goes to the driver; a part of a segment goes when the whole segment is free.
 * Mapped memory stays where it is, with a reference of the pool's own, until its context ends. From now on
 * the pool cuts no large block.
 */
void gp_engine_taint(gp_engine_t *engine, uint64_t address);

/* The program tried to export memory and failed. From now on the pool cuts no block, whatever its size, so
 * that the program can export the memory that it asks for next. */
void gp_engine_expect_exports(gp_engine_t *engine);

/* A synchronization of the program that covers all work of a context: begin before the driver's call, end
 * after its success, with the token from begin. Everything freed before begin becomes reusable at end. */
uint64_t gp_engine_sync_begin(gp_engine_t *engine);
void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token);

/* The device has passed a point of a stream, as a call of the program for that stream shows: what was freed
 * before it is reusable. Gives surplus mapped memory back. The point may be void. Any thread, no lock held.
 */
void gp_engine_stream_passed(gp_engine_t *engine, const gp_stream_point_t *point);

/* One of the driver's memory pools that the program is ending, see forwarded/forwarded.h. */
typedef struct gp_ending_pool {
  int device;
  bool has_orphans; /* allocations that live on */
  uint64_t kept;    /* what an empty pool has counts until the driver has returned */
} gp_ending_pool_t;

/*
 * Around a driver call that may show what is complete. Where streams are captured, CUDA calls many
 * synchronizations and queries invalid, so their answers prove nothing. Before the call ask_begin gives
 * a token; after the call may_conclude is false if a capture was running at any time since then.
 * sync_end checks that by itself.
 */
uint64_t gp_engine_ask_begin(const gp_engine_t *engine);
bool gp_engine_may_conclude(const gp_engine_t *engine, uint64_t token);

/*
 * While the engine is suspended, it pools nothing, hands out no cached memory and makes no driver calls
 * of its own: while a context is being destroyed, say. suspend returns when no such call is in flight.
 * Suspensions count; each needs one resume. is_suspended: the engine may make no such call, also
 * because of a capture (below).
 */
void gp_engine_suspend(gp_engine_t *engine);
void gp_engine_resume(gp_engine_t *engine);
bool gp_engine_is_suspended(const gp_engine_t *engine);

/* The pool would serve an allocation now, and keep its memory when it is freed. Takes no lock, so this is a
 * hint: the engine may be suspended in the next moment. */
bool gp_engine_pools(const gp_engine_t *engine);

/*
 * The same for a stream capture that is about to begin in the calling thread. gp_reach says whose requests
 * without a stream (cudaMalloc, cudaFree) the engine forwards: CUDA prohibits them to some threads, and the
 * driver must give its answer. In reuse mode `context` all other threads get idle memory, and the pool
 * keeps what they free; in other modes a capture reaches everything. Whatever the reach, the engine makes
 * no driver calls of its own.
 */
typedef enum gp_reach {
  GP_REACH_EVERYTHING, /* all requests of all threads: nothing is known of the capture */
  GP_REACH_THREADS,    /* all threads */
  GP_REACH_THREAD,     /* the calling thread */
  GP_REACH_NONE,
} gp_reach_t;

/*
 * A suspension by a capture. It ends with the context at the latest, which the capture cannot outlive. If
 * context is NULL or already lost, only resume_in ends it. The caller keeps what suspend_in returns, does
 * not read it, and passes it to resume_in once. After the context's end resume_in does nothing.
 */
typedef struct gp_suspension {
  gp_context_t *owner;
  uint64_t unit;   /* what it adds to the count */
  uint64_t thread; /* the only thread that it reaches; 0: it reaches more or none */
} gp_suspension_t;

gp_suspension_t gp_engine_suspend_in(gp_engine_t *engine, gp_context_t *context, gp_reach_t reach);
void gp_engine_resume_in(gp_engine_t *engine, const gp_suspension_t *suspension);

/*
 * A capture is about to begin in the context, beside which the engine can ask the driver nothing. If the
 * driver's own pools might then lack memory that this pool keeps, asks now what is free: where they find
 * none, the driver may wait for the device. Does not wait.
 */
void gp_engine_expect_capture(gp_engine_t *engine, gp_context_t *context);

/*
 * Gives idle memory of the context's device back to the driver, largest blocks first, until it is at
 * least `bytes` or all there is; UINT64_MAX: all of it. Returns the bytes given back. The driver's
 * free may wait for the device.
 */
uint64_t gp_engine_trim(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_trim_reason_t reason);

/*
 * For a refused call of the program that takes device memory unseen (code, stacks, tables of the driver).
 * Polls until freed memory is idle. Once the device is quiet, gives back all that is idle there, the
 * driver's own pools included. GPUPOOL_PATIENCE bounds the wait as for an allocation. False: nothing has
 * changed, so calling again is of no use.
 */
bool gp_engine_make_room(gp_engine_t *engine, gp_context_t *context);

/* After gp_engine_make_room made room: the call was made again, so other threads may have what it left. */
void gp_engine_room_used(gp_context_t *context);

/*
 * Changes at run time, for a user who watches the program. They do not wait for the device.
 *
 * set_limits sets the limits of all devices, by ordinal, as GPUPOOL_LIMIT does. Where more than that is
 * committed, idle memory goes back, and so does memory freed later; until the limit is kept, the pool hands
 * out nothing. This also replaces a limit that was malformed at the start. set_limit sets the limit of one
 * device. empty_cache gives the idle memory of all devices back. All of them give memory back at once if
 * the devices are quiet, else later, as surplus (give_back.h). They return the bytes given back at once:
 * none during a capture or after pooling has stopped. reset_peaks restarts every peak of the devices in the
 * bit mask at the present value.
 */
uint64_t gp_engine_set_limits(gp_engine_t *engine, const gp_amount_t limits[GP_MAX_DEVICES]);
uint64_t gp_engine_set_limit(gp_engine_t *engine, int device, const gp_amount_t *limit);
uint64_t gp_engine_empty_cache(gp_engine_t *engine);
void gp_engine_reset_peaks(gp_engine_t *engine, uint64_t devices);

/*
 * Asks for one call of the observer's peak() at the first free after more than `bytes` of the device
 * are in use: held by the program, pooled or not. UINT64_MAX: no call. Frees make the call by
 * themselves; tell_peaks makes it now.
 */
void gp_engine_watch_use(gp_engine_t *engine, int device, uint64_t bytes);
void gp_engine_tell_peaks(gp_engine_t *engine);

/* The device's use when the pool last asked the driver; false: it never asked. */
bool gp_engine_device_use(gp_engine_t *engine, int device, gp_device_use_t *ret_use);

/* Before a question for free memory: learns, under a limit, what streams have given back to the device since
 * the program freed it in their order. Does not wait. */
void gp_engine_ask_pending(gp_engine_t *engine, gp_context_t *context);

/* Turns the driver's figures for a device into what the program may believe: cached memory is free, limits
 * hold. */
void gp_engine_translate_info(
    gp_engine_t *engine, gp_context_t *context, uint64_t *free_bytes, uint64_t *total_bytes);

/* The same for a context that need not be current, after asking the driver. False: the driver did not
 * answer, or the engine may not ask. */
bool gp_engine_ask_info(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/* Reports a result that the program got from the driver. After a sticky one the engine forwards everything;
 * it prints no message if the code means the driver's own end. */
void gp_engine_note_result(gp_engine_t *engine, int code);

/*
 * From now on the engine forwards everything, for a reason that is no error. Kept memory goes back to the
 * driver after the program's next synchronization of its context, or when memory runs out, if the device is
 * quiet then. The pool still frees the blocks that it handed out.
 */
void gp_engine_stop_pooling(gp_engine_t *engine);

/* Reading, for snapshots and tests. None calls the driver. */

/*
 * A block as it is now. Its segment is the driver allocation that it lies in: either the block itself, or
 * one that is cut into blocks, which cover it without gaps. In a cut segment a block without an owner is
 * idle, with block_id, requested and time_ns 0.
 */
typedef struct gp_block_view {
  uint64_t address;
  uint64_t size; /* bytes that the pool keeps for it */
  uint64_t segment_address;
  uint64_t segment_size; /* bytes held from the driver */
  uint64_t requested;    /* bytes the present or last owner asked for */
  uint64_t block_id;     /* incarnation */
  uint64_t time_ns;      /* of the present or last owner's allocation */
  uint64_t context;      /* driver id of the context; 0: mapped for stream-ordered requests, of no context */
  uint64_t stream;       /* with has_stream: the driver's handle of the stream of this owner's request */
  uint32_t refs;
  uint32_t origin; /* of the present or last owner */
  uint32_t observer_note;
  gp_block_state_t state;
  bool tainted;
  bool has_stream;
  bool is_cut; /* part of a larger allocation or of mapped memory */
} gp_block_view_t;

/*
 * For the end of the process: false if a lock cannot be had within a second. Then the calling thread
 * itself probably holds it: a signal interrupted it, whose handler ended the program. It would wait for
 * ever if it read the engine.
 */
bool gp_engine_locks_available(gp_engine_t *engine);

/* Devices that have ever had a context here, as a bit mask. */
uint64_t gp_engine_devices(const gp_engine_t *engine);

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats);

/*
 * The same, but with the peaks since the last call of this function for the device, or since a reset of the
 * peaks; a new window begins now. This does not change the peaks that other functions return, unless they
 * are reset in the same moment.
 */
void gp_engine_turn_peaks(gp_engine_t *engine, int device, bool resets, gp_stats_t *ret_stats);

uint64_t gp_engine_limit(gp_engine_t *engine, int device); /* bytes; 0: none */
uint64_t gp_engine_largest_idle(
    gp_engine_t *engine, int device); /* bytes of the largest idle block; 0: none is idle */

/*
 * What to do at the moment of the copy: by then the observer has got every earlier event of the
 * device, and no later one. fn runs with the device's lock held; it may take no lock and call
 * no function of the engine.
 */
typedef struct gp_moment {
  void (*fn)(void *arg, int device);
  void *arg;
} gp_moment_t;

/*
 * Copies the views of a device's blocks and its statistics, all of one moment. The blocks of a segment come
 * one after another by address, segments in no particular order. Both ret_stats and moment may be NULL.
 * Returns how many blocks there are; if that is more than capacity, the array has only the first `capacity`
 * of them: retry with a larger array.
 */
size_t gp_engine_blocks(gp_engine_t *engine, int device, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment);

/* Recomputes every sum and checks every invariant; prints each mismatch. No other call may be running. */
bool gp_engine_check(gp_engine_t *engine);

#endif
