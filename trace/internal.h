/*
 * What the files of trace/ know of each other. Grouped by the file that defines it.
 *
 * Locks: writer_mutex is the outermost, it is held while a snapshot is written and while the engine is read;
 * the mutexes of chunks, threads, streams and early are taken under the pool's locks, that of the region
 * under these.
 */
#ifndef GP_TRACE_INTERNAL_H
#define GP_TRACE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "pool/util/path.h"
#include "trace/record/chunks.h"
#include "trace/record/description.h"
#include "trace/record/prestart.h"
#include "trace/record/live.h"
#include "trace/record/recorder.h"
#include "trace/region/region.h"
#include "trace/stacks/origin.h"
#include "trace/record/handles.h"
#include "trace/record/threads.h"
#include "trace/snapshot/device_copy.h"

#define GP_SNAPSHOT_BUFFER_BYTES (64 * 1024)

/* snapshot_file.c */
typedef struct gp_snapshot_file {
  int fd;
  bool fell_back; /* the folder asked for could not be written */
  unsigned temporaries;
  char path[GP_PATH_BYTES];      /* the name that was asked for, or that of the fallback */
  char temporary[GP_PATH_BYTES]; /* present while fd is open */
  char published[GP_PATH_BYTES]; /* the name that it got */
} gp_snapshot_file_t;

/*
 * Makes the times of one device's events unique and growing in the order in which they arrive, by a few
 * nanoseconds: a thread may look at the clock before it waits for the device's lock, and order of time is all
 * that a reader has. last_ns is written under the device's lock of the pool; floor_ns by the snapshot writer.
 */
typedef struct gp_device_clock {
  _Alignas(64) _Atomic uint64_t last_ns; /* of the last event */
  _Atomic uint64_t floor_ns;             /* later events are newer than this */
} gp_device_clock_t;

struct gp_recorder {
  /* Read by every event, written hardly ever. */
  _Atomic int mode;
  atomic_bool silent; /* a forked child */
  uint64_t id;        /* never used again, so that a thread notices a recorder at the same address */
  gp_clock_fn clock;
  void *clock_self;
  const gp_options_t *options;
  pthread_key_t key;
  bool has_key;
  pid_t pid;
  uint64_t base_ns;         /* clock at creation ... */
  uint64_t start_time_us;   /* ... and the time of day at that moment */
  atomic_bool is_described; /* the record says whose it is */
  atomic_bool has_gap;      /* blocks from while recording was off may be missing in live */
  gp_engine_t *_Atomic engine;
  _Atomic int driver_version;
  _Atomic int runtime_version;

  gp_device_clock_t clocks[GP_MAX_DEVICES];
  gp_region_t region;
  gp_prestart_t prestart;
  gp_chunks_t chunks;
  gp_live_t live;
  gp_threads_t threads;
  gp_handles_t handles;
  gp_origins_t origins;

  /* When the last out-of-memory was reported, plus one; 0: never. */
  _Atomic uint64_t oom_reported_ns;

  /* Guarded by writer_mutex. Here and not on the stack: threads may have small ones. */
  pthread_mutex_t writer_mutex;
  unsigned sequence;   /* of the last snapshot tried, from 1 */
  uint64_t file_count; /* snapshots written under a name of ours */
  bool closed;         /* the process ends: no more snapshots */
  bool said_no_more;   /* the line about GPUPOOL_OUTPUT_MAX was written */
  bool said_fell_back; /* the line about the folder was written */
  gp_snapshot_file_t file;
  gp_device_copy_t copies[GP_MAX_DEVICES];
  char path[GP_PATH_BYTES];
  char buffer[GP_SNAPSHOT_BUFFER_BYTES]; /* of the JSON writer */
  char text[GP_DESCRIPTION_BYTES];
};

/* False in a forked child: one without handlers finds a recorder that was wiped. */
static inline bool gp_recorder_is_ours(const gp_recorder_t *recorder)
{
  return !atomic_load(&recorder->silent) && getpid() == recorder->pid;
}

/* recorder.c */
static inline uint64_t gp_recorder_now_ns(const gp_recorder_t *recorder)
{
  return recorder->clock(recorder->clock_self);
}

/*
 * A time such that all events of a device up to it are recorded, and what is recorded later is newer. The
 * device's lock is held.
 */
uint64_t gp_recorder_fence_ns(gp_recorder_t *recorder, int device);

/* Puts the report of an out of memory into the record. Any thread, no lock held. */
void gp_recorder_keep_oom(gp_recorder_t *recorder, const gp_oom_t *oom);

/* snapshot.c: gp_observer_t out_of_memory. */
void gp_snapshot_out_of_memory(void *self, const gp_oom_t *oom);

#endif
