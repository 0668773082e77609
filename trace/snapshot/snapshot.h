/*
 * Writes snapshots: on request, at an out-of-memory error, and at exit.
 *
 *   writer = gp_snapshot_writer_create(recorder);
 *   gp_snapshot_writer_attach(writer, engine);
 *   ...
 *   gp_snapshot_at_exit(writer);
 *
 * This folder includes trace/record and everything below it, and the reading functions of pool/engine.h and
 * pool/forwarded/forwarded.h. `gpupool recover` uses document.h to write the document of a record.
 */
#ifndef GP_TRACE_SNAPSHOT_H
#define GP_TRACE_SNAPSHOT_H

#include <sys/types.h>

#include "pool/engine.h"
#include "base/path.h"
#include "trace/record/recorder.h"

typedef struct gp_snapshot_writer gp_snapshot_writer_t;

/*
 * Creates the writer of a recorder, which must outlive the writer. A recorder has only one writer. From now
 * on the writer reports the recorder's out-of-memory errors, at most one per minute. A report is a line in
 * the log and, if GPUPOOL_SNAPSHOT_AT includes `oom`, a snapshot. Returns NULL if the host has no memory.
 */
gp_snapshot_writer_t *gp_snapshot_writer_create(gp_recorder_t *recorder);

/* Frees the writer; for tests. Must be called before the recorder is destroyed, when no thread uses either of
 * them. NULL is legal. */
void gp_snapshot_writer_destroy(gp_snapshot_writer_t *writer);

/* Sets the engine whose blocks snapshots show; NULL detaches the engine. The engine must live until it is
 * detached or the last snapshot is written. An out-of-memory error before this call is reported without
 * blocks. Thread-safe. */
void gp_snapshot_writer_attach(gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Writes a snapshot now. `reason` is stored in the file and, as %r, in the file's name. `path` is the exact
 * name to use. If it is NULL, the name is from GPUPOOL_OUTPUT, and the file counts against
 * GPUPOOL_OUTPUT_MAX. Never overwrites a file: appends ".1", ".2" ... if the name exists. `oom` may be NULL.
 *
 * Returns 0, or logs one line and returns an errno. Returns ECANCELED without logging if GPUPOOL_OUTPUT_MAX
 * is reached, if the process is a forked child, or after gp_snapshot_close. A failure leaves no file behind
 * and changes nothing else. Takes the engine's locks briefly, so the caller must hold no lock. Makes no
 * driver call. Thread-safe: one snapshot is written at a time, while other threads continue to allocate.
 * Preserves errno.
 */
int gp_snapshot_write(
    gp_snapshot_writer_t *writer, const char *reason, const gp_oom_t *oom, const char *path);

/* A written file, or none if `path` is "". `device` and `inode` show whether the path still names the same
 * file. */
typedef struct gp_snapshot_name {
  char path[GP_PATH_BYTES];
  dev_t device;
  ino_t inode;
} gp_snapshot_name_t;

/* Does what gp_snapshot_write does without an `oom`. Also stores the written file in *name and removes the
 * file that was in *name before, if its path still names that file. GPUPOOL_OUTPUT_MAX counts the two files
 * as one. */
int gp_snapshot_write_named(
    gp_snapshot_writer_t *writer, const char *reason, const char *path, gp_snapshot_name_t *name);

/*
 * Writes a snapshot with the reason "exit", if GPUPOOL_SNAPSHOT_AT includes `exit` and the program has
 * requested GPU memory. Removes the record's file unless writing the snapshot failed. Must be called at the
 * end of the process. Returns what gp_snapshot_write returns, or 0 if no snapshot was necessary. NULL is
 * legal.
 */
int gp_snapshot_at_exit(gp_snapshot_writer_t *writer);

/* Waits at most a few seconds for a snapshot that another thread is writing, so that no incomplete file is
 * left behind. From then on gp_snapshot_write returns ECANCELED. Must be called when the process ends. NULL
 * is legal. */
void gp_snapshot_close(gp_snapshot_writer_t *writer);

/* Logs the path of the record and how to read it, for a process that ends without a snapshot. Logs nothing if
 * the record is in ordinary memory, because it is lost when the process ends. */
void gp_snapshot_leave_record(const gp_snapshot_writer_t *writer);

#endif
