/* The members of a recorder. trace/record uses them, and so do snapshots and control, which read the recorder
 * while it records. These readers change nothing, except that they add unknown stream handles to the
 * table. */
#ifndef GP_TRACE_RECORD_RECORDER_STATE_H
#define GP_TRACE_RECORD_RECORDER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "trace/record/chunks.h"
#include "trace/record/live.h"
#include "trace/record/tables.h"
#include "trace/region/region.h"
#include "trace/stacks/origin.h"

/*
 * A buffer for events from before the program's first allocation, such as the pool's mode. The record and its
 * file begin only with the first event about memory. If the buffer is full, the record begins at once.
 */

#define GP_PRESTART_EVENTS 64

typedef struct gp_prestart_event {
  gp_event_t event; /* the event with its final time */
  gp_thread_entry_t thread;
} gp_prestart_event_t;

/* Zeroed memory, then gp_prestart_init. */
typedef struct gp_prestart {
  gp_lock_t lock; /* a leaf: no other lock is taken while this lock is held */
  unsigned count;
  bool is_over;
  gp_prestart_event_t events[GP_PRESTART_EVENTS];
} gp_prestart_t;

void gp_prestart_init(gp_prestart_t *prestart);
void gp_prestart_fini(gp_prestart_t *prestart);

/* Buffers the event and returns true. Returns false if the record has begun or the buffer is full; the caller
 * must then record the event itself. Thread-safe. */
bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event);

/* Ends the buffering. Returns true to exactly one caller, which must then record events[0..count). No other
 * thread changes these events from then on. Thread-safe. */
bool gp_prestart_end(gp_prestart_t *prestart);

/*
 * Makes the times of one device's events (except events of thread heaps) unique, and increasing in order of
 * arrival, by adding a few nanoseconds. This is necessary because readers order events by time only, and a
 * thread may read the clock before it waits for the device's lock. The thread that holds the device's lock
 * writes last_ns; the snapshot writer writes floor_ns.
 */
typedef struct gp_device_clock {
  _Alignas(64) _Atomic uint64_t last_ns; /* time of the last event */
  _Atomic uint64_t floor_ns;             /* lower bound: every event recorded from now on gets a later time */
} gp_device_clock_t;

typedef struct gp_recorder {
  /* The first members are read for every event but rarely written. */
  _Atomic int mode;
  atomic_bool silent; /* this process is a forked child */
  uint64_t id;        /* unique, so that a thread detects a new recorder at an old address */
  uint64_t (*clock)(void *self);
  void *clock_self;
  const gp_options_t *options;
  pthread_key_t key;
  bool has_key;
  pid_t pid;
  uint64_t base_ns;         /* the engine's clock at creation */
  uint64_t start_time_us;   /* time of day at creation */
  atomic_bool is_described; /* the record contains the description of the process */
  atomic_bool has_gap;      /* `live` may lack blocks that were allocated while recording was off */
  _Atomic int driver_version;
  _Atomic int runtime_version;
  void (*on_oom)(void *self, const gp_oom_t *oom); /* NULL: none */
  void (*on_damage)(void *self, const gp_damage_t *damage);
  void *on_self;

  gp_device_clock_t clocks[GP_MAX_DEVICES];
  gp_region_t region;
  gp_prestart_t prestart;
  gp_chunks_t chunks;
  gp_live_t live;
  gp_threads_t threads;
  gp_handles_t handles;
  gp_marks_t marks;
  gp_origins_t origins;
} gp_recorder_t;

/* Returns true unless this process is a forked child. If the child ran no fork handlers, its recorder is
 * zeroed, so `pid` is 0. */
static inline bool gp_recorder_is_ours(const gp_recorder_t *recorder)
{
  return !atomic_load(&recorder->silent) && getpid() == recorder->pid;
}

static inline uint64_t gp_recorder_now_ns(const gp_recorder_t *recorder)
{
  return recorder->clock(recorder->clock_self);
}

/* Returns a time that divides the device's events: all events up to this time are already recorded, and all
 * events recorded from now on get a later time. The caller holds the device's lock. */
uint64_t gp_recorder_fence_ns(gp_recorder_t *recorder, int device);

#endif
