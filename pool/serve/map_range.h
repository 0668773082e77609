/*
 * The address ranges for mapped memory. With pool type vmm a context has a range. A device has one for
 * stream-ordered memory.
 */
#ifndef GP_POOL_SERVE_MAP_RANGE_H
#define GP_POOL_SERVE_MAP_RANGE_H

#include "pool/records.h"

/*
 * Returns 0 if the context has a range. The first call reserves a range, and maps memory there as a trial.
 * Returns code_out_of_memory if the device or the limit (*by_limit) has no memory for the trial. Returns
 * code_not_ready if the driver can never map memory (with one message), if it cannot map now, or if another
 * thread is trying. `asker` is a context of the device. The caller holds no lock.
 */
int gp_map_range_find(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, bool *by_limit);

/* Gives a device access to the arena's mapped memory, present and future. The arena is a context or
 * device->async_context. Returns the code of the first failure. The caller holds no lock. */
int gp_map_range_give_access(gp_engine_t *engine, gp_context_t *arena, int ordinal);

/* Releases the mapped memory of a lost context, because the driver keeps it beyond the end of the context.
 * Leaves out chunks that other threads are about to map or release. The caller holds no lock. */
void gp_map_range_lose(gp_engine_t *engine, gp_context_t *context);

/* The progress of a mapping step (gp_map_step_t). */
typedef enum gp_map_done {
  GP_MAP_NOTHING,
  GP_MAP_FLOATING, /* created, or unmapped from its old place, and not yet mapped at the new one */
  GP_MAP_MAPPED,
  GP_MAP_LOST, /* the memory could not be moved back, and was released to the driver */
} gp_map_done_t;

/* A mapping step: memory that is created or moved, and then mapped at an address. */
typedef struct gp_map_step {
  gp_block_t *source; /* MAPPING block whose chunk moves; NULL: the step creates memory */
  uint64_t from;      /* address of the source */
  uint64_t address;
  uint64_t size;   /* in bytes */
  uint64_t handle; /* driver's handle of the memory */
  unsigned run;    /* number of the run: its steps fill one hole without a gap, in the array's order */
  gp_map_done_t done;
} gp_map_step_t;

/*
 * Performs the steps, and gives the context's device and the devices in the mask `peers` access to the
 * memory. Returns the driver's code. After a failure all steps are undone, and each is NOTHING or LOST. The
 * caller holds no lock.
 */
int gp_map_take_steps(
    gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count, uint64_t peers);

/* Gives further devices access to the memory of the steps. Ignores failures, because the program decides
 * which devices can have access. */
void gp_map_allow(
    gp_engine_t *engine, gp_context_t *context, const gp_map_step_t *steps, size_t count, uint64_t devices);

#endif
