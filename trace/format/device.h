/*
 * What is stored of a device. The engine keeps its statistics in the record itself (pool/observer.h,
 * place_stats), so that they outlive a killed process.
 */
#ifndef GP_TRACE_FORMAT_DEVICE_H
#define GP_TRACE_FORMAT_DEVICE_H

#include <stdint.h>

#include "trace/format/stats.h"

#define GP_MAX_DEVICES 64

/*
 * What of a device is in use and not by memory that this process asked for: contexts, code, what the driver's
 * tables need, other processes. As of the last time that the driver was asked for its figures.
 */
typedef struct gp_device_use {
  uint64_t total;     /* bytes of the device */
  uint64_t free;      /* as the driver said ... */
  uint64_t time_ns;   /* ... then */
  uint64_t accounted; /* bytes that the engine knew of at that time, pooled or not, and ... */
  uint64_t in_pools;  /* ... of these what the driver's own pools held and the process did not use */
  uint64_t
      unaccounted; /* the rest of what was in use; 0 if the figures, which are not of one moment, disagree */
} gp_device_use_t;

#define GP_DEVICE_RECORD_BYTES (sizeof(gp_stats_t) + 3 * sizeof(uint64_t) + sizeof(gp_device_use_t))

/* One line of cache is not shared by two devices. The caller holds the device's lock to write. */
typedef struct gp_device_record {
  _Alignas(64) gp_stats_t stats;
  uint64_t is_known; /* 1: the rest is filled in */
  uint64_t limit;    /* bytes; 0: none */
  uint64_t has_use;  /* 1: the driver has been asked for the device's figures */
  gp_device_use_t use;
  uint8_t reserved[64 - GP_DEVICE_RECORD_BYTES % 64];
} gp_device_record_t;

#endif
