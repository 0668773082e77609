/*
 * Writes snapshots: on request, at an out of memory, and at exit.
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
 * Makes the writer of a recorder, which must live longer; a recorder has one writer. From now on the writer
 * reports the recorder's out-of-memory errors, at most one per minute, with a line in the log and, if
 * GPUPOOL_SNAPSHOT_AT says so, a snapshot. Returns NULL if the host has no memory.
 */
gp_snapshot_writer_t *gp_snapshot_writer_create(gp_recorder_t *recorder);

/* Frees the writer; for tests. Call it before the recorder is destroyed, when no thread uses either of them.
 * NULL is legal. */
void gp_snapshot_writer_destroy(gp_snapshot_writer_t *writer);

/* Sets the engine whose blocks snapshots show, or NULL to detach it. The engine must live until it is
 * detached or until the last snapshot. An out of memory before this call is reported without blocks. Any
 * thread. */
void gp_snapshot_writer_attach(gp_snapshot_writer_t *writer, gp_engine_t *engine);

/*
 * Writes a snapshot now. reason goes into the file and, as %r, into the file's name. path is the exact name
 * to use, or NULL to use GPUPOOL_OUTPUT; only the latter counts against GPUPOOL_OUTPUT_MAX. Never overwrites
 * a file: appends ".1", ".2" ... if the name is taken. oom may be NULL.
 *
 * Returns 0, or an errno after one line in the log. Returns ECANCELED without a line if GPUPOOL_OUTPUT_MAX is
 * reached, if the process is a forked child, or after gp_snapshot_close. A failure leaves no file behind and
 * changes nothing else. Takes the engine's locks briefly, so the caller must hold none; makes no driver call.
 * Any thread. Writes one snapshot at a time, while other threads continue to allocate. errno is preserved.
 */
int gp_snapshot_write(
    gp_snapshot_writer_t *writer, const char *reason, const gp_oom_t *oom, const char *path);

/* A written file, or none if path[0] == '\0'. device and inode show whether path still names the file. */
typedef struct gp_snapshot_name {
  char path[GP_PATH_BYTES];
  dev_t device;
  ino_t inode;
} gp_snapshot_name_t;

/* Like gp_snapshot_write without an oom, but stores the written file in *name and removes the file that was
 * in *name before, if its path still names that file. GPUPOOL_OUTPUT_MAX counts the two files as one. */
int gp_snapshot_write_named(
    gp_snapshot_writer_t *writer, const char *reason, const char *path, gp_snapshot_name_t *name);

/*
 * To be called at the end of the process. Writes a snapshot with the reason "exit" if GPUPOOL_SNAPSHOT_AT
 * says so and the program ever requested GPU memory. Removes the record's file unless writing the snapshot
 * failed. Returns as gp_snapshot_write, or 0 if there was nothing to do. NULL is legal.
 */
int gp_snapshot_at_exit(gp_snapshot_writer_t *writer);

/* To be called when the process ends. Waits at most a few seconds for a snapshot that another thread is
 * writing, so that no incomplete file is left behind. From then on gp_snapshot_write returns ECANCELED. NULL
 * is legal. */
void gp_snapshot_close(gp_snapshot_writer_t *writer);

/* Logs where the record is and how to read it; for a process that ends without a snapshot. Logs nothing if
 * the record is in ordinary memory, because it is then lost. */
void gp_snapshot_leave_record(const gp_snapshot_writer_t *writer);

#endif
