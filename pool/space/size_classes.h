/*
 * Pool types: how large a block is made for a request, which idle blocks may serve one, and whether a block
 * is kept after the free.
 */
#ifndef GP_POOL_SPACE_SIZE_CLASSES_H
#define GP_POOL_SPACE_SIZE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/util/assert.h"
#include "pool/util/options.h"

/* Smallest block of the types that keep blocks: the alignment that drivers give (cuda-c-programming-guide: at
 * least 256 bytes; 512 is what they do). */
#define GP_BLOCK_GRANULE UINT64_C(512)

/* Allocations of more than GP_DRIVER_SHARED_MAX bytes take whole pages of the device, whatever is asked for;
 * smaller ones share pages (measured: doc/gpu-results.md, G8 and G17). */
#define GP_DRIVER_PAGE       (UINT64_C(2) << 20)
#define GP_DRIVER_SHARED_MAX (UINT64_C(1) << 20)

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
  bool maps;         /* those are mapped memory, where the driver has it (mapped.h) */

  /*
   * The size class of a request of requested (> 0) bytes, named by the bytes of its largest blocks, at least
   * as many; 0 if that overflows. A block is of the class of its size, which is that of every request that it
   * was made for.
   */
  uint64_t (*block_bytes)(const gp_type_config_t *config, uint64_t requested);

  /* NULL: a block has all bytes of its class. Else one of a large class takes what was asked for, see
   * gp_type_fit, and this is how much the class of that request is above the one before. */
  uint64_t (*class_step)(const gp_type_config_t *config, uint64_t requested);
} gp_pool_type_t;

/*
 * What may serve a request. Invariants: least <= fresh <= class_bytes, least <= most; the classes above and
 * below are 0 where fresh is always class_bytes, else below < least and class_bytes < above.
 */
typedef struct gp_fit {
  uint64_t least;       /* what was asked for: no smaller block serves */
  uint64_t fresh;       /* bytes of a block that is made for it */
  uint64_t class_bytes; /* idle blocks of this class serve, and ... */
  uint64_t above;       /* ... if none does, of the next one, ... */
  uint64_t most;        /* ... up to so many bytes */
  uint64_t below;       /* the class before */
} gp_fit_t;

extern const gp_pool_type_t gp_pool_type_round;
extern const gp_pool_type_t gp_pool_type_naive;
extern const gp_pool_type_t gp_pool_type_segment;
extern const gp_pool_type_t gp_pool_type_vmm;
extern const gp_pool_type_t gp_pool_type_unpooled;

/* The type that GPUPOOL_TYPE names. Never NULL. */
const gp_pool_type_t *gp_pool_type(const gp_options_t *options);
void gp_type_config_init(gp_type_config_t *config, const gp_options_t *options);

/*
 * In classes above GP_LARGE_CLASS, which are more than 2 MiB apart, rounding to the class would take up to an
 * eighth of a device from a program that fills it with buffers of one size. So a block is made of the
 * request, rounded to what drivers hand out anyway. A class then has blocks of many sizes, and the smaller
 * ones do not serve its larger requests: blocks of the next class do, if they waste no more than a class may.
 * Figures are in doc/sizes.md.
 */
#define GP_LARGE_CLASS (UINT64_C(32) << 20)

/* For gp_type_fit: what is different in a large class. */
void gp_type_fit_large(const gp_pool_type_t *type, const gp_type_config_t *config, gp_fit_t *fit);

/* What may serve a request of requested (> 0) bytes. False: rounding overflows. */
static inline bool gp_type_fit(
    const gp_pool_type_t *type, const gp_type_config_t *config, uint64_t requested, gp_fit_t *ret_fit)
{
  uint64_t bytes = type->block_bytes(config, requested);

  *ret_fit = (gp_fit_t){.least = requested, .fresh = bytes, .class_bytes = bytes, .most = bytes};
  if (bytes > GP_LARGE_CLASS && type->class_step)
    gp_type_fit_large(type, config, ret_fit);
  return bytes != 0;
}

/* value rounded up to a multiple of step (> 0); 0 if that overflows. */
static inline uint64_t gp_round_up(uint64_t value, uint64_t step)
{
  uint64_t remainder = value % step;
  return remainder == 0 ? value : value > UINT64_MAX - (step - remainder) ? 0 : value + (step - remainder);
}

/* The same, step being a power of two, without a division. */
static inline uint64_t gp_round_up_to_power(uint64_t value, uint64_t step)
{
  gp_assert_internal((step & (step - 1)) == 0);
  return value > UINT64_MAX - (step - 1) ? 0 : (value + (step - 1)) & ~(step - 1);
}

/* Rounds up to what the driver takes of the device for so many bytes that share no
 * page; 0 if that overflows. */
static inline uint64_t gp_bytes_taken(uint64_t bytes)
{
  return gp_round_up(bytes, bytes > GP_DRIVER_SHARED_MAX ? GP_DRIVER_PAGE : GP_BLOCK_GRANULE);
}

#endif
