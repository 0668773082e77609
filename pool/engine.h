/*
 * The pool engine: allocation, free, deferred reuse, limits. One engine serves a process.
 *
 * All functions may be called by any thread unless their comment says otherwise. Results of type int are the
 * driver's codes (driver.h), 0 for success. "Context" is a context of the driver that the engine knows; such
 * records are never freed before the engine, so that a pointer to one stays valid, if only as "lost".
 */
#ifndef GP_POOL_ENGINE_H
#define GP_POOL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/driver.h"
#include "pool/observer.h"
#include "trace/format/states.h"
#include "trace/format/stats.h"
#include "pool/util/options.h"

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

/*
 * The record of a driver context, made at first sight. device must be below GP_MAX_DEVICES. A record of the
 * same handle with another id is marked lost first. Returns NULL if the host is out of memory.
 */
gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context);

/* The record of a handle, or NULL if the handle is unknown. */
gp_context_t *gp_engine_find_context(gp_engine_t *engine, const void *handle);

/*
 * The context through which a device is asked for things: a live one of that device, or where there is none a
 * stand-in that knows the device only. NULL if device is none that the engine has room for.
 */
gp_context_t *gp_engine_device_context(gp_engine_t *engine, int device);

/*
 * How far the attempts to make room for one allocation have come. The caller zeroes it, sets counted and
 * is_ordered, and otherwise leaves it alone.
 */
typedef struct gp_room {
  int next_step;
  uint64_t begin_epoch;  /* what was freed since is not waited for; 0: nothing was waited for yet */
  uint64_t brief_ns;     /* time spent waiting briefly for other threads */
  uint64_t before_ns;    /* time spent waiting for work that was submitted before memory was freed, and ... */
  uint64_t later_ns;     /* ... for work that may have been submitted later, or for other threads */
  uint64_t progress_ns;  /* later_ns when that work was last seen to get on */
  uint64_t busy_context; /* driver id of the context whose work was waited for last; 0: of none */
  uint64_t counted;      /* what a limit counts for the allocation; 0: its size */
  uint64_t busy_since_ns; /* when the fence that covers that work was recorded; 0: there is none */
  bool is_ordered;        /* the memory is the driver's own pool's to give */
  bool was_in_vain;       /* a wait ended without success */
  bool has_told;
} gp_room_t;

/* The driver's id that the record was made with; 0 for a driver without ids. */
uint64_t gp_context_id(const gp_context_t *context);

/*
 * The context is gone (destroyed, reset): all its memory went with it. Forgets its blocks without a driver
 * call. NULL and a context already lost are legal.
 */
void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context);
bool gp_context_is_lost(const gp_context_t *context);
int gp_context_device(const gp_context_t *context); /* its ordinal */

/* The same for the primary context of a device, after a reset of the device. */
void gp_engine_primary_lost(gp_engine_t *engine, int device);

/*
 * Allocates bytes in the context, which must be current in the calling thread. bytes == 0 and sizes that
 * overflow are answered by the driver. On failure *ret_address is untouched.
 */
