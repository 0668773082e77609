/*
 * The recorder: what happened, kept for a snapshot and, if the process is killed, for a reader of its record.
 * It implements pool/observer.h.
 *
 *   recorder = gp_recorder_create(options, clock, clock_self);
 *   observer = gp_recorder_observer(recorder);          NULL recorder: run without an observer
 *   engine = gp_engine_create(driver, &observer, options);
 *
 * No function here calls the driver or the pool, allocates from the program's heap, or writes to stdout.
 *
 * This folder includes trace/format, trace/util, trace/region, trace/stacks, pool/observer.h and pool/util.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stdint.h>

#include "pool/observer.h"
#include "pool/util/options.h"
#include "trace/format/marks.h"

typedef struct gp_recorder gp_recorder_t;

/* The engine's clock (driver.h, now_ns): nanoseconds, never backwards, the same for all threads. */
typedef uint64_t (*gp_clock_fn)(void *self);

/*
 * Makes a recorder; options and clock_self must live as long as it does. This moment becomes the zero of the
 * snapshot's times. Returns NULL if the host has no memory. A process has one recorder; a thread that turns
 * from one to another (tests do) leaves its last chunk open in the first.
 */
gp_recorder_t *gp_recorder_create(const gp_options_t *options, gp_clock_fn clock, void *clock_self);

/* For tests: no thread may be recording, and every thread that did has ended or never records again. NULL is
 * legal. */
void gp_recorder_destroy(gp_recorder_t *recorder);

/* The table for gp_engine_create; valid as long as the recorder. */
gp_observer_t gp_recorder_observer(gp_recorder_t *recorder);

/*
 * Calls fn(self, oom) at each out of memory, when its report is in the record, with no lock held. Once,
 * before the engine is made.
 */
typedef void (*gp_oom_fn)(void *self, const gp_oom_t *oom);
void gp_recorder_hear_oom(gp_recorder_t *recorder, gp_oom_fn fn, void *self);

/* CUDA versions as the driver API tells them (13000), for the snapshot; 0: not known (so far). Any thread. */
void gp_recorder_set_versions(gp_recorder_t *recorder, int driver_version, int runtime_version);

/*
 * GP_TRACE_OFF, GP_TRACE_STATE (no events either: live blocks are the engine's knowledge) or GP_TRACE_ALL.
 * Any thread, any time. Events from before a pause count as lost when recording goes on, for a history with a
 * hole could not be replayed.
 */
void gp_recorder_set_mode(gp_recorder_t *recorder, int mode);
int gp_recorder_mode(const gp_recorder_t *recorder);

/*
 * Something that the program says of this moment: name is copied, and cut if it is long. device and scope are
 * those of a scope that begins or ends, else -1 and 0. Kept until GP_MARKS_MAX newer ones have come, and none
 * while nothing is recorded. The first memory, or the first mark, begins the record. Any thread, with no lock
 * held.
 */
void gp_recorder_mark(
    gp_recorder_t *recorder, gp_mark_kind_t kind, int device, uint64_t scope, const char *name);

/*
 * In the child of fork(), before any other function of trace/: the recorder falls silent for good (the memory
 * and the GPU belong to the parent) and writes no file. Takes no lock, so nothing has to be done before
 * fork().
 */
void gp_recorder_fork_child(gp_recorder_t *recorder);

#endif
