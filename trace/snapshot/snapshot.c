#include "trace/snapshot/snapshot.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/damage_report.h"
#include "trace/snapshot/document.h"
#include "trace/snapshot/oom_report.h"
#include "trace/snapshot/snapshot_file.h"
#include "base/pages.h"

#define OOM_INTERVAL_NS UINT64_C(60000000000)
#define CLOSE_SECONDS   5
#define BUFFER_BYTES    (64 * 1024)

struct gp_snapshot_writer {
  gp_recorder_t *recorder;
  gp_engine_t *_Atomic engine;
  _Atomic uint64_t oom_reported_ns[2]; /* time of the last report of an out-of-memory error, plus one; 0:
                                        * none. [0] is for device memory, [1] for page-locked host memory */
  _Atomic uint64_t unreported;         /* number of out-of-memory errors since the last reported one */
  atomic_bool is_noting;               /* a thread is using unreported_oom and its stack */
  gp_oom_t unreported_oom;
  uint32_t unreported_stack;
  gp_damage_reports_t damages;
  atomic_bool has_damage;

  gp_lock_t lock;      /* guards the members below; one thread at a time writes a snapshot */
  bool closed;         /* no more snapshots are written, because the process ends */
  bool said_no_more;   /* the message about GPUPOOL_OUTPUT_MAX was logged */
  bool said_fell_back; /* the message about the fallback folder was logged */
  unsigned sequence;   /* number of the last attempted snapshot, from 1 */
  uint64_t file_count; /* number of snapshots written under a name from GPUPOOL_OUTPUT */
  uint64_t devices;    /* bit mask of the devices known to the engine */
  /* The members below are not on the stack, because threads may have small stacks. */
  gp_device_copy_t copies[GP_MAX_DEVICES]; /* by device */
  gp_mark_record_t marks[GP_MARKS_MAX];
  gp_snapshot_file_t file;
  char path[GP_PATH_BYTES];  /* the requested name */
  char buffer[BUFFER_BYTES]; /* for the JSON writer */
  char text[GP_DESCRIPTION_BYTES];
};

/* A request for one snapshot. */
typedef struct request {
  const char *reason;
  const gp_oom_t *oom;      /* the reported error; NULL if the snapshot has another reason */
  uint64_t unreported_ooms; /* at exit: number of unreported errors; `oom` is the last of them */
  const char *path;         /* exact path, without a fallback folder; NULL: use GPUPOOL_OUTPUT */
  gp_snapshot_name_t *name; /* the earlier file, which the new file replaces; may be NULL */
} request_t;

/*
 * State of a thread that is changed while the thread writes a file. A file that exceeds the file size limit
 * (ulimit -f) must cause an error and not a signal. A thread that holds the lock must not be cancelled.
 */
typedef struct shelter {
  sigset_t mask;
  bool was_pending;
  int cancel_state;
  int saved_errno;
} shelter_t;

static void shelter_enter(shelter_t *shelter)
{
  sigset_t set, pending;
  shelter->saved_errno = errno;
  shelter->cancel_state = gp_cancel_hold();
  (void)sigpending(&pending); /* cannot fail */
  shelter->was_pending = sigismember(&pending, SIGXFSZ) == 1;
  (void)sigemptyset(&set);        /* cannot fail */
  (void)sigaddset(&set, SIGXFSZ); /* cannot fail */
  (void)pthread_sigmask(SIG_BLOCK, &set, &shelter->mask);
}

static void shelter_leave(shelter_t *shelter)
{
  sigset_t set;
  const struct timespec no_time = {0};
  (void)sigemptyset(&set);        /* cannot fail */
  (void)sigaddset(&set, SIGXFSZ); /* cannot fail */
  /* Consumes a signal that writing may have raised. A signal that was pending earlier is the program's. */
  if (!shelter->was_pending)
    (void)sigtimedwait(&set, NULL, &no_time); /* usually no signal is pending */
  (void)pthread_sigmask(SIG_SETMASK, &shelter->mask, NULL);
  gp_cancel_restore(shelter->cancel_state);
  errno = shelter->saved_errno;
}

/*
 * Names
 */

/* Returns false if GPUPOOL_OUTPUT_MAX is reached. Logs one line the first time. */
static bool may_write(gp_snapshot_writer_t *writer, const request_t *request)
{
  bool replaces = request->name && request->name->path[0];
  if (request->path || replaces ||
      writer->file_count < gp_option_number(writer->recorder->options, GP_OPTION_output_max))
    return true;
  if (!writer->said_no_more)
    gp_log(GP_LOG_ERROR, "%llu snapshots are written and no more will be (GPUPOOL_OUTPUT_MAX)",
        (unsigned long long)writer->file_count);
  writer->said_no_more = true;
  return false;
}

