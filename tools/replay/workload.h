/*
 * What a program asked of the pool, in order, as a replay needs it: requests, and when work was known to be
 * complete. Made of a snapshot (workload_snapshot.c) or of rows (workload_csv.c).
 *
 * Invariants: a block is allocated and freed at most once, in that order, by steps of its device and of one
 * kind (pooled or not); a SYNC_END has the number of an earlier SYNC_BEGIN of its device that no other
 * SYNC_END has; times never decrease. gp_workload_is_sound checks them.
 */
#ifndef GP_TOOLS_REPLAY_WORKLOAD_H
#define GP_TOOLS_REPLAY_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/util/options.h"
#include "tools/read/snapshot.h"

typedef enum gp_step_kind {
  GP_STEP_ALLOC,           /* memory of cudaMalloc, or with a stream of cudaMallocAsync */
  GP_STEP_FREE,            /* with a stream: in its order */
  GP_STEP_ATTEMPT,         /* an allocation that the program did not get */
  GP_STEP_FORWARDED_ALLOC, /* device memory that no pool serves */
  GP_STEP_FORWARDED_FREE,
  GP_STEP_SYNC_BEGIN, /* what is freed before is what the SYNC_END of the same number is about */
  GP_STEP_SYNC_END,   /* the program, or the pool, knows now that the device is done with it */
} gp_step_kind_t;

#define GP_STEP_NO_STREAM UINT16_MAX

typedef struct gp_step {
  uint64_t size; /* bytes asked for; of frees 0; of SYNC_END 1: the pool takes notice of all of it at once */
  uint64_t time_ns; /* since recording began */
  uint32_t block;   /* from 0 on; of the two SYNC their number; of an ATTEMPT 0 */
  uint16_t stream;  /* from 0 on, by device; GP_STEP_NO_STREAM: none */
  uint8_t device;   /* ordinal */
  uint8_t kind;     /* gp_step_kind_t */
} gp_step_t;

/* When the device is known to be done with freed memory. */
typedef enum gp_ready_kind {
  GP_READY_RECORDED, /* when it was in the recording */
  GP_READY_AT_ONCE,  /* before the next request */
  GP_READY_SYNC,     /* at a synchronization after each `number` requests */
  GP_READY_LAG,      /* the device is `number` requests behind, and the program never synchronizes */
} gp_ready_kind_t;

typedef struct gp_ready {
  gp_ready_kind_t kind;
  uint64_t number; /* at least 1; of SYNC and LAG */
} gp_ready_t;

/* A device of the recording: what it had, and what its pool did there. All in bytes. */
typedef struct gp_workload_device {
  uint64_t requests;
  uint64_t live_peak;  /* most that the program held of what is pooled */
  uint64_t asked_peak; /* most of all that it asked for and had not freed, pooled or not */
  uint64_t total;      /* of the device; 0: not known */
  uint64_t outside;    /* in use by others, contexts included */
  bool is_recorded;    /* stats are of a pool that was at work */
  gp_stats_t stats;
} gp_workload_device_t;

typedef struct gp_workload {
  gp_step_t *steps;
  size_t step_count;
  size_t block_count;
  size_t sync_count;
  size_t request_count;  /* ALLOC, FREE and ATTEMPT */
  unsigned stream_count; /* most of a device */
  gp_workload_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t present;   /* devices, as a bit mask */
  uint64_t ill_freed; /* frees in the input of what was not live: left out */
  gp_ready_t ready;   /* as it was applied */
  bool has_times;     /* else a request is each 20 us */
  bool is_ours;       /* settings are those of gpupool's pool */
  bool is_partial;    /* what the program asked for before is known only as far as it held it */
  cJSON *settings;    /* those of the recording, by lower-case name; NULL: none */
  char pool[64];      /* whose stats they are: "gpupool, type round", "PyTorch"; "" if there are none */
} gp_workload_t;

/* Between two requests of a recording without times. */
#define GP_WORKLOAD_STEP_NS UINT64_C(20000)

/*
 * Reads the file at path ("-": stdin): a snapshot of gpupool's or of PyTorch, a trace or a log of RMM
 * (workload_csv.h). ready: NULL for what the input says; AT_ONCE where it says nothing. device: the only one
 * that is wanted, GP_REQUEST_ALL_DEVICES: all. Returns 0 or, after a message, the exit status. Fini it in any
 * case.
 */
int gp_workload_load(gp_workload_t *workload, const char *path, const gp_ready_t *ready, int device);
void gp_workload_fini(gp_workload_t *workload);

bool gp_workload_is_sound(const gp_workload_t *workload);

/* "recorded", "at-once", "sync=64", "lag=64". Returns false if text is nothing like it. */
bool gp_ready_parse(const char *text, gp_ready_t *ret_ready);

/*
 * For those that make one: steps are added in order, and synchronizations put in by gp_workload_settle, for
 * every `ready` but RECORDED. Without memory add returns false, and settle ENOMEM.
 */
typedef struct gp_workload_builder {
  gp_workload_t *workload;
  size_t room;
} gp_workload_builder_t;

bool gp_workload_add(gp_workload_builder_t *builder, const gp_step_t *step);
int gp_workload_settle(gp_workload_t *workload, const gp_ready_t *ready);

#endif
