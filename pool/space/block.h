/*
 * The transitions of one block. Each moves the block between lists, adjusts the statistics and tells the
 * observer, so that the three never disagree: the caller holds the device's lock. Uses: state.h, events.h,
 * peak.h, space/.
 */
#ifndef GP_POOL_SPACE_BLOCK_H
#define GP_POOL_SPACE_BLOCK_H

#include "pool/state.h"

/* Room for one more block of a class that is a driver allocation by itself; unprepare takes that back. False:
 * the host is out of memory. */
bool gp_block_prepare(gp_context_t *context, uint64_t class_bytes);
void gp_block_unprepare(gp_context_t *context, uint64_t class_bytes);

/* The driver gave it. The block's address, size, class and context are set, and it is in the map. */
void gp_block_adopt(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns, uint64_t duration_ns);

/* The program gets it. hit: without a driver call. */
void gp_block_hand_out(gp_engine_t *engine, gp_block_t *block, uint64_t requested, uint64_t time_ns,
    uint64_t duration_ns, bool hit);

/* The way of a freed block: the program does not hold it, the device does not use it, it can be handed out.
 */
void gp_block_end_ownership(gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns);
void gp_block_end_use(gp_engine_t *engine, gp_block_t *block, uint64_t time_ns);
void gp_block_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t since_ns);

/* All three, for a block that the driver has, or whose context is lost: it ends. */
void gp_block_end(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

void gp_block_leave_idle(gp_block_t *block);

/*
 * The idle block that serves best of those whose free_epoch is at most newest, out of its lists, or NULL: the
 * smallest that fits, the newest of equals; or, with is_cut, a part of a segment of at least fit->fresh
 * bytes, which is in the map then.
 */
gp_block_t *gp_block_take_idle(
    gp_engine_t *engine, gp_context_t *context, const gp_fit_t *fit, uint64_t newest, bool is_cut);

/* Something idle would serve such a request, were it not for its free_epoch. */
bool gp_block_is_withheld(const gp_context_t *context, const gp_fit_t *fit, bool is_cut);

/* The largest idle block of the device that is a driver allocation, and so can go back; NULL: none is idle.
 */
gp_block_t *gp_block_largest_idle(const gp_device_t *device);

/* The context has such a block, or mapped memory that can go back. */
bool gp_block_has_idle(const gp_context_t *context);

/* Bytes of the largest idle piece of memory, parts of segments included; 0: none is idle. */
uint64_t gp_block_largest_bytes(const gp_device_t *device);

/* The driver has it back: the record is recycled. Of a chunk of mapped memory the addresses stay. */
void gp_block_forget(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns);

#endif