static bool is_folder(const char *path)
{
  struct stat status;
  return path[0] && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Writes the name of the next snapshot to writer->path. If GPUPOOL_OUTPUT is a folder, uses the default name
 * in that folder. Returns false if the name is too long or invalid. */
static bool choose_path(gp_snapshot_writer_t *writer, const request_t *request)
{
  const size_t capacity = sizeof(writer->path);
  char *path = writer->path;
  if (request->path) {
    if (strlen(request->path) >= capacity)
      return false;
    strcpy(path, request->path);
    return true;
  }
  writer->sequence++;
  const char *pattern = gp_option_text(writer->recorder->options, GP_OPTION_output);
  if (gp_path_expand(pattern, writer->sequence, request->reason, path, capacity))
    return false;
  size_t length = strlen(path);
  bool ends_in_slash = length > 0 && path[length - 1] == '/';
  if (length > 0 && !ends_in_slash) {
    if (!is_folder(path))
      return true;
    if (length + 1 < capacity)
      path[length++] = '/';
  }
  pattern = gp_option_table[GP_OPTION_output].default_text;
  return gp_path_expand(pattern, writer->sequence, request->reason, path + length, capacity - length) == 0;
}

/* Contents */

/* Stores the time of the moment at which a device's blocks are copied. The device's events in the snapshot
 * end at that time. */
static void note_fence(void *self, int device)
{
  gp_snapshot_writer_t *writer = self;
  writer->copies[device].until_ns = gp_recorder_fence_ns(writer->recorder, device);
}

/* Copies the state of all devices. Returns false if the host has no memory. The caller must call copies_fini
 * in both cases. */
static bool copies_take(gp_snapshot_writer_t *writer)
{
  gp_engine_t *engine = atomic_load(&writer->engine);
  const gp_moment_t moment = {note_fence, writer};
  bool complete = true;
  writer->devices = engine ? gp_engine_devices(engine) : 0;
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (writer->devices >> device & 1)
      complete &= gp_device_copy_take(engine, device, &moment, &writer->copies[device]);
  }
  return complete;
}

static void copies_fini(gp_snapshot_writer_t *writer)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (writer->devices >> device & 1)
      gp_device_copy_fini(&writer->copies[device]);
  }
}

/* Replaces a stream handle with its index in the recorder's table of handles. */
static void index_stream(gp_snapshot_writer_t *writer, bool *has_stream, uint64_t *stream)
{
  int16_t index = *has_stream ? gp_handles_intern(&writer->recorder->handles, *stream) : -1;
  *has_stream = index >= 0;
  *stream = (uint64_t)index;
}

/* Replaces all stream handles in the copies with indexes. */
static void index_streams(gp_snapshot_writer_t *writer)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    const gp_device_copy_t *copy = &writer->copies[device];
    if (!(writer->devices >> device & 1))
      continue;
    for (size_t i = 0; i < copy->forwarded.count; i++) {
      gp_forwarded_t *memory = (gp_forwarded_t *)copy->forwarded.items + i;
      index_stream(writer, &memory->has_stream, &memory->stream);
    }
    for (size_t i = 0; i < copy->blocks.count; i++) {
      gp_block_view_t *block = (gp_block_view_t *)copy->blocks.items + i;
      index_stream(writer, &block->has_stream, &block->stream);
    }
  }
}

/* Copies the events. Must be called after copies_take: at the moment when a device was copied, all its
 * earlier events are in chunks. */
static void events_take(gp_snapshot_writer_t *writer, gp_event_merge_t *ret_events)
{
  const gp_event_moment_t moment = {writer->copies, writer->devices};
  if (gp_event_merge_take(&writer->recorder->chunks, &moment, ret_events))
    return;
  gp_log(GP_LOG_ERROR, "out of host memory: the snapshot %s has no events", writer->path);
  ret_events->has_lost = true;
  ret_events->since_ns = gp_recorder_now_ns(writer->recorder);
}

/*
 * Files
 */

