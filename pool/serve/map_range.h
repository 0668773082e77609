/*
 * The addresses that a context has for mapped memory, type vmm, or a device for stream-ordered memory.
 */
#ifndef GP_POOL_SERVE_MAP_RANGE_H
#define GP_POOL_SERVE_MAP_RANGE_H

#include "pool/records.h"

/*
 * Returns 0 if the context has a range. The first call reserves one and tries whether memory can be mapped
 * there. Otherwise code_out_of_memory: the device or the limit (*by_limit) has no memory for that trial; or
 * code_not_ready: the driver cannot map memory (final, with one message), or not now, or another thread is
 * trying. asker: a context of the device. The caller holds no lock.
 */
int gp_map_range_find(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, bool *by_limit);

/* Gives a device access to the arena's mapped memory, and to what will be mapped there. Returns the first
 * failure's code. The caller holds no lock. */
int gp_map_range_give_access(gp_engine_t *engine, gp_context_t *arena, int ordinal);

/* The context is lost. Gives its mapped memory back, which the driver keeps beyond the context's end,
 * except chunks that other threads are about to map or release. The caller holds no lock. */
void gp_map_range_lose(gp_engine_t *engine, gp_context_t *context);

/* The driver calls that move memory to its mapping, and back if one of them fails. */

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
