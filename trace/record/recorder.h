/*
 * The recorder: what happened, for a snapshot. It implements pool/observer.h.
 *
 *   recorder = gp_recorder_create(options, clock, clock_self);
 *   observer = gp_recorder_observer(recorder);          NULL recorder: run without an observer
 *   engine = gp_engine_create(driver, &observer, options);
 *   gp_recorder_attach(recorder, engine);
 *   ...
 *   gp_snapshot_at_exit(recorder);                      snapshot.h
 *
 * No function here calls the driver, allocates from the program's heap, or writes to stdout.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stdint.h>

#include "pool/engine.h"
#include "pool/observer.h"
#include "pool/util/options.h"

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
 * The engine whose blocks snapshots show. It must live until gp_recorder_attach(recorder, NULL) or the last
 * snapshot. May be called by any thread; an out of memory before it is reported without blocks.
 */
void gp_recorder_attach(gp_recorder_t *recorder, gp_engine_t *engine);

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
 * In the child of fork(), before anything else of ours: the recorder falls silent for good (the memory and
 * the GPU belong to the parent) and writes no file. Takes no lock, so nothing has to be done before fork().
 */
void gp_recorder_fork_child(gp_recorder_t *recorder);

#endif
