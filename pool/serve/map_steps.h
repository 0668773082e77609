/* The driver calls that move memory to its mapping, and back if one of them fails. */
#ifndef GP_POOL_SERVE_MAP_STEPS_H
#define GP_POOL_SERVE_MAP_STEPS_H

#include "pool/records.h"

typedef enum gp_map_done {
  GP_MAP_NOTHING,
  GP_MAP_FLOATING, /* the memory is new, or left its old place, and has not reached its new one */
  GP_MAP_MAPPED,
  GP_MAP_LOST, /* moving it back failed, and it belongs to the driver again */
} gp_map_done_t;

/* Memory that comes to an address. */
typedef struct gp_map_step {
  gp_block_t *source; /* MAPPING, with the chunk that moves; NULL: the step makes memory */
  uint64_t from;      /* the source's address */
  uint64_t address;
  uint64_t size;   /* bytes */
  uint64_t handle; /* the driver's */
  unsigned run;    /* steps with the same number fill one hole without a gap, in the array's order */
  gp_map_done_t done;
} gp_map_step_t;

/*
 * Takes the steps, and gives access to the context's device and to those in the mask `peers`.
 * Returns the driver's code; after a failure the steps taken are undone, and each is NOTHING or
 * LOST. The caller holds no lock.
 */
int gp_map_take_steps(
    gp_engine_t *engine, gp_context_t *context, gp_map_step_t *steps, size_t count, uint64_t peers);

/* Also lets devices use the memory of those steps. Whether a device can is the program's concern. */
void gp_map_allow(
    gp_engine_t *engine, gp_context_t *context, const gp_map_step_t *steps, size_t count, uint64_t devices);

#endif
