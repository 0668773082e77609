/* The members of a recorder: for the recorder itself, and for snapshots and control, which read it while it
 * records. These only add stream handles that they meet. */
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
 * Holds back events from before the program first asks for memory (such as the pool's mode): the
 * record, and its file, begins with the first event about memory. There is room for a few; with more
 * the record begins at once.
 */

#define GP_PRESTART_EVENTS 64

typedef struct gp_prestart_event {
  gp_event_t event; /* with its final time */
  gp_thread_entry_t thread;
} gp_prestart_event_t;

/* Zeroed memory plus gp_prestart_init. */
typedef struct gp_prestart {
  gp_lock_t lock; /* a leaf */
  unsigned count;
  bool is_over;
  gp_prestart_event_t events[GP_PRESTART_EVENTS];
} gp_prestart_t;

void gp_prestart_init(gp_prestart_t *prestart);
void gp_prestart_fini(gp_prestart_t *prestart);

/* False: the caller must record the event now, because the record has begun or there is no
 * more room. Thread safe. */
bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event);

/* Ends the holding back. True for one caller only, which records events[0, count): from then on no other
 * thread changes them. Thread safe. */
bool gp_prestart_end(gp_prestart_t *prestart);

/*
 * Makes the times of one device's events, without those of heaps, unique and growing in the order in which
 * they arrive, by a few nanoseconds: a thread may read the clock before it waits for the device's lock, and a
 * reader has only the times to order events. The thread that holds the device's lock writes last_ns; the
 * snapshot writer writes floor_ns.
 */
typedef struct gp_device_clock {
  _Alignas(64) _Atomic uint64_t last_ns; /* of the last event */
  _Atomic uint64_t floor_ns;             /* later events are newer than this */
} gp_device_clock_t;

typedef struct gp_recorder {
  /* Every event reads these; hardly anything writes them. */
  _Atomic int mode;
  atomic_bool silent; /* a forked child */
  uint64_t id;        /* never used again, so that a thread notices a recorder at the same address */
  uint64_t (*clock)(void *self);
  void *clock_self;
  const gp_options_t *options;
  pthread_key_t key;
  bool has_key;
  pid_t pid;
  uint64_t base_ns;         /* clock at creation ... */
  uint64_t start_time_us;   /* ... and the time of day at that moment */
  atomic_bool is_described; /* the record describes its process */
  atomic_bool has_gap;      /* live may lack blocks from while recording was off */
  _Atomic int driver_version;
  _Atomic int runtime_version;
  void (*hear_oom)(void *self, const gp_oom_t *oom); /* NULL: none */
  void *hear_oom_self;

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

/* False in a forked child: a child made without handlers finds a wiped recorder. */
static inline bool gp_recorder_is_ours(const gp_recorder_t *recorder)
{
  return !atomic_load(&recorder->silent) && getpid() == recorder->pid;
}

static inline uint64_t gp_recorder_now_ns(const gp_recorder_t *recorder)
{
  return recorder->clock(recorder->clock_self);
}

/* A time such that all events of a device up to it are recorded, and events recorded later are newer. The
 * caller holds the device's lock. */
uint64_t gp_recorder_fence_ns(gp_recorder_t *recorder, int device);

#endif
