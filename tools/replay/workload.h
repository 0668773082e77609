/*
 * A workload is the input of a replay: a program's requests in order, and when work was known to be complete.
 * It comes from a snapshot (workload_snapshot.c) or from rows (workload_load.c).
 *
 * Invariants: a block is allocated and freed at most once, in that order, by steps on its device and of one
 * kind (pooled or not). A SYNC_END has the number of an earlier SYNC_BEGIN of its device, and no other
 * SYNC_END has that number. Times never decrease. gp_workload_is_sound checks them.
 */
#ifndef GP_TOOLS_REPLAY_WORKLOAD_H
#define GP_TOOLS_REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "tools/read/snapshot.h"

typedef enum gp_step_kind {
  GP_STEP_ALLOC,           /* cudaMalloc or, if it has a stream, cudaMallocAsync */
  GP_STEP_FREE,            /* stream-ordered if it has a stream */
  GP_STEP_ATTEMPT,         /* an allocation that failed in the recording */
  GP_STEP_FORWARDED_ALLOC, /* device memory outside the pool */
  GP_STEP_FORWARDED_FREE,
  GP_STEP_SYNC_BEGIN, /* the SYNC_END of the same number covers all memory freed before this step */
  GP_STEP_SYNC_END,   /* the program or the pool now knows that the work on that memory is complete */
} gp_step_kind_t;

#define GP_STEP_NO_STREAM UINT16_MAX

typedef struct gp_step {
  uint64_t size;    /* requested bytes; 0 for frees; 1 for a SYNC_END after which the pool drains at once */
  uint64_t time_ns; /* since recording began */
  uint32_t block;   /* number of the block, from 0; number of the synchronization for SYNC; 0 for ATTEMPT */
  uint16_t stream;  /* number of the stream on its device, from 0; GP_STEP_NO_STREAM: none */
  uint8_t device;   /* ordinal */
  uint8_t kind;     /* gp_step_kind_t */
} gp_step_t;

/* When the pool learns that the device's work on freed memory is complete. */
typedef enum gp_ready_kind {
  GP_READY_RECORDED, /* as in the recording */
  GP_READY_AT_ONCE,  /* before the next request */
  GP_READY_SYNC,     /* at a synchronization after every `number` requests */
  GP_READY_LAG,      /* the device is `number` requests behind, and the program never synchronizes */
} gp_ready_kind_t;

typedef struct gp_ready {
  gp_ready_kind_t kind;
  uint64_t number; /* of requests, at least 1; for SYNC and LAG */
} gp_ready_t;

/* A device of the recording: its memory in bytes, and the statistics of its pool. */
typedef struct gp_workload_device {
  uint64_t requests;
  uint64_t live_peak;  /* peak of the pooled memory that the program had in use */
  uint64_t asked_peak; /* peak of all memory that the program had in use, pooled or not */
  uint64_t total;      /* memory of the device; 0: unknown */
  uint64_t outside;    /* used by contexts, code and other processes */
  bool is_recorded;    /* stats come from a pool that was in use */
  gp_stats_t stats;
} gp_workload_device_t;

typedef struct gp_workload {
  gp_step_t *steps;
  size_t step_count;
  size_t block_count;
  size_t sync_count;
  size_t request_count;  /* ALLOC, FREE and ATTEMPT */
  unsigned stream_count; /* the most on any device */
  gp_workload_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t present;   /* bit mask of devices */
  uint64_t ill_freed; /* number of frees of memory that was not in use; they are no steps */
  gp_ready_t ready;   /* as applied by gp_workload_settle */
  bool has_times;     /* else requests are GP_WORKLOAD_STEP_NS apart */
  bool is_ours;       /* settings are those of gpupool's pool */
  bool is_partial;    /* earlier requests are missing, except for memory that was still in use */
  cJSON *settings;    /* settings of the recording, by lower-case name; NULL: none */
  char pool[64];      /* the source of stats: "gpupool, type round", "PyTorch"; "": none */
} gp_workload_t;

/* Assumed time between two requests of a recording without times. */
#define GP_WORKLOAD_STEP_NS UINT64_C(20000)

/*
 * Reads the file at path ("-": stdin): a snapshot of gpupool or PyTorch, or a trace or a log of RMM
 * (workload_load.c). If ready is NULL, uses what the input recorded, or AT_ONCE if it recorded nothing. Reads
 * only the requests of device, or all with GP_REQUEST_ALL_DEVICES. Returns 0 or, after a message, the exit
 * status. Call fini in any case.
 */
int gp_workload_load(gp_workload_t *workload, const char *path, const gp_ready_t *ready, int device);
void gp_workload_fini(gp_workload_t *workload);

bool gp_workload_is_sound(const gp_workload_t *workload);

/* Parses "recorded", "at-once", "sync=64", "lag=64". Returns false for any other text. */
bool gp_ready_parse(const char *text, gp_ready_t *ret_ready);

/* To make a workload, add its steps in order; gp_workload_settle then inserts synchronizations, unless
 * `ready` is RECORDED. If there is no memory, add returns false, and settle ENOMEM. */
bool gp_workload_add(gp_workload_t *workload, const gp_step_t *step);
int gp_workload_settle(gp_workload_t *workload, const gp_ready_t *ready);

/* Ends the workload with the last request that failed up to that time. Returns false, without a change, if
 * there is none. Call it before gp_workload_settle. */
bool gp_workload_cut(gp_workload_t *workload, uint64_t time_ns);

/* Repeats the last tenth of the requests that succeeded, as if the program had continued like that. A block
 * that these requests allocate and do not free is in use twice then, unless they also freed an older block of
 * its size: then the copy replaces the block. If the recording ends with a failed request, that now
 * allocates. Call it before gp_workload_settle. Returns 0 or ENOMEM. */
int gp_workload_repeat_end(gp_workload_t *workload);

#endif
