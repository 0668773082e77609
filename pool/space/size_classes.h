/*
 * Pool types: how large a block is made for a request, and whether it is kept after the free.
 */
#ifndef GP_POOL_SPACE_SIZE_CLASSES_H
#define GP_POOL_SPACE_SIZE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/util/options.h"

/* Smallest block of the types that keep blocks: the alignment that drivers give (cuda-c-programming-guide: at
 * least 256 bytes; 512 is what they do). */
#define GP_BLOCK_GRANULE UINT64_C(512)

/* The options that decide about block sizes, resolved. All are powers of two except large_round. */
typedef struct gp_type_config {
  uint64_t page;
  uint64_t large_round;
  unsigned divisions;
  unsigned cutoff; /* log2; 64: none */
} gp_type_config_t;

typedef struct gp_pool_type {
  const char *name;
  bool keeps_blocks; /* false: every free goes to the driver */
  bool cuts;         /* blocks are parts of larger driver allocations (segment.h) */

  /* Bytes of the block for a request of requested (> 0) bytes, at least as many; 0 if that overflows. */
  uint64_t (*block_bytes)(const gp_type_config_t *config, uint64_t requested);
} gp_pool_type_t;

extern const gp_pool_type_t gp_pool_type_round;
extern const gp_pool_type_t gp_pool_type_naive;
extern const gp_pool_type_t gp_pool_type_segment;
extern const gp_pool_type_t gp_pool_type_unpooled;

/* The type that GPUPOOL_TYPE names. Never NULL. */
const gp_pool_type_t *gp_pool_type(const gp_options_t *options);
void gp_type_config_init(gp_type_config_t *config, const gp_options_t *options);

/* value rounded up to a multiple of step (> 0); 0 if that overflows. */
static inline uint64_t gp_round_up(uint64_t value, uint64_t step)
{
  uint64_t remainder = value % step;
  return remainder == 0 ? value : value > UINT64_MAX - (step - remainder) ? 0 : value + (step - remainder);
}

#endif