/* Writes the document to a file. Returns 0, or logs one line and returns an errno. */
static int write_file(gp_snapshot_writer_t *writer, const request_t *request, const gp_document_t *document)
{
  gp_snapshot_file_t *file = &writer->file;
  int error = gp_snapshot_file_open(file, writer->path, !request->path);
  char text[128];
  if (error) {
    gp_log(GP_LOG_ERROR, "cannot write the snapshot %s: %s", writer->path,
        strerror_r(error, text, sizeof(text)));
    return error;
  }
  if (file->fell_back && !writer->said_fell_back) {
    writer->said_fell_back = true;
    gp_log(GP_LOG_ERROR, "cannot create %s; snapshots go to %s instead (GPUPOOL_OUTPUT sets the path)",
        writer->path, file->path);
  }

  gp_json_t json;
  gp_json_init(&json, file->fd, writer->buffer, sizeof(writer->buffer));
  gp_document_write(&json, document);
  error = gp_json_finish(&json);
  if (error)
    gp_snapshot_file_discard(file);
  else
    error = gp_snapshot_file_publish(file);
  if (error) {
    gp_log(
        GP_LOG_ERROR, "cannot write the snapshot %s: %s", file->path, strerror_r(error, text, sizeof(text)));
    return error;
  }
  /* Shown even without GPUPOOL_VERBOSE, because the user has not requested it. */
  bool is_shown = document->oom || atomic_load(&writer->has_damage);
  gp_log(is_shown ? GP_LOG_ERROR : GP_LOG_INFO, "snapshot written: %s; next: gpupool summary %s",
      file->published, file->published);
  return 0;
}

static int write_document(
    gp_snapshot_writer_t *writer, const request_t *request, const gp_event_merge_t *events)
{
  gp_recorder_t *recorder = writer->recorder;
  char note[sizeof(recorder->region.problem) + 128];
  const char *const notes[] = {note};
  (void)snprintf(note, sizeof(note),
      "the record was kept in ordinary memory and would not have survived a kill: %s: %s",
      recorder->region.plan.root, recorder->region.problem);
  const gp_document_t document = {
      .description = gp_description_make(recorder->options, writer->text, sizeof(writer->text)),
      .start_time_us = recorder->start_time_us,
      .base_ns = recorder->base_ns,
      .pid = recorder->pid,
      .owner = geteuid(),
      .library_version = GP_VERSION,
      .driver_version = atomic_load(&recorder->driver_version),
      .runtime_version = atomic_load(&recorder->runtime_version),
      .recording = (gp_recording_t)gp_recorder_mode(recorder),
      .devices = writer->devices,
      .copies = writer->copies,
      .streams = recorder->handles.table->handles,
      .stream_count = gp_handles_count(&recorder->handles),
      .threads = recorder->threads.table->entries,
      .thread_count = gp_threads_count(&recorder->threads),
      .marks = writer->marks,
      .mark_count = gp_marks_copy(&recorder->marks, writer->marks),
      .notes = notes,
      .note_count = recorder->region.problem[0] != '\0',
      .events = events,
      .stacks = gp_stacks_logs(&recorder->origins.stacks),
      .reason = request->reason,
      .oom = request->oom,
      .unreported_ooms = request->unreported_ooms,
  };
  return write_file(writer, request, &document);
}

/* Stores the file just written in *name, and removes the file that was in *name before. Returns the increase
 * of the number of files: 0 or 1. */
static unsigned replace_file(const gp_snapshot_writer_t *writer, gp_snapshot_name_t *name)
{
  struct stat status;
  bool replaces = name->path[0] && lstat(name->path, &status) == 0 && status.st_dev == name->device &&
                  status.st_ino == name->inode && unlink(name->path) == 0;
  strcpy(name->path, writer->file.published);
  if (lstat(name->path, &status)) /* fails if another process has already removed the file */
    name->path[0] = '\0';
  name->device = status.st_dev;
  name->inode = status.st_ino;
  return replaces ? 0 : 1;
}

/* Records a snapshot event with the active bytes for each device. The next snapshot will show these
 * events. */
static void record_snapshot_events(gp_snapshot_writer_t *writer)
{
  const gp_observer_t observer = gp_recorder_observer(writer->recorder);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (!(writer->devices >> device & 1))
      continue;
    const gp_event_t event = {
        .time_ns = gp_recorder_now_ns(writer->recorder),
        .size = writer->copies[device].stats.active_bytes.current,
        .rounded_size = writer->copies[device].stats.active_bytes.current,
        .action = GP_ACTION_SNAPSHOT,
        .device = device,
    };
    observer.event(observer.self, &event);
  }
}

/*
 * Checks that the path can be a regular file. A snapshot is a temporary file in the same folder that is
 * renamed at the end, so it cannot replace a device or a pipe. Returns 0 if the path is usable. Returns
 * ECANCELED for GPUPOOL_OUTPUT=/dev/null, with which a user disables snapshots. Otherwise logs one line and
 * returns EOPNOTSUPP.
 */
