/* The names of the engine's records. A record is in a header of its own, and in the room that changes it. */
#ifndef GP_POOL_RECORDS_H
#define GP_POOL_RECORDS_H

#include "pool/engine.h"

/* Bytes that processors move between their caches as one: what threads write by themselves lies apart. */
#define GP_CACHE_LINE 64

typedef struct gp_block gp_block_t;
typedef struct gp_device gp_device_t;
typedef struct gp_heap gp_heap_t;
typedef struct gp_segment gp_segment_t;
typedef struct gp_range gp_range_t;

#endif
