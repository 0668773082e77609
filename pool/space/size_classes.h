/* Pool types. A pool type determines the block size for a request, the idle blocks that may serve it, and
 * whether the pool keeps a block after the free. */
#ifndef GP_POOL_SPACE_SIZE_CLASSES_H
#define GP_POOL_SPACE_SIZE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/options.h"

/* Smallest block of the pool types that keep blocks. It is the alignment of driver allocations
 * (cuda-c-programming-guide: at least 256 bytes; drivers use 512). */
#define GP_BLOCK_GRANULE UINT64_C(512)

/* Allocations of more than GP_DRIVER_SHARED_MAX bytes use whole pages of the device; smaller ones share pages
 * (measured: doc/gpu-results.md, G8 and G17). */
#define GP_DRIVER_PAGE       (UINT64_C(2) << 20)
#define GP_DRIVER_SHARED_MAX (UINT64_C(1) << 20)

/* The resolved options that determine block sizes. All are powers of two except large_round. */
typedef struct gp_type_config {
  uint64_t page;
  uint64_t large_round;
  unsigned divisions;
  unsigned cutoff; /* log2 of the size; 64: none */
} gp_type_config_t;

typedef struct gp_pool_type {
  const char *name;
  bool keeps_blocks; /* false: every free is forwarded to the driver */
  bool cuts;         /* blocks are cut from larger driver allocations (segment.h) */
  bool maps;         /* with cuts: blocks are parts of mapped memory if the driver can map (mapped.h) */

  /*
   * Returns the size class of a request of `requested` (> 0) bytes, or 0 on overflow. A class is identified
   * by the bytes of its largest blocks, which are at least the requested bytes. The class of a block follows
   * from its size, and is the class of the request for which it was created.
   */
  uint64_t (*block_bytes)(const gp_type_config_t *config, uint64_t requested);

  /* Returns the distance from the next lower class to the class of the request. A block of a large class then
   * has only the requested bytes, see gp_type_fit. If the pointer is NULL, every block has all bytes of its
   * class. */
  uint64_t (*class_step)(const gp_type_config_t *config, uint64_t requested);
} gp_pool_type_t;

/* The blocks that may serve a request. Invariants: least <= fresh <= class_bytes, and least <= most. If fresh
 * is always class_bytes, `above` and `below` are 0. Otherwise below < least and class_bytes < above. */
typedef struct gp_fit {
  uint64_t least;       /* requested bytes: no smaller block serves */
  uint64_t fresh;       /* bytes of a new block for the request */
  uint64_t class_bytes; /* class whose idle blocks serve */
  uint64_t above;       /* next higher class, whose idle blocks serve if class_bytes has none */
  uint64_t most;        /* largest block of that class that serves */
  uint64_t below;       /* next lower class */
  uint64_t borrow;      /* if none of these serves: largest block of any class that does; 0: none */
} gp_fit_t;

extern const gp_pool_type_t gp_pool_type_round;
extern const gp_pool_type_t gp_pool_type_naive;
extern const gp_pool_type_t gp_pool_type_segment;
extern const gp_pool_type_t gp_pool_type_vmm;
extern const gp_pool_type_t gp_pool_type_unpooled;

/* Returns the pool type that GPUPOOL_TYPE selects. Never NULL. */
const gp_pool_type_t *gp_pool_type(const gp_options_t *options);
void gp_type_config_init(gp_type_config_t *config, const gp_options_t *options);

/*
 * In classes above GP_LARGE_CLASS, which are more than 2 MiB apart, rounding to the class would waste memory.
 * It would take up to an eighth of a device from a program that fills the device with buffers of one size. So
 * a new block has the request's size, rounded up to the size that drivers allocate anyway. A class then has
 * blocks of many sizes. Its smaller blocks do not serve its larger requests, but blocks of the next class do,
 * if they waste no more than rounding to a class may. doc/memory-types.md has the measurements.
 */
#define GP_LARGE_CLASS (UINT64_C(32) << 20)

/* Changes *fit for a large class. Only gp_type_fit calls it. */
void gp_type_fit_large(const gp_pool_type_t *type, const gp_type_config_t *config, gp_fit_t *fit);

/* Computes which blocks may serve a request of `requested` (> 0) bytes. Returns false if rounding overflows.
 */
static inline bool gp_type_fit(
    const gp_pool_type_t *type, const gp_type_config_t *config, uint64_t requested, gp_fit_t *ret_fit)
{
  uint64_t bytes = type->block_bytes(config, requested);

  *ret_fit = (gp_fit_t){.least = requested, .fresh = bytes, .class_bytes = bytes, .most = bytes};
  if (bytes > GP_LARGE_CLASS && type->class_step)
    gp_type_fit_large(type, config, ret_fit);
  return bytes != 0;
}

/* Returns `value` rounded up to a multiple of `step` (> 0), or 0 on overflow. */
static inline uint64_t gp_round_up(uint64_t value, uint64_t step)
{
  uint64_t remainder = value % step;
  return remainder == 0 ? value : value > UINT64_MAX - (step - remainder) ? 0 : value + (step - remainder);
}

/* Does what gp_round_up does, but without a division: `step` is a power of two. */
static inline uint64_t gp_round_up_to_power(uint64_t value, uint64_t step)
{
  gp_assert_internal((step & (step - 1)) == 0);
  return value > UINT64_MAX - (step - 1) ? 0 : (value + (step - 1)) & ~(step - 1);
}

/* Returns the bytes of the device that the driver uses for an allocation of `bytes` that shares no page, or 0
 * on overflow. */
static inline uint64_t gp_bytes_taken(uint64_t bytes)
{
  return gp_round_up(bytes, bytes > GP_DRIVER_SHARED_MAX ? GP_DRIVER_PAGE : GP_BLOCK_GRANULE);
}

#endif
