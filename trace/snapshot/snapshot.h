/*
 * Writes snapshots: on request, at an out of memory, and at exit.
 *
 *   writer = gp_snapshot_writer_create(recorder);
 *   gp_snapshot_writer_attach(writer, engine);
 *   ...
 *   gp_snapshot_at_exit(writer);
 *
 * This folder includes trace/record and everything below, and the reading functions of pool/engine.h and
 * pool/forwarded/forwarded.h. It also makes the document of a record for `gpupool recover` (document.h).
 */
#ifndef GP_TRACE_SNAPSHOT_H
#define GP_TRACE_SNAPSHOT_H

#include <sys/types.h>

#include "pool/engine.h"
#include "base/path.h"
#include "trace/record/recorder.h"

typedef struct gp_snapshot_writer gp_snapshot_writer_t;

/*
 * Makes the writer of a recorder, which must live longer; one for each recorder. From now on the writer
 * reports each out of memory that the recorder gets, at most one a minute: by a line in the log and, if
 * GPUPOOL_SNAPSHOT_AT says so, a snapshot. Returns NULL if the host has no memory.
 */
gp_snapshot_writer_t *gp_snapshot_writer_create(gp_recorder_t *recorder);

/* For tests: to be called before the recorder's end, when no thread uses either. NULL is legal. */
void gp_snapshot_writer_destroy(gp_snapshot_writer_t *writer);

/* Sets the engine whose blocks snapshots show; NULL: none any more. The engine must live until then, or
 * until the last snapshot. Any thread. An out of memory before this call is reported without blocks. */
void gp_snapshot_writer_attach(gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Writes a snapshot now. reason goes into the file and, as %r, into its name. path: NULL for
 * GPUPOOL_OUTPUT, which counts against GPUPOOL_OUTPUT_MAX, else the exact name to use. Never overwrites a
 * file: appends ".1", ".2" ... to a name that is taken. oom may be NULL.
 *
 * Returns 0, or an errno after one line in the log; ECANCELED without one if GPUPOOL_OUTPUT_MAX is reached,
 * the process is a forked child, or after gp_snapshot_close. A failure leaves no file behind and changes
 * nothing else. Takes the engine's locks for a short time, so the caller holds none; makes no driver call.
 * Any thread. Writes one snapshot at a time, while other threads go on allocating. errno is preserved.
 */
int gp_snapshot_write(
    gp_snapshot_writer_t *writer, const char *reason, const gp_oom_t *oom, const char *path);

/* A written file; path[0] == '\0': none yet. device and inode show whether path still names that file. */
typedef struct gp_snapshot_name {
  char path[GP_PATH_BYTES];
  dev_t device;
  ino_t inode;
} gp_snapshot_name_t;

/* The same without an oom, and *name becomes the written file. Removes the file that *name was before, if
 * its path still is that file: the new one replaces it, and GPUPOOL_OUTPUT_MAX counts both as one. */
int gp_snapshot_write_named(
    gp_snapshot_writer_t *writer, const char *reason, const char *path, gp_snapshot_name_t *name);

/*
 * At the end of the process: writes a snapshot of reason "exit" if GPUPOOL_SNAPSHOT_AT says so and the
 * program ever asked for GPU memory. Removes the file of the record, unless writing the snapshot failed.
 * Returns as gp_snapshot_write; 0 if there was nothing to do. NULL is legal.
 */
int gp_snapshot_at_exit(gp_snapshot_writer_t *writer);

/* The process ends: waits, at most some seconds, for a snapshot that another thread is writing, so that no
 * incomplete file is left behind. From now on gp_snapshot_write returns ECANCELED. NULL is legal. */
void gp_snapshot_close(gp_snapshot_writer_t *writer);

/* Logs that the record stays, and how to read it. Logs nothing if the record is in ordinary memory, where
 * it does not stay. For an end without a snapshot. */
void gp_snapshot_leave_record(const gp_snapshot_writer_t *writer);

#endif