int gp_engine_alloc(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/*
 * The same for a caller that has another way to gp_engine_alloc, which is to be left to it unless the pool
 * serves the request from idle blocks, without a call of the driver. False: nothing was counted or recorded.
 */
bool gp_engine_alloc_kept(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, uint64_t *ret_address);

/* Default streams, as CUDA names them explicitly (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). */
#define GP_STREAM_LEGACY     1
#define GP_STREAM_PER_THREAD 2

/*
 * Memory for cudaMallocAsync and cudaFreeAsync: of the driver's own pool of the device that a stream belongs
 * to, or with GPUPOOL_ASYNC=plain that of gp_engine_alloc in the stream's context, with which it ends.
 * context: the stream's; identity: see reuse/identities.h, NULL: it has none; stream: the driver's handle,
 * GP_STREAM_LEGACY or GP_STREAM_PER_THREAD for a default stream. It is not being captured: where
 * gp_engine_is_suspended the caller has asked the driver.
 */
typedef struct gp_order {
  gp_context_t *context;
  gp_identity_t *identity;
  uint64_t stream;
} gp_order_t;

/*
 * How far a stream had got: `frees` blocks had been freed in its order. It tells nothing where identity is
 * NULL, or where the stream has ended: then its identity has another id. See reuse/stream_points.h.
 */
typedef struct gp_stream_point {
  gp_identity_t *identity;
  struct gp_device *device; /* the stream's */
  uint64_t id;
  uint64_t frees;
} gp_stream_point_t;

/*
 * Allocates bytes in stream order, whatever context is current. Beside captures the pool hands out what it
 * has, where that takes no call of the driver. False: the caller passes the request to the
 * driver, because the pool keeps no such memory, or not now, or the arguments are the driver's to refuse.
 * Else *ret_code is the result for the program, and *ret_address is untouched on failure.
 */
bool gp_engine_keeps_ordered(const gp_engine_t *engine);  /* such a request could be the pool's now */
bool gp_engine_leaves_ordered(const gp_engine_t *engine); /* GPUPOOL_ASYNC=driver, and the pool works */
bool gp_engine_alloc_ordered(
    gp_engine_t *engine, const gp_order_t *order, uint64_t bytes, uint64_t *ret_address, int *ret_code);

typedef enum gp_free_result {
  GP_FREE_DONE,    /* the pool owned it; *ret_code is the result for the program */
  GP_FREE_UNKNOWN, /* not the address of a pool block: ask the driver */
} gp_free_result_t;

/*
 * Frees the block that starts at address, from any context. A block that the program has already freed
 * answers code_invalid_value. Under reuse mode `strict` it waits for
 * the device as the driver's own free does.
 */
gp_free_result_t gp_engine_free(gp_engine_t *engine, uint64_t address, int *ret_code);

/*
 * The same where the block stays in the pool, the result is 0, and the free neither waits nor is refused.
 * False: nothing was counted or recorded, and gp_engine_free knows the answer.
 */
bool gp_engine_free_kept(gp_engine_t *engine, uint64_t address);

/*
 * The same for a block of which the program never knew, in no call of the program that frees memory: nothing
 * else goes back to the driver then.
 */
bool gp_engine_put_back(gp_engine_t *engine, uint64_t address);

/*
 * The same, but the block leaves the pool: free_fn makes the driver's call (a stream-ordered free, say), with
 * no lock held, and its result is the program's. It never waits by itself. A block that is cut from a larger
 * driver allocation stays in the pool, for the driver does not know it: free_fn, with is_cut, does what else
 * the program can see of its call (its place in a stream, its errors). After an error the program has the
 * block still.
 */
typedef int (*gp_free_fn)(void *arg, bool is_cut);
gp_free_result_t gp_engine_free_with(
    gp_engine_t *engine, uint64_t address, gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * Frees a block in stream order; a block of gp_engine_alloc too, of which free_fn with is_cut takes the place
 * in the stream (see above). It never waits. free_fn is called, too, for a block that leaves the pool: beside
 * captures that is one that cannot be kept without a call of the driver, or is much memory.
 */
gp_free_result_t gp_engine_free_ordered(gp_engine_t *engine, const gp_order_t *order, uint64_t address,
    gp_free_fn free_fn, void *arg, int *ret_code);

/*
 * What the program may ask of the driver's own pool of a device. kept: bytes that the pool holds and the
 * program does not; peak: the most that the program held at once of what the pool serves, since reset_peak
 * made it what it holds now. With is_plain what is kept was last asked for in a stream, and is for all
 * requests.
 */
typedef struct gp_ordered_use {
  bool serves;   /* it has served such memory of the device */
  bool is_plain; /* which the driver does not count as its pool's */
  uint64_t kept;
  uint64_t live;
  uint64_t peak;
  uint64_t reserved_peak; /* the most of live and kept together, likewise */
} gp_ordered_use_t;

gp_ordered_use_t gp_engine_ordered_use(gp_engine_t *engine, int device);
void gp_engine_ordered_reset_peak(gp_engine_t *engine, int device, bool of_reserved);

/* Gives stream-ordered memory of the context's device back to the driver's pool: what is idle, and what is
 * found complete now. Never waits: where it is memory of cudaMalloc, whose free may, only if no device has
 * work. */
void gp_engine_ordered_trim(gp_engine_t *engine, gp_context_t *context);

/*
 * The program is about to end the context. If it is the last one of its device, stream-ordered memory that
 * the pool keeps and that is complete goes back to the device, since no context would be there that could
 * give it back later. NULL is legal. Never waits.
 */
void gp_engine_ordered_leave(gp_engine_t *engine, gp_context_t *context);

/* From now on the driver serves such requests for the device: the program has changed how its pool works.
 * True: only now, false: it did so before. */
bool gp_engine_ordered_bar(gp_engine_t *engine, int device);

/*
 * Takes one more reference on a live block: its memory returns to the pool when the last holder has released
 * it, the program's cudaFree being one release. Returns false if address is not the start of a block in use,
 * or if the block had to go to the driver and the driver refused.
 */
bool gp_engine_retain(gp_engine_t *engine, uint64_t address);
bool gp_engine_release(gp_engine_t *engine, uint64_t address);

/*
 * Memory that is cut into blocks: the block in which address lies begins at *ret_block, and the driver's
 * allocation at *ret_segment. False: the address is in no such memory.
 */
bool gp_engine_cut_block(gp_engine_t *engine, uint64_t address, uint64_t *ret_block, uint64_t *ret_segment);

/* A block of the pool begins at the address, or it is in cut memory, and is not on its way to the driver: no
 * free of the driver's may get it. */
bool gp_engine_holds(gp_engine_t *engine, uint64_t address);

/* The address is in a range of mapped memory of the pool, or in a hole of it. */
bool gp_engine_is_mapped(gp_engine_t *engine, uint64_t address);

/* The block of mapped memory in which address lies, which the program or another holder has: what was asked
 * for begins at `address` and has `size` bytes. False: there is none. */
typedef struct gp_mapped_block {
  uint64_t address;
  uint64_t size;
  void *context; /* the driver's handle */
} gp_mapped_block_t;

bool gp_engine_mapped_block(gp_engine_t *engine, uint64_t address, gp_mapped_block_t *ret_block);

/*
 * The program has enabled that `device` reaches the memory of that context, which is about mapped memory,
 * too: what there is, and what comes.
 */
void gp_engine_peer_enabled(gp_engine_t *engine, gp_context_t *context, int device);

/* Whose the block is that starts at an address, or in cut memory the one in which it lies. */
typedef enum gp_owner {
  GP_OWNER_UNKNOWN, /* no block of the pool */
  GP_OWNER_PROGRAM, /* or another holder of a reference */
  GP_OWNER_POOL,    /* freed, and kept: for the program there is no memory */
} gp_owner_t;

gp_owner_t gp_engine_owner(gp_engine_t *engine, uint64_t address);

/*
 * Memory that is cut into blocks: the driver's allocation begins at address, and the program, or another
 * holder of a reference, has a block of it. For the driver address is where that block's memory begins.
 */
bool gp_engine_begins_use(gp_engine_t *engine, uint64_t address);

/*
 * The block that starts at address, or in cut memory the one in which it lies, was made visible outside the
 * process or got driver attributes that stay with the memory: it is never handed out again. On free it goes
 * to the driver, of cut memory when the whole driver allocation is free; mapped memory stays where it is,
 * with a reference of the pool's own, until its context ends. From now on the pool cuts no large block.
 */
void gp_engine_taint(gp_engine_t *engine, uint64_t address);

/* The program tried to: from now on the pool cuts no large block, so that the next attempt succeeds. */
void gp_engine_expect_exports(gp_engine_t *engine);

/*
 * A synchronization of the program that covers all work of a context: begin before the driver's call, end
 * after its success, with the token that begin gave. Everything freed before begin becomes reusable at end.
 */
uint64_t gp_engine_sync_begin(gp_engine_t *engine);
void gp_engine_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t token);

/*
 * Around a call of the driver that may tell what is complete. Where streams are captured CUDA calls many
 * synchronizations and queries invalid, so that what they answer says nothing: may_conclude is false, after
 * the call, if a capture was running at any time since ask_begin gave the token, before it. sync_end asks by
 * itself.
 */
uint64_t gp_engine_ask_begin(const gp_engine_t *engine);
bool gp_engine_may_conclude(const gp_engine_t *engine, uint64_t token);

/*
 * While suspended, nothing is pooled, cached memory included, and the engine makes no driver call of its own:
 * while a context is being destroyed, say. Suspend returns when no such call is in flight. Suspensions count;
 * each is ended by one resume. is_suspended: no such call may be made, a capture (below) included.
 */
void gp_engine_suspend(gp_engine_t *engine);
void gp_engine_resume(gp_engine_t *engine);
bool gp_engine_is_suspended(const gp_engine_t *engine);

/* An allocation that was asked for now would be the pool's, and kept when it is freed. No lock, and so a
 * hint: it may be suspended in the next moment. */
bool gp_engine_pools(const gp_engine_t *engine);

/*
 * The same for a stream capture that is about to begin in the calling thread, and by whom it has the requests
 * forwarded that name no stream (cudaMalloc, cudaFree). CUDA prohibits these to some threads, and the driver
 * is to give its answer. All others get what is idle and keep what they free, beside it, in reuse mode
 * `context`; in other modes a capture reaches everything. The engine makes no driver call of its own,
 * whatever the reach.
 */
typedef enum gp_reach {
  GP_REACH_EVERYTHING, /* all requests of all threads: nothing is known of the capture */
  GP_REACH_THREADS,    /* all threads */
  GP_REACH_THREAD,     /* the calling thread */
  GP_REACH_NONE,
} gp_reach_t;

/*
 * The suspension ends with the context, which the capture cannot outlive, at the latest; context NULL, or
 * lost already: nothing but resume_in ends it. The caller keeps what suspend_in returns, reads nothing of it,
 * and passes it to resume_in once, which does nothing after the context's end.
 */
typedef struct gp_suspension {
  gp_context_t *owner;
  uint64_t unit;   /* as it is counted */
  uint64_t thread; /* the only one that it reaches; 0: there is no such */
} gp_suspension_t;

gp_suspension_t gp_engine_suspend_in(gp_engine_t *engine, gp_context_t *context, gp_reach_t reach);
void gp_engine_resume_in(gp_engine_t *engine, const gp_suspension_t *suspension);

/*
 * Gives idle memory of the context's device back to the driver, at least `bytes` if there is as much, largest
 * blocks first; UINT64_MAX: all of it. Returns the bytes given back. The driver's free may wait for the
 * device.
 */
uint64_t gp_engine_trim(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_trim_reason_t reason);

/*
 * For a call of the program that takes memory of the device unseen (code, stacks, tables of the driver) and
 * was refused: waits by polling for freed memory, and gives back all that is idle on the context's device
 * once that is quiet, the driver's own pools included. GPUPOOL_PATIENCE bounds the wait as for an allocation.
 * False: nothing has changed, so that calling again is of no use.
 */
bool gp_engine_make_room(gp_engine_t *engine, gp_context_t *context);

/*
 * Changes at run time, at the wish of a user who watches the program. They do not wait for the device.
 *
 * set_limits: the limits of all devices, as GPUPOOL_LIMIT has them, by ordinal. Where more than that is
 * committed, idle memory goes back; what is freed later goes back, too, and nothing is handed out until the
 * limit is kept. A malformed limit of the start is forgotten. set_limit: that of one device. empty_cache:
 * idle memory of all devices goes back to the driver. Memory goes back at once if the devices are quiet, else
 * later, as surplus (give_back.h). Both return the bytes given back at once: none during a stream capture, or
 * after pooling has stopped. reset_peaks: every peak of these devices, a bit mask, begins anew at what is
 * there now.
 */
uint64_t gp_engine_set_limits(gp_engine_t *engine, const gp_amount_t limits[GP_MAX_DEVICES]);
uint64_t gp_engine_set_limit(gp_engine_t *engine, int device, const gp_amount_t *limit);
uint64_t gp_engine_empty_cache(gp_engine_t *engine);
void gp_engine_reset_peaks(gp_engine_t *engine, uint64_t devices);

/*
 * Asks for the observer's peak() at the first free after more than `bytes` of the device are in use: held by
 * the program, pooled or not. Once; UINT64_MAX: never. tell_peaks does now what the next free would have
 * done; frees do it themselves.
 */
void gp_engine_watch_use(gp_engine_t *engine, int device, uint64_t bytes);
void gp_engine_tell_peaks(gp_engine_t *engine);

/* As of the last time that the driver was asked; false: it never was. */
bool gp_engine_device_use(gp_engine_t *engine, int device, gp_device_use_t *ret_use);

/* Turns the driver's figures for a device into what the program may believe: cached memory is free, limits
 * hold. */
void gp_engine_translate_info(
    gp_engine_t *engine, gp_context_t *context, uint64_t *free_bytes, uint64_t *total_bytes);

/* The same for a context that need not be current, after asking the driver. False: it did not tell, or may
 * not be asked. */
bool gp_engine_ask_info(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/* The reuse mode is `single`, and nothing has escaped its sight: work has to be seen. Takes no lock. */
bool gp_engine_is_single(const gp_engine_t *engine);

/* A result that the program got from the driver: a sticky one makes the engine forward everything from then
 * on, without a word if it is the driver's own end. */
void gp_engine_note_result(gp_engine_t *engine, int code);

/*
 * The same for another reason: from now on everything is forwarded. What the pool keeps goes back to the
 * driver after the program's next synchronization of its context, or when memory runs out, if the device is
 * quiet then. Blocks handed out stay the pool's to free.
 */
void gp_engine_stop_pooling(gp_engine_t *engine);

/* Reading, for snapshots and tests. None calls the driver. */

/*
 * A block as it is now. The allocation of the driver that it is in, its segment, is the block itself, or is
 * cut into blocks: then they cover it without gaps, and one without an owner is idle, with block_id,
 * requested and time_ns 0.
 */
typedef struct gp_block_view {
  uint64_t address;
  uint64_t size; /* bytes that the pool keeps for it */
  uint64_t segment_address;
  uint64_t segment_size; /* bytes held from the driver */
  uint64_t requested;    /* bytes the present or last owner asked for */
  uint64_t block_id;     /* incarnation */
  uint64_t time_ns;      /* of the present or last owner's allocation */
  uint64_t context;      /* driver id of the context; 0: of the driver's own pool, which no context owns */
  uint64_t stream; /* has_stream: in which the present or last owner asked for it, the driver's handle */
  uint32_t refs;
  uint32_t origin; /* of the present or last owner */
  gp_block_state_t state;
  bool tainted;
  bool has_stream;
} gp_block_view_t;

/*
 * For the end of the process: false if a lock could not be had within a second. Then the very thread that
 * asks holds it, interrupted by a signal whose handler ended the program, and would wait for ever if it read
 * the engine.
 */
bool gp_engine_locks_available(gp_engine_t *engine);

/* Devices that have ever had a context here, as a bit mask. */
uint64_t gp_engine_devices(const gp_engine_t *engine);

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats);

/* The same, but that peaks are those since this was last called for the device, or the peaks reset: now a new
 * window begins. What others read of peaks is not changed by it, unless they are reset in the same moment. */
void gp_engine_turn_peaks(gp_engine_t *engine, int device, bool resets, gp_stats_t *ret_stats);

uint64_t gp_engine_limit(gp_engine_t *engine, int device); /* bytes; 0: none */
uint64_t gp_engine_largest_idle(
    gp_engine_t *engine, int device); /* bytes of the largest idle block; 0: none is idle */

/*
 * What is to happen in the moment that a copy is of: every event of the device before it has been told to the
 * observer, and none after. Runs with the device's lock held: it may take no lock and call nothing of the
 * engine.
 */
typedef struct gp_moment {
  void (*fn)(void *arg, int device);
  void *arg;
} gp_moment_t;

/*
 * Copies the views of a device's blocks and its statistics, all of one moment. The blocks of a segment come
 * one after another by address, segments in no particular order. Both ret_stats and moment may be NULL.
 * Returns how many blocks there are; if that is more than capacity, only capacity were written: retry with a
 * larger array.
 */
size_t gp_engine_blocks(gp_engine_t *engine, int device, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment);

/* Recomputes every sum and checks every invariant; prints each mismatch. No other call may be running. */
bool gp_engine_check(gp_engine_t *engine);

#endif
