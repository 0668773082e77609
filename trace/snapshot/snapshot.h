/*
 * When and where snapshots are written.
 *
 *   writer = gp_snapshot_writer_create(recorder);
 *   gp_snapshot_writer_attach(writer, engine);
 *   ...
 *   gp_snapshot_at_exit(writer);
 *
 * This folder includes trace/record and what is below it, and the reading functions of pool/engine.h and
 * pool/forwarded/forwarded.h. It makes the document of a record for `gpupool recover`, too (document.h).
 */
#ifndef GP_TRACE_SNAPSHOT_H
#define GP_TRACE_SNAPSHOT_H

#include <sys/types.h>

#include "pool/engine.h"
#include "pool/util/path.h"
#include "trace/record/recorder.h"

typedef struct gp_snapshot_writer gp_snapshot_writer_t;

/*
 * Makes the writer of a recorder, which has to live longer; one for each. From now on it reports each out of
 * memory that the recorder hears of, at most one a minute: a line in the log and, if GPUPOOL_SNAPSHOT_AT says
 * so, a snapshot. Returns NULL if the host has no memory.
 */
gp_snapshot_writer_t *gp_snapshot_writer_create(gp_recorder_t *recorder);

/* For tests: before its recorder, when no thread uses either. NULL is legal. */
void gp_snapshot_writer_destroy(gp_snapshot_writer_t *writer);

/*
 * The engine whose blocks snapshots show; NULL: none any more. It must live until then, or until the last
 * snapshot. Any thread; an out of memory before it is reported without blocks.
 */
void gp_snapshot_writer_attach(gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Writes a snapshot now. reason goes into the file and, as %r, into its name. path: NULL for GPUPOOL_OUTPUT,
 * which counts against GPUPOOL_OUTPUT_MAX, else the name to use as it is. Nothing is ever overwritten: ".1",
 * ".2" ... are appended to a name that is taken. oom may be NULL.
 *
 * Returns 0, or an errno after one line in the log; ECANCELED without one if GPUPOOL_OUTPUT_MAX is reached,
 * the process is a forked child, or after gp_snapshot_close. A failure leaves no file behind and changes
 * nothing else. Takes the engine's locks for a short time, so none may be held; makes no driver call. Any
 * thread; one snapshot is written at a time, and while it is, others go on allocating. errno is preserved.
 */
int gp_snapshot_write(
    gp_snapshot_writer_t *writer, const char *reason, const gp_oom_t *oom, const char *path);

/* A file that was written; path[0] == '\0': none yet. Whether it still is that file,
 * device and inode tell. */
typedef struct gp_snapshot_name {
  char path[GP_PATH_BYTES];
  dev_t device;
  ino_t inode;
} gp_snapshot_name_t;

/*
 * The same without an oom, and *name becomes the file that was written. What it named before is removed if it
 * is still the file that it was: the new one stands in its place, and GPUPOOL_OUTPUT_MAX counts the two as
 * one.
 */
int gp_snapshot_write_named(
    gp_snapshot_writer_t *writer, const char *reason, const char *path, gp_snapshot_name_t *name);

/*
 * At the end of the process: writes a snapshot of reason "exit" if GPUPOOL_SNAPSHOT_AT says so and the
 * program ever asked for GPU memory. The file of the record goes, unless the snapshot could not be written.
 * Returns as gp_snapshot_write, 0 if there was nothing to do. NULL is legal.
 */
int gp_snapshot_at_exit(gp_snapshot_writer_t *writer);

/*
 * The process ends: waits, at most some seconds, for a snapshot that another thread is writing, so that no
 * half of one is left behind. From now on gp_snapshot_write answers ECANCELED. NULL is legal.
 */
void gp_snapshot_close(gp_snapshot_writer_t *writer);

/*
 * Says in the log that the record stays, and how it is read; nothing if it is in ordinary memory, where it
 * does not. For an end without a snapshot.
 */
void gp_snapshot_leave_record(const gp_snapshot_writer_t *writer);

#endif
