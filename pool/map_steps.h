/*
 * The driver calls that bring memory to where it is mapped, and back if one of them fails. Uses:
 * driver_calls.h.
 */
#ifndef GP_POOL_MAP_STEPS_H
#define GP_POOL_MAP_STEPS_H

#include "pool/state.h"

typedef enum gp_map_done {
  GP_MAP_NOTHING,
  GP_MAP_FLOATING, /* the memory is made, or no longer where it was, and not yet where it is to be */
  GP_MAP_MAPPED,
  GP_MAP_LOST, /* it was to go back to where it was, and the driver refused: it is the driver's again */
} gp_map_done_t;

/* Memory that comes to an address. */
typedef struct gp_map_step {
  gp_block_t *source; /* MAPPING, with a chunk that moves; NULL: memory is made */
  uint64_t from;      /* its address */
  uint64_t address;
  uint64_t size;   /* bytes */
  uint64_t handle; /* the driver's */
  unsigned run;    /* steps with the same number fill one hole without a gap, and follow each other */
  gp_map_done_t done;
} gp_map_step_t;

/*
 * Takes the steps, with access for the device of the context and for those in the mask `peers`. Returns the
 * driver's code; after a failure the steps taken are undone, and each is NOTHING or LOST. The caller holds no
 * lock.
 */
int gp_map_take_steps(
    gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count, uint64_t peers);

/* Lets devices use what those steps mapped, too. A device that cannot is the program's affair. */
void gp_map_allow(
    gp_engine_t *engine, gp_context_t *context, const gp_map_step_t *steps, size_t count, uint64_t devices);

#endif
