/*
 * The recorder stores events and present memory, for snapshots and, if the process is killed, for a reader of
 * its record. It implements pool/observer.h.
 *
 *   recorder = gp_recorder_create(options, clock, clock_self);
 *   observer = gp_recorder_observer(recorder);          NULL recorder: run without an observer
 *   engine = gp_engine_create(driver, &observer, options);
 *
 * No function here calls the driver or the pool, allocates from the program's heap, or writes to stdout.
 *
 * This folder includes format, base, trace/region, trace/stacks, pool/observer.h and base.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stdint.h>

#include "pool/observer.h"
#include "base/options.h"
#include "format/marks.h"
#include "trace/region/region.h"

typedef struct gp_recorder gp_recorder_t;

/* The engine's clock (driver.h, now_ns): nanoseconds, never backwards, the same for all threads. */
typedef uint64_t (*gp_clock_fn)(void *self);

/*
 * Makes a recorder; options and clock_self must live as long as it does. This moment becomes the zero of
 * the snapshot's times. Returns NULL if the host has no memory. A process has one recorder. A thread that
 * switches to another one (as in tests) leaves its last chunk open in the first.
 */
gp_recorder_t *gp_recorder_create(const gp_options_t *options, gp_clock_fn clock, void *clock_self);

/* For tests: no thread may be recording, and every thread that did has ended or never records again. NULL is
 * legal. */
void gp_recorder_destroy(gp_recorder_t *recorder);

/* Returns the observer for gp_engine_create; it is valid as long as the recorder. */
gp_observer_t gp_recorder_observer(gp_recorder_t *recorder);

/* Sets fn(self, oom), which the recorder calls at each out of memory, after the event is in the record, with
 * no lock held. Call it once, before the engine is created. */
typedef void (*gp_oom_fn)(void *self, const gp_oom_t *oom);
void gp_recorder_hear_oom(gp_recorder_t *recorder, gp_oom_fn fn, void *self);

/* CUDA versions from the driver API (13000), for the snapshot; 0: not known (yet). Any thread. */
void gp_recorder_set_versions(gp_recorder_t *recorder, int driver_version, int runtime_version);

/*
 * Sets GP_TRACE_OFF, GP_TRACE_STATE (also without events: the engine knows the live blocks) or
 * GP_TRACE_ALL. Any thread, any time. When recording goes on, events from before a pause count as lost: a
 * history with a hole could not be replayed.
 */
void gp_recorder_set_mode(gp_recorder_t *recorder, int mode);
int gp_recorder_mode(const gp_recorder_t *recorder);

/*
 * Records the program's name for this moment: copies name, and cuts it if it is long. device and scope are
 * those of a scope that begins or ends, else -1 and 0. The mark is kept until GP_MARKS_MAX newer ones have
 * come. Does nothing while recording is off. The first memory, or the first mark, begins the record. Any
 * thread, with no lock held.
 */
void gp_recorder_mark(
    gp_recorder_t *recorder, gp_mark_kind_t kind, int device, uint64_t scope, const char *name);

/* Called in the child of fork(), before any other function of trace/: silences the recorder permanently,
 * because the memory and the GPU belong to the parent. Takes no lock, so fork() needs no preparation. */
void gp_recorder_fork_child(gp_recorder_t *recorder);

/* The largest sizes of a record's sections: the library makes room for these, and a
 * reader accepts no more. */

/* The same for the most events that GPUPOOL_TRACE_EVENTS accepts, plus one page of any machine. */
size_t gp_section_capacity_max(gp_section_t section);

#endif
