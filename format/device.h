/* The stored data of a device. The engine keeps its statistics in the record itself (pool/observer.h,
 * place_stats), so that they survive when the process is killed. */
#ifndef GP_FORMAT_DEVICE_H
#define GP_FORMAT_DEVICE_H

#include <stdint.h>

#include "format/stats.h"

#define GP_MAX_DEVICES 64

/* How much of a device's memory is in use for anything but allocations by this process: contexts, code, the
 * driver's tables, other processes. The figures are from the pool's last query of the driver. */
typedef struct gp_device_use {
  uint64_t total;       /* bytes of memory that the device has */
  uint64_t free;        /* free bytes that the driver reported */
  uint64_t time_ns;     /* time of the driver's report */
  uint64_t accounted;   /* bytes that the engine had counted at that time, pooled or forwarded */
  uint64_t in_pools;    /* part of `accounted` that the driver's own pools had reserved but not in use */
  uint64_t unaccounted; /* other bytes in use; 0 if the figures, of different times, contradict each other */
} gp_device_use_t;

#define GP_DEVICE_RECORD_BYTES (sizeof(gp_stats_t) + 3 * sizeof(uint64_t) + sizeof(gp_device_use_t))

/* The stored data of one device. No two devices share a cache line. Writers hold the device's lock. */
typedef struct gp_device_record {
  _Alignas(64) gp_stats_t stats;
  uint64_t is_known; /* 1: the other members are set */
  uint64_t limit;    /* bytes; 0: no limit */
  uint64_t has_use;  /* 1: `use` is valid, because the pool has queried the driver */
  gp_device_use_t use;
  uint8_t reserved[64 - GP_DEVICE_RECORD_BYTES % 64];
} gp_device_record_t;

#endif
