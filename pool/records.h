/* Declares the engine's record types. Each record is defined in its own header, in the folder of the code
 * that changes it. */
#ifndef GP_POOL_RECORDS_H
#define GP_POOL_RECORDS_H

#include "pool/engine.h"

/* Size of a cache line in bytes. Members that different threads write are in different cache lines. */
#define GP_CACHE_LINE 64

typedef struct gp_block gp_block_t;
typedef struct gp_device gp_device_t;
typedef struct gp_heap gp_heap_t;
typedef struct gp_segment gp_segment_t;
typedef struct gp_range gp_range_t;

#endif