static int check_path(const gp_snapshot_writer_t *writer, const request_t *request)
{
  if (!gp_path_is_special(writer->path))
    return 0;
  if (!request->path && strcmp(writer->path, "/dev/null") == 0)
    return ECANCELED;
  gp_log(GP_LOG_ERROR, "no snapshot is written to %s: it is not a regular file", writer->path);
  return EOPNOTSUPP;
}

/* Writes a snapshot. Copies first the devices, then the events up to the moments of these copies, and then
 * the tables to which both refer. The caller holds the lock. */
static int write_locked(gp_snapshot_writer_t *writer, const request_t *request)
{
  gp_event_merge_t events = {0};
  int error = 0;

  gp_assert(gp_lock_is_held(&writer->lock));
  if (!may_write(writer, request))
    return ECANCELED;
  if (!choose_path(writer, request)) {
    gp_log(GP_LOG_ERROR, "cannot write a snapshot: the file name from GPUPOOL_OUTPUT is too long or invalid");
    return ENAMETOOLONG;
  }
  error = check_path(writer, request);
  if (error)
    return error;
  if (copies_take(writer)) {
    index_streams(writer);
    events_take(writer, &events);
    error = write_document(writer, request, &events);
    gp_event_merge_fini(&events);
  } else {
    gp_log(GP_LOG_ERROR, "cannot write the snapshot %s: out of host memory", writer->path);
    error = ENOMEM;
  }
  if (!error) {
    unsigned more = request->name ? replace_file(writer, request->name) : 1;
    writer->file_count += request->path ? 0 : more;
    record_snapshot_events(writer);
  }
  copies_fini(writer);
  gp_assert(gp_emergency_pages_held() == 0);
  return error;
}

static int write_sheltered(gp_snapshot_writer_t *writer, const request_t *request)
{
  shelter_t shelter;
  gp_assert(gp_locks_held() == 0);
  if (!gp_recorder_is_ours(writer->recorder))
    return ECANCELED;
  shelter_enter(&shelter);
  gp_lock_take(&writer->lock);
  int error = writer->closed ? ECANCELED : write_locked(writer, request);
  gp_lock_release(&writer->lock);
  shelter_leave(&shelter);
  return error;
}

int gp_snapshot_write(gp_snapshot_writer_t *writer, const char *reason, const gp_oom_t *oom, const char *path)
{
  return write_sheltered(writer, &(request_t){.reason = reason, .oom = oom, .path = path});
}

int gp_snapshot_write_named(
    gp_snapshot_writer_t *writer, const char *reason, const char *path, gp_snapshot_name_t *name)
{
  return write_sheltered(writer, &(request_t){.reason = reason, .path = path, .name = name});
}

/*
 * Out of memory
 */

/* Returns true for the first error, and then for one error per minute, because programs may catch the error
 * and retry for hours. */
static bool oom_is_due(gp_snapshot_writer_t *writer, const gp_oom_t *oom)
{
  _Atomic uint64_t *reported_ns = &writer->oom_reported_ns[gp_oom_is_of_host(oom)];
  uint64_t now_ns = gp_recorder_now_ns(writer->recorder);
  uint64_t before = atomic_load(reported_ns);
  if (before && now_ns < before - 1 + OOM_INTERVAL_NS)
    return false;
  return atomic_compare_exchange_strong(reported_ns, &before, now_ns + 1);
}

/* Stores an unreported error as the last one. If two threads do this at the same time, only the first
 * thread's error is stored, because either may count as the last. The second error is counted only if an
 * error is already stored, so a count above zero means that unreported_oom is valid. */
static void note_unreported(gp_snapshot_writer_t *writer, const gp_oom_t *oom)
{
  if (!atomic_exchange(&writer->is_noting, true)) {
    writer->unreported_oom = *oom;
    writer->unreported_stack = gp_origin_tls.origin;
    atomic_fetch_add(&writer->unreported, 1);
    atomic_store(&writer->is_noting, false);
  } else if (atomic_load(&writer->unreported) > 0) {
    atomic_fetch_add(&writer->unreported, 1);
  }
}

static void log_oom(const gp_snapshot_writer_t *writer, const gp_oom_t *oom, uint64_t times, uint32_t stack)
{
  const gp_stack_logs_t logs = gp_stacks_logs(&writer->recorder->origins.stacks);
  gp_option_id_t limit = gp_oom_is_of_host(oom) ? GP_OPTION_host_limit : GP_OPTION_limit;

  gp_oom_log(oom, times, gp_option_text(writer->recorder->options, limit), &logs, stack);
}

/* Returns the request for the snapshot at exit. It includes the last unreported out-of-memory error, because
 * this error may be the reason for the exit. */
