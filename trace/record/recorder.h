/*
 * The recorder stores the events and the live memory, for snapshots, and for `gpupool recover` if the process
 * is killed. It implements pool/observer.h.
 *
 *   recorder = gp_recorder_create(options, clock, clock_self);
 *   observer = gp_recorder_observer(recorder);          without a recorder: run without an observer
 *   engine = gp_engine_create(driver, &observer, options);
 *
 * No function here calls the driver or the pool, allocates from the program's heap, or writes to stdout.
 *
 * This folder includes format, base, trace/region, trace/stacks and pool/observer.h.
 */
#ifndef GP_TRACE_RECORDER_H
#define GP_TRACE_RECORDER_H

#include <stdint.h>

#include "pool/observer.h"
#include "base/options.h"
#include "format/marks.h"
#include "trace/region/region.h"

typedef struct gp_recorder gp_recorder_t;

/* The engine's clock (driver.h, now_ns): monotonic nanoseconds, the same for all threads. */
typedef uint64_t (*gp_clock_fn)(void *self);

/*
 * Creates a recorder; options and clock_self must live as long as the recorder. Times in snapshots count from
 * this call. Returns NULL if the host has no memory. A process normally has one recorder. If a thread
 * switches to a second recorder, as in tests, its last chunk in the first recorder stays open.
 */
gp_recorder_t *gp_recorder_create(const gp_options_t *options, gp_clock_fn clock, void *clock_self);

/* Frees the recorder; for tests. No thread may be recording, and no thread that has recorded may record
 * again. NULL is legal. */
void gp_recorder_destroy(gp_recorder_t *recorder);

/* Returns the observer for gp_engine_create. It is valid as long as the recorder. */
gp_observer_t gp_recorder_observer(gp_recorder_t *recorder);

/* Sets the functions that the recorder calls for each out of memory and for damage, after the event is stored
 * and with no lock held. Call this once, before the engine is created. */
typedef void (*gp_oom_fn)(void *self, const gp_oom_t *oom);
typedef void (*gp_damage_fn)(void *self, const gp_damage_t *damage);
void gp_recorder_set_reports(gp_recorder_t *recorder, gp_oom_fn oom, gp_damage_fn damage, void *self);

/* Sets the CUDA versions for snapshots, in the driver API's form (13000). 0 means that a version is not known
 * (yet). Thread-safe. */
void gp_recorder_set_versions(gp_recorder_t *recorder, int driver_version, int runtime_version);

/*
 * Sets the mode. GP_TRACE_OFF records nothing. GP_TRACE_STATE records no events, but snapshots still show the
 * live blocks, which the engine knows. GP_TRACE_ALL records every event. May be called at any time by any
 * thread. After a pause, all earlier events count as lost, because a history with a gap cannot be replayed.
 */
void gp_recorder_set_mode(gp_recorder_t *recorder, int mode);
int gp_recorder_mode(const gp_recorder_t *recorder);

/*
 * Records a mark: the program's own name for this moment. Copies `name`, truncated if necessary. `device` and
 * `scope` describe a scope that begins or ends; for other marks they are -1 and 0. A mark is overwritten
 * after GP_MARKS_MAX newer marks. The record begins with the first allocation or the first mark. Does nothing
 * while recording is off. Thread-safe; the caller holds no lock.
 */
void gp_recorder_mark(
    gp_recorder_t *recorder, gp_mark_kind_t kind, int device, uint64_t scope, const char *name);

/* Turns the recorder off permanently in the child of fork(), because the memory and the GPU belong to the
 * parent. The child must call it before any other function of trace/. Takes no lock, so fork() needs no
 * preparation. */
void gp_recorder_fork_child(gp_recorder_t *recorder);

/* Returns the largest size in bytes that a section of any record may have; a reader rejects larger sections.
 * The size is for the maximum of GPUPOOL_TRACE_EVENTS, plus the largest page size of any machine. */
size_t gp_section_capacity_max(gp_section_t section);

#endif
