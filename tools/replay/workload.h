/*
 * What a program asked of the pool, in order, as a replay needs it: requests, and when work was known to be
 * complete. It comes from a snapshot (workload_snapshot.c) or from rows (workload_load.c).
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
  GP_STEP_ALLOC,           /* memory of cudaMalloc or, with a stream, of cudaMallocAsync */
  GP_STEP_FREE,            /* with a stream: in the stream's order */
  GP_STEP_ATTEMPT,         /* an allocation that failed in the recording */
  GP_STEP_FORWARDED_ALLOC, /* device memory outside the pool */
  GP_STEP_FORWARDED_FREE,
  GP_STEP_SYNC_BEGIN, /* the SYNC_END of the same number covers what is freed before this */
  GP_STEP_SYNC_END,   /* now the program, or the pool, knows that the device is done with it */
} gp_step_kind_t;

#define GP_STEP_NO_STREAM UINT16_MAX

typedef struct gp_step {
  uint64_t size;    /* bytes requested; 0 for frees; for a SYNC_END 1: the pool uses all of it at once */
  uint64_t time_ns; /* since recording began */
  uint32_t block;   /* from 0; for SYNC steps their number; for an ATTEMPT 0 */
  uint16_t stream;  /* from 0, by device; GP_STEP_NO_STREAM: none */
  uint8_t device;   /* ordinal */
  uint8_t kind;     /* gp_step_kind_t */
} gp_step_t;

/* When the pool learns that the device is done with freed memory. */
typedef enum gp_ready_kind {
  GP_READY_RECORDED, /* as in the recording */
  GP_READY_AT_ONCE,  /* before the next request */
  GP_READY_SYNC,     /* at a synchronization after every `number` requests */
  GP_READY_LAG,      /* the device lags `number` requests, and the program never synchronizes */
} gp_ready_kind_t;

typedef struct gp_ready {
  gp_ready_kind_t kind;
  uint64_t number; /* at least 1; for SYNC and LAG */
} gp_ready_t;

/* A device of the recording: its memory, and what its pool did. All in bytes. */
typedef struct gp_workload_device {
  uint64_t requests;
  uint64_t live_peak;  /* most pooled memory that the program held */
  uint64_t asked_peak; /* most memory that it had requested and not freed, pooled or not */
  uint64_t total;      /* of the device; 0: unknown */
  uint64_t outside;    /* used by others, contexts included */
  bool is_recorded;    /* stats are of a pool that was in use */
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
  uint64_t present;   /* devices, as a bit mask */
  uint64_t ill_freed; /* frees of memory that was not live; left out */
  gp_ready_t ready;   /* as applied */
  bool has_times;     /* else requests are 20 us apart */
  bool is_ours;       /* settings are those of gpupool's pool */
  bool is_partial;    /* of earlier requests, only memory still held is known */
  cJSON *settings;    /* the recording's, by lower-case name; NULL: none */
  char pool[64];      /* the source of stats: "gpupool, type round", "PyTorch"; "": none */
} gp_workload_t;

/* Time between two requests of a recording without times. */
#define GP_WORKLOAD_STEP_NS UINT64_C(20000)

/*
 * Reads the file at path ("-": stdin): a snapshot of gpupool or PyTorch, or a trace or a log of RMM
 * (workload_load.c). ready: NULL for what the input tells, or AT_ONCE if it tells nothing. device: reads
 * only this one, or GP_REQUEST_ALL_DEVICES. Returns 0 or, after a message, the exit status. Call fini in
 * any case.
 */
int gp_workload_load(gp_workload_t *workload, const char *path, const gp_ready_t *ready, int device);
void gp_workload_fini(gp_workload_t *workload);

bool gp_workload_is_sound(const gp_workload_t *workload);

/* Parses "recorded", "at-once", "sync=64", "lag=64". Returns false for any other text. */
bool gp_ready_parse(const char *text, gp_ready_t *ret_ready);

/* Makes a workload: add steps in order; gp_workload_settle then inserts synchronizations, unless `ready` is
 * RECORDED. Without memory add returns false, and settle ENOMEM. */
bool gp_workload_add(gp_workload_t *workload, const gp_step_t *step);
int gp_workload_settle(gp_workload_t *workload, const gp_ready_t *ready);

/* The two come before gp_workload_settle. cut: ends the workload with the last request that failed by that
 * time. False: there is none, and nothing has changed. */
bool gp_workload_cut(gp_workload_t *workload, uint64_t time_ns);

/* Adds the last tenth of the requests once more, less those that failed, as if the program had gone on like
 * that. What these took and did not free is held twice then, unless they freed something older of that size;
 * and the request with which the recording ends is held, if that failed. Returns 0 or ENOMEM. */
int gp_workload_repeat_end(gp_workload_t *workload);

#endif