static request_t request_at_exit(gp_snapshot_writer_t *writer)
{
  uint64_t times = atomic_load(&writer->unreported);

  if (times == 0 ||
      atomic_exchange(&writer->is_noting, true)) /* never reset, so that no thread stores an error any more */
    return (request_t){.reason = "exit"};
  log_oom(writer, &writer->unreported_oom, times, writer->unreported_stack);
  return (request_t){.reason = "exit", .oom = &writer->unreported_oom, .unreported_ooms = times};
}

/* Reports an out-of-memory error. This is a gp_oom_fn. */
static void report_oom(void *self, const gp_oom_t *oom)
{
  gp_snapshot_writer_t *writer = self;
  if (!oom_is_due(writer, oom)) {
    note_unreported(writer, oom);
    return;
  }
  atomic_store(&writer->unreported, 0);
  log_oom(writer, oom, 0, gp_origin_tls.origin);
  if (gp_option_number(writer->recorder->options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_OOM)
    (void)gp_snapshot_write(
        writer, gp_oom_is_of_host(oom) ? "host_oom" : "oom", oom, NULL); /* any error was logged */
}

/* Reports damage, and ends the process if GPUPOOL_CHECK says so. */
static void report_damage(void *self, const gp_damage_t *damage)
{
  gp_snapshot_writer_t *writer = self;
  const gp_stack_logs_t logs = gp_stacks_logs(&writer->recorder->origins.stacks);

  atomic_store(&writer->has_damage, true);
  if (!gp_damage_log(&writer->damages, damage, &logs) ||
      !(gp_option_number(writer->recorder->options, GP_OPTION_check) & GP_CHECK_ABORT))
    return;
  (void)gp_snapshot_write(writer, "damage", NULL, NULL); /* it has logged any error */
  abort();
}

/*
 * Creation and end of the writer
 */

gp_snapshot_writer_t *gp_snapshot_writer_create(gp_recorder_t *recorder)
{
  gp_snapshot_writer_t *writer = gp_pages_map(sizeof(*writer), false);
  if (!writer)
    return NULL;
  writer->recorder = recorder;
  gp_lock_init(&writer->lock, GP_RANK_SNAPSHOT);
  gp_recorder_set_reports(recorder, report_oom, report_damage, writer);
  return writer;
}

void gp_snapshot_writer_destroy(gp_snapshot_writer_t *writer)
{
  if (!writer)
    return;
  gp_assert_internal(gp_lock_is_free(&writer->lock));
  gp_pages_unmap(writer, sizeof(*writer));
}

void gp_snapshot_writer_attach(gp_snapshot_writer_t *writer, gp_engine_t *engine)
{
  atomic_store(&writer->engine, engine);
}

static bool has_allocated(gp_engine_t *engine)
{
  uint64_t devices = gp_engine_devices(engine);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    gp_stats_t stats;
    if (!(devices >> device & 1))
      continue;
    gp_engine_stats(engine, device, &stats);
    if (stats.allocation.allocated || stats.passthrough_bytes.allocated ||
        stats.pinned_host_bytes.allocated || stats.num_ooms)
      return true;
  }
  return false;
}

int gp_snapshot_at_exit(gp_snapshot_writer_t *writer)
{
  if (!writer || !gp_recorder_is_ours(writer->recorder))
    return 0;
  gp_engine_t *engine = atomic_load(&writer->engine);
  bool wanted = gp_option_number(writer->recorder->options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_EXIT;
  const request_t request = request_at_exit(writer);
  int error = wanted && engine && has_allocated(engine) ? write_sheltered(writer, &request) : 0;
  /* If there is a snapshot, or if the user wants none, the record is not needed. If writing the snapshot
   * failed, the record is the only data. */
  if (!error || error == ECANCELED)
    gp_region_remove(&writer->recorder->region);
  else
    gp_snapshot_leave_record(writer);
  return error;
}

void gp_snapshot_close(gp_snapshot_writer_t *writer)
{
  /* The wait is bounded, because the thread that is writing may itself end the process, in a signal
   * handler. */
  if (!writer || !gp_lock_take_within(&writer->lock, CLOSE_SECONDS))
    return;
  writer->closed = true;
  gp_lock_release(&writer->lock);
}

void gp_snapshot_leave_record(const gp_snapshot_writer_t *writer)
{
  const gp_region_t *region = &writer->recorder->region;
  if (gp_region_is_started(region) && region->is_file)
    gp_log(
        GP_LOG_ERROR, "the record is in %s; next: gpupool recover %s", region->file.path, region->file.path);
}
