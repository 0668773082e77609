/*
 * The transitions of one block; block_life.h has those of each allocation and free. Each moves the block
 * between lists, adjusts the statistics and tells the observer, so that the three never disagree: the caller
 * holds the device's lock. Uses: state.h, events.h, peak.h, space/.
 */
#ifndef GP_POOL_SPACE_BLOCK_H
#define GP_POOL_SPACE_BLOCK_H

#include "pool/state.h"

/* Makes the block one of a class, in whose bin there is room for it when it becomes idle: it will be a driver
 * allocation by itself. unprepare takes that back. False: the host is out of memory. */
bool gp_block_prepare(gp_context_t *context, gp_block_t *block, uint64_t class_bytes);
void gp_block_unprepare(gp_context_t *context, gp_block_t *block);

/* The driver gave it. The block's address, size, class and context are set, and it is in the map. */
void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns);

/* What of block_life.h is only for an observer that wants to know, and for parts of segments, which join
 * their neighbours there. */
void gp_block_tell_alloc(gp_engine_t *engine, gp_block_t *block, uint64_t duration_ns, bool hit);
void gp_block_tell_free(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns);
void gp_block_tell_completed(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns);
void gp_block_join_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns);

/* For a block that the driver has, or whose context is lost: it ends. */
void gp_block_end(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

void gp_block_leave_idle(gp_block_t *block);

/*
 * For gp_block_take_idle: the best idle block that is a driver allocation, still in its lists; and a part of
 * a segment of at least size bytes, out of them and in the map. NULL: none serves, or the host has no memory.
 */
gp_block_t *gp_block_find_whole(const gp_context_t *context, const gp_fit_t *fit, uint64_t newest);
gp_block_t *gp_block_take_part(gp_engine_t *engine, gp_context_t *context, uint64_t size, uint64_t newest);

/* The whole block that serves best of those in some bins, as gp_block_take_idle has it; it stays there. The
 * caller holds the lock of the bins. */
gp_block_t *gp_block_find_in_bins(const gp_bins_t *bins, const gp_fit_t *fit, uint64_t newest);

/* Something idle would serve such a request, were it not for its free_epoch. */
bool gp_block_is_withheld(const gp_context_t *context, const gp_fit_t *fit, bool is_cut);

/* The largest idle block of the device that is a driver allocation, and so can go
 * back; NULL: none is idle. */
gp_block_t *gp_block_largest_idle(const gp_device_t *device);

/* The context has such a block, or mapped memory that can go back. */
bool gp_block_has_idle(const gp_context_t *context);

/* Bytes of the largest idle piece of memory, parts of segments included; 0: none is idle. */
uint64_t gp_block_largest_bytes(const gp_device_t *device);

/* The driver has it back: the record is recycled. Of a chunk of mapped memory the addresses stay. */
void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

#endif
