/*
 * The rarer state transitions of a block. block_life.h has the transitions that every allocation and free
 * makes. Each transition moves the block between lists, updates the statistics and notifies the observer, so
 * that these three always agree. The caller holds the device's lock.
 */
#ifndef GP_POOL_SPACE_BLOCK_H
#define GP_POOL_SPACE_BLOCK_H

#include "pool/records.h"
#include "pool/space/bins.h"
#include "pool/space/size_classes.h"

/* gp_block_prepare assigns a size class to a block that will be a whole driver allocation, so that its bin
 * exists when the block becomes idle. gp_block_unprepare undoes this. Returns false if the host is out of
 * memory. */
bool gp_block_prepare(gp_context_t *context, gp_block_t *block, uint64_t class_bytes);
void gp_block_unprepare(gp_context_t *context, gp_block_t *block);

/* Records that the driver has allocated the block. The block's address, size, class and context are set, and
 * it is in the address map. */
void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns);

/* The out-of-line parts of block_life.h. The first three notify an observer that wants the event.
 * gp_block_join_idle makes a part of a segment idle and joins it with its neighbours. */
void gp_block_tell_alloc(gp_engine_t *engine, gp_block_t *block, uint64_t duration_ns, bool hit);
void gp_block_tell_free(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns);
void gp_block_tell_completed(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns);
void gp_block_join_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns);

/* Ends the record of a block that the driver has freed, or whose context is lost. */
void gp_block_end(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

void gp_block_leave_idle(gp_block_t *block);

/*
 * The slow paths of gp_block_take_idle. gp_block_find_whole returns the best idle block that is a whole
 * driver allocation, and leaves it in its lists. gp_block_take_part removes a part of a segment of at least
 * `size` bytes from its lists and puts it into the address map. Both return NULL if no block serves.
 * gp_block_take_part also returns NULL if the host is out of memory.
 */
gp_block_t *gp_block_find_whole(const gp_context_t *context, const gp_fit_t *fit);
gp_block_t *gp_block_take_part(gp_engine_t *engine, gp_context_t *context, uint64_t size);

/* Returns the block that gp_block_take_idle would choose from these bins, or NULL. The block stays in its
 * bin. The caller holds the lock that guards the bins. */
gp_block_t *gp_block_find_in_bins(const gp_bins_t *bins, const gp_fit_t *fit);

/* Returns the device's largest idle block that is a whole driver allocation, and so can be freed in the
 * driver, or NULL if there is none. */
gp_block_t *gp_block_largest_idle(const gp_device_t *device);

/* Returns true if the context has an idle whole driver allocation, or mapped memory that can be released. */
bool gp_block_has_idle(const gp_context_t *context);

/* Returns the bytes of the largest idle piece of memory, including parts of segments; 0 if none is idle. */
uint64_t gp_block_largest_bytes(const gp_device_t *device);

/* Recycles the record of a block that the driver has freed. A chunk of mapped memory keeps its addresses. */
void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

#endif
