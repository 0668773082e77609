/*
 * The state transitions of a block; block_life.h has those of every allocation and free. Each moves the block
 * between lists, updates the statistics and notifies the observer, so that these three always agree. The
 * caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BLOCK_H
#define GP_POOL_SPACE_BLOCK_H

#include "pool/records.h"
#include "pool/space/bins.h"
#include "pool/space/size_classes.h"

/* Makes the block one of a class, to be a driver allocation by itself. Its bin then has room for it when it
 * becomes idle. unprepare undoes this. False: the host is out of memory. */
bool gp_block_prepare(gp_context_t *context, gp_block_t *block, uint64_t class_bytes);
void gp_block_unprepare(gp_context_t *context, gp_block_t *block);

/* The driver has given the memory. The block's address, size, class and context are
 * set, and it is in the map. */
void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns);

/* The out-of-line parts of block_life.h: those for an observer that wants the event, and those for parts of
 * segments, which join their neighbours. */
void gp_block_tell_alloc(gp_engine_t *engine, gp_block_t *block, uint64_t duration_ns, bool hit);
void gp_block_tell_free(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns);
void gp_block_tell_completed(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns);
void gp_block_join_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns);

/* Ends a block that the driver has back, or whose context is lost. */
void gp_block_end(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

void gp_block_leave_idle(gp_block_t *block);

/*
 * For gp_block_take_idle. find_whole: the best idle block that is a driver allocation, still in its lists.
 * The other takes a part of a segment of at least size bytes out of its lists and puts it into the map.
 * NULL: no block serves, or the host has no memory.
 */
gp_block_t *gp_block_find_whole(const gp_context_t *context, const gp_fit_t *fit);
gp_block_t *gp_block_take_part(gp_engine_t *engine, gp_context_t *context, uint64_t size);

/* The best whole block in some bins, in the sense of gp_block_take_idle. It stays there. The caller
 * holds the lock of the bins. */
gp_block_t *gp_block_find_in_bins(const gp_bins_t *bins, const gp_fit_t *fit);

/* The largest idle block of the device that is a driver allocation, and so can go
 * back; NULL: none is idle. */
gp_block_t *gp_block_largest_idle(const gp_device_t *device);

/* The context has an idle driver allocation, or mapped memory that can go back. */
bool gp_block_has_idle(const gp_context_t *context);

/* Bytes of the largest idle piece of memory, parts of segments included; 0: none is idle. */
uint64_t gp_block_largest_bytes(const gp_device_t *device);

/* The driver has the block back: recycles the record. A chunk of mapped memory keeps its addresses. */
void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

#endif
