/*
 * A workload is the input of a replay: the requests of a program in order, and the times at which work was
 * known to be complete. It is made from a snapshot (workload_snapshot.c) or from rows (workload_load.c).
 *
 * Invariants: a block is allocated at most once, and then freed at most once, by steps on its device and of
 * one kind (pooled or forwarded). A SYNC_END has the number of an earlier SYNC_BEGIN on its device, and no
 * other SYNC_END has that number. Times never decrease. gp_workload_is_sound checks the invariants.
 */
#ifndef GP_TOOLS_REPLAY_WORKLOAD_H
#define GP_TOOLS_REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "tools/read/snapshot.h"

typedef enum gp_step_kind {
  GP_STEP_ALLOC,           /* cudaMalloc, or cudaMallocAsync if the step has a stream */
  GP_STEP_FREE,            /* a free, which is stream-ordered if the step has a stream */
  GP_STEP_ATTEMPT,         /* an allocation that failed in the recording */
  GP_STEP_FORWARDED_ALLOC, /* an allocation of device memory outside the pool */
  GP_STEP_FORWARDED_FREE,
  GP_STEP_SYNC_BEGIN, /* the SYNC_END with this number covers all memory freed before this step */
  GP_STEP_SYNC_END,   /* the program or the pool now knows that the work on that memory is complete */
} gp_step_kind_t;

#define GP_STEP_NO_STREAM UINT16_MAX

typedef struct gp_step {
  /* Requested bytes; 0 for frees. For SYNC_END: 1 if the pool drains at once afterwards, otherwise 0. */
  uint64_t size;
  uint64_t time_ns; /* time since recording began */
  /* Number of the block, from 0 on; for SYNC the number of the synchronization; 0 for ATTEMPT. */
  uint32_t block;
  uint16_t stream; /* number of the stream on its device, from 0 on; GP_STEP_NO_STREAM: none */
  uint8_t device;  /* ordinal of the device */
  uint8_t kind;    /* a gp_step_kind_t */
} gp_step_t;

/* When the pool learns that the work on freed memory is complete. */
typedef enum gp_ready_kind {
  GP_READY_RECORDED, /* as in the recording */
  GP_READY_AT_ONCE,  /* before the next request */
  GP_READY_SYNC,     /* at a synchronization after each `number` requests */
  GP_READY_LAG,      /* `number` requests later, because the device is behind; no synchronizations */
} gp_ready_kind_t;

typedef struct gp_ready {
  gp_ready_kind_t kind;
  uint64_t number; /* number of requests, for SYNC (at least 1) and LAG */
} gp_ready_t;

/* A device of the recording, with its memory in bytes and the statistics of its pool. */
typedef struct gp_workload_device {
  uint64_t requests;
  uint64_t live_peak;  /* peak of the pooled memory that the program had in use */
  uint64_t asked_peak; /* peak of all memory that the program had in use, pooled or forwarded */
  uint64_t total;      /* size of the device's memory; 0: unknown */
  uint64_t outside;    /* bytes used by contexts, code and other processes */
  bool is_recorded;    /* true if `stats` comes from a pool that was in use */
  gp_stats_t stats;
} gp_workload_device_t;

typedef struct gp_workload {
  gp_step_t *steps;
  size_t step_count;
  size_t block_count;
  size_t sync_count;
  size_t request_count;  /* number of ALLOC, FREE and ATTEMPT steps */
  unsigned stream_count; /* largest number of streams on a device */
  gp_workload_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t present;   /* bit mask of the devices that have steps */
  uint64_t ill_freed; /* number of frees of memory that was not in use, which are not steps */
  gp_ready_t ready;   /* set by gp_workload_settle */
  bool has_times;     /* false: requests are GP_WORKLOAD_STEP_NS apart */
  bool is_ours;       /* true if the settings are those of gpupool's pool */
  bool is_partial;    /* earlier requests are missing, except for memory that was still in use */
  cJSON *settings;    /* recorded settings, by lower-case name; NULL: none */
  char pool[64];      /* the source of stats: "gpupool, type round", "PyTorch"; "": none */
} gp_workload_t;

/* The assumed time between two requests if the recording has no times. */
#define GP_WORKLOAD_STEP_NS UINT64_C(20000)

/*
 * Reads the file at `path` ("-": stdin): a snapshot of gpupool or PyTorch, a trace, or a log of RMM
 * (workload_load.c). If `ready` is NULL, uses the recorded completions, or AT_ONCE if none were recorded.
 * Reads only the requests of `device`, or all requests with GP_REQUEST_ALL_DEVICES. Returns 0, or the exit
 * status after printing a message. Call gp_workload_fini in any case.
 */
int gp_workload_load(gp_workload_t *workload, const char *path, const gp_ready_t *ready, int device);
void gp_workload_fini(gp_workload_t *workload);

bool gp_workload_is_sound(const gp_workload_t *workload);

/* Parses "recorded", "at-once", "sync=64" or "lag=64". Returns false for any other text. */
bool gp_ready_parse(const char *text, gp_ready_t *ret_ready);

/* To make a workload, add its steps in order with gp_workload_add. Then gp_workload_settle inserts
 * synchronizations, unless `ready` is RECORDED. If memory runs out, they return false and ENOMEM. */
bool gp_workload_add(gp_workload_t *workload, const gp_step_t *step);
int gp_workload_settle(gp_workload_t *workload, const gp_ready_t *ready);

/* Ends the workload with the last request that failed up to time_ns. Returns false, and changes nothing, if
 * there is no such request. Call it before gp_workload_settle. */
bool gp_workload_cut(gp_workload_t *workload, uint64_t time_ns);

/* Repeats the last tenth of the successful requests, as if the program had continued in the same way. A block
 * that these requests allocate and do not free is then in use twice. If they also freed an older block of the
 * same size, the copy replaces the block instead. If the recording ends with a failed request, that request
 * now succeeds. Call this function before gp_workload_settle. Returns 0 or ENOMEM. */
int gp_workload_repeat_end(gp_workload_t *workload);

#endif
