/* The stored data of a device. The engine keeps its statistics in the record itself (pool/observer.h,
 * place_stats), so that they outlive a killed process. */
#ifndef GP_FORMAT_DEVICE_H
#define GP_FORMAT_DEVICE_H

#include <stdint.h>

#include "format/stats.h"

#define GP_MAX_DEVICES 64

/* How much of a device is in use by anything but memory that this process asked for: contexts, code, the
 * driver's tables, other processes. The figures are from the pool's last question to the driver. */
typedef struct gp_device_use {
  uint64_t total;     /* bytes of the device */
  uint64_t free;      /* the driver's figure ... */
  uint64_t time_ns;   /* ... then */
  uint64_t accounted; /* bytes that the engine knew of then, pooled or not, and ... */
  uint64_t in_pools;  /* ... the part that the driver's own pools held and the process did not use */
  uint64_t
      unaccounted; /* the rest of what was in use; 0 if the figures, which are not of one moment, disagree */
} gp_device_use_t;

#define GP_DEVICE_RECORD_BYTES (sizeof(gp_stats_t) + 3 * sizeof(uint64_t) + sizeof(gp_device_use_t))

/* No two devices share a cache line. To write, the caller holds the device's lock. */
typedef struct gp_device_record {
  _Alignas(64) gp_stats_t stats;
  uint64_t is_known; /* 1: the rest is set */
  uint64_t limit;    /* bytes; 0: none */
  uint64_t has_use;  /* 1: the pool has asked the driver for the device's figures */
  gp_device_use_t use;
  uint8_t reserved[64 - GP_DEVICE_RECORD_BYTES % 64];
} gp_device_record_t;

#endif
