#include "trace/snapshot/snapshot.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pool/util/cancel.h"
#include "pool/util/log.h"
#include "trace/snapshot/document.h"
#include "trace/internal.h"
#include "trace/snapshot/oom_report.h"
#include "trace/snapshot/snapshot_file.h"

#define OOM_INTERVAL_NS UINT64_C(60000000000)
#define CLOSE_SECONDS   5

/* The one place that decides how loud a snapshot is: it always is after an out of memory, which nobody asked
 * for. */
static gp_log_level_t report_level(const gp_oom_t *oom)
{
  return oom ? GP_LOG_ERROR : GP_LOG_INFO;
}

/*
 * While a file is written, its size limit (ulimit -f) must give an error and no signal, and the thread must
 * not be cancelled with the mutex held.
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
  /* Takes the signal that our own write may have raised; one that was there before is the program's. */
  if (!shelter->was_pending)
    (void)sigtimedwait(&set, NULL, &no_time); /* mostly there is none */
  (void)pthread_sigmask(SIG_SETMASK, &shelter->mask, NULL);
  gp_cancel_restore(shelter->cancel_state);
  errno = shelter->saved_errno;
}

/* The moment of the copy of a device's blocks: where its events have to end. */
static void note_fence(void *self, int device)
{
  gp_recorder_t *recorder = self;
  recorder->copies[device].until_ns = gp_recorder_fence_ns(recorder, device);
}

static bool copies_take(gp_recorder_t *recorder, gp_engine_t *engine, uint64_t devices)
{
  const gp_moment_t moment = {note_fence, recorder};
  bool complete = true;
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (devices >> device & 1)
      complete &= gp_device_copy_take(engine, device, &moment, &recorder->copies[device]);
  }
  return complete;
}

static void copies_fini(gp_recorder_t *recorder, uint64_t devices)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (devices >> device & 1)
      gp_device_copy_fini(&recorder->copies[device]);
  }
}

static bool events_take(gp_recorder_t *recorder, uint64_t devices, gp_event_merge_t *ret_events)
{
  uint64_t until_ns[GP_MAX_DEVICES];
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    until_ns[device] = devices >> device & 1 ? recorder->copies[device].until_ns : UINT64_MAX;
  return gp_event_merge_take(&recorder->chunks, until_ns, ret_events);
}

/* Handles become indexes, in the copy. */
static void index_streams(gp_recorder_t *recorder, uint64_t devices)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    gp_copied_array_t *array = &recorder->copies[device].forwarded;
    for (size_t i = 0; i < (devices >> device & 1 ? array->count : 0); i++) {
      gp_forwarded_t *memory = (gp_forwarded_t *)array->items + i;
      int16_t index = memory->has_stream ? gp_handles_intern(&recorder->handles, memory->stream) : -1;
      memory->has_stream = index >= 0;
      memory->stream = (uint64_t)index;
    }
  }
}

/* The name of the next file of ours in recorder->path. A folder gets the default name. */
static int choose_path(gp_recorder_t *recorder, const char *reason, const char *path)
{
  const char *pattern = gp_option_text(recorder->options, GP_OPTION_output);
  const char *default_pattern = gp_option_table[GP_OPTION_output].default_text;
  size_t capacity = sizeof(recorder->path);
  if (path) {
    if (strlen(path) >= capacity)
      return ENAMETOOLONG;
    strcpy(recorder->path, path);
    return 0;
  }
  if (gp_path_expand(pattern, recorder->sequence, reason, recorder->path, capacity))
    return ENAMETOOLONG;
  size_t length = strlen(recorder->path);
  struct stat status;
  bool is_folder = length > 0 && stat(recorder->path, &status) == 0 && S_ISDIR(status.st_mode);
  if (length > 0 && !is_folder && recorder->path[length - 1] != '/')
    return 0;
  if (is_folder && recorder->path[length - 1] != '/' && length + 1 < capacity)
    recorder->path[length++] = '/';
  return gp_path_expand(
             default_pattern, recorder->sequence, reason, recorder->path + length, capacity - length)
             ? ENAMETOOLONG
             : 0;
}

/* Visible in the next snapshot: one for each device, with the bytes that were active. */
static void record_snapshot_events(gp_recorder_t *recorder, uint64_t devices)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (!(devices >> device & 1))
      continue;
    const gp_event_t event = {
        .time_ns = gp_recorder_now_ns(recorder),
        .size = recorder->copies[device].stats.active_bytes.current,
        .rounded_size = recorder->copies[device].stats.active_bytes.current,
        .action = GP_ACTION_SNAPSHOT,
        .device = device,
    };
    observer.event(observer.self, &event);
  }
}

/* is_asked_for: the user has named just this file, and looks for it there and nowhere else. */
static int write_file(gp_recorder_t *recorder, const gp_document_t *document, bool is_asked_for)
{
  gp_snapshot_file_t *file = &recorder->file;
  int error = gp_snapshot_file_open(file, recorder->path, !is_asked_for);
  char text[128];
  if (error) {
    gp_log(GP_LOG_ERROR, "cannot write the snapshot %s: %s", recorder->path,
        strerror_r(error, text, sizeof(text)));
    return error;
  }
  if (file->fell_back && !recorder->said_fell_back) {
    recorder->said_fell_back = true;
    gp_log(GP_LOG_ERROR, "cannot create %s, so snapshots are written as %s; GPUPOOL_OUTPUT sets the place",
        recorder->path, file->path);
  }

  gp_json_t json;
  gp_json_init(&json, file->fd, recorder->buffer, sizeof(recorder->buffer));
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
  gp_log(report_level(document->oom), "snapshot written: %s; next: gpupool summary %s", file->published,
      file->published);
  return 0;
}

/* Notes the file just written in *name, in place of the one that it named, which goes. Returns how many more
 * there are. */
static unsigned take_place(const gp_recorder_t *recorder, gp_snapshot_name_t *name)
{
  struct stat status;
  bool replaces = name->path[0] && lstat(name->path, &status) == 0 && status.st_dev == name->device &&
                  status.st_ino == name->inode && unlink(name->path) == 0;
  strcpy(name->path, recorder->file.published);
  if (lstat(name->path, &status)) /* somebody was very quick */
    name->path[0] = '\0';
  name->device = status.st_dev;
  name->inode = status.st_ino;
  return replaces ? 0 : 1;
}

/* writer_mutex is held. name may be NULL. */
static int write_snapshot(gp_recorder_t *recorder, const char *reason, const gp_oom_t *oom, const char *path,
    gp_snapshot_name_t *name)
{
  uint64_t most = gp_option_number(recorder->options, GP_OPTION_output_max);
  bool replaces = name && name->path[0];
  if (!path && recorder->file_count >= most && !replaces) {
    if (!recorder->said_no_more)
      gp_log(GP_LOG_ERROR, "%llu snapshots were written and no more will be (GPUPOOL_OUTPUT_MAX)",
          (unsigned long long)recorder->file_count);
    recorder->said_no_more = true;
    return ECANCELED;
  }
  if (!path)
    recorder->sequence++;
  int error = choose_path(recorder, reason, path);
  if (error) {
    gp_log(GP_LOG_ERROR, "cannot write a snapshot: the name made of GPUPOOL_OUTPUT is too long or not valid");
    return error;
  }

  gp_engine_t *engine = atomic_load(&recorder->engine);
  uint64_t devices = engine ? gp_engine_devices(engine) : 0;
  gp_event_merge_t events = {0};
  if (!copies_take(recorder, engine, devices)) {
    gp_log(GP_LOG_ERROR, "cannot write the snapshot %s: out of host memory", recorder->path);
    error = ENOMEM;
    goto fini_views;
  }
  /* After the copies, in whose moments every earlier event was in its chunk. */
  if (!events_take(recorder, devices, &events)) {
    gp_log(GP_LOG_ERROR, "the snapshot %s has no events: out of host memory", recorder->path);
    events.has_lost = true;
    events.since_ns = gp_recorder_now_ns(recorder);
  }
  index_streams(recorder, devices);
  char note[sizeof(recorder->region.problem) + 128];
  const char *const notes[] = {note};
  (void)snprintf(note, sizeof(note),
      "the record was kept in ordinary memory and would not have survived a kill: %s/%s",
      recorder->region.plan.root, recorder->region.problem);
  const gp_document_t document = {
      .description = gp_description_make(recorder->options, recorder->text, sizeof(recorder->text)),
      .start_time_us = recorder->start_time_us,
      .base_ns = recorder->base_ns,
      .pid = recorder->pid,
      .driver_version = atomic_load(&recorder->driver_version),
      .runtime_version = atomic_load(&recorder->runtime_version),
      .recording = (gp_recording_t)gp_recorder_mode(recorder),
      .devices = devices,
      .copies = recorder->copies,
      .streams = recorder->handles.table->handles,
      .stream_count = gp_handles_count(&recorder->handles), /* after what may add to them */
      .threads = recorder->threads.table->entries,
      .thread_count = gp_threads_count(&recorder->threads),
      .notes = notes,
      .note_count = recorder->region.problem[0] != '\0',
      .events = &events,
      .stacks = gp_stacks_logs(&recorder->origins.stacks), /* after the events that name them */
      .reason = reason,
      .oom = oom,
  };
  error = write_file(recorder, &document, path != NULL);
  if (!error) {
    unsigned more = name ? take_place(recorder, name) : 1;
    recorder->file_count += path ? 0 : more;
  }
  if (!error)
    record_snapshot_events(recorder, devices);

  gp_event_merge_fini(&events);
fini_views:
  copies_fini(recorder, devices);
  return error;
}

static int write_sheltered(gp_recorder_t *recorder, const char *reason, const gp_oom_t *oom, const char *path,
    gp_snapshot_name_t *name)
{
  shelter_t shelter;
  if (!gp_recorder_is_ours(recorder))
    return ECANCELED;
  shelter_enter(&shelter);
  (void)pthread_mutex_lock(&recorder->writer_mutex); /* a plain mutex cannot fail */
  int error = recorder->closed ? ECANCELED : write_snapshot(recorder, reason, oom, path, name);
  (void)pthread_mutex_unlock(&recorder->writer_mutex); /* held */
  shelter_leave(&shelter);
  return error;
}

int gp_snapshot_write(gp_recorder_t *recorder, const char *reason, const gp_oom_t *oom, const char *path)
{
  return write_sheltered(recorder, reason, oom, path, NULL);
}

int gp_snapshot_write_named(
    gp_recorder_t *recorder, const char *reason, const char *path, gp_snapshot_name_t *name)
{
  return write_sheltered(recorder, reason, NULL, path, name);
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

int gp_snapshot_at_exit(gp_recorder_t *recorder)
{
  if (!recorder || !gp_recorder_is_ours(recorder))
    return 0;
  gp_engine_t *engine = atomic_load(&recorder->engine);
  bool wanted = gp_option_number(recorder->options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_EXIT;
  int error = wanted && engine && has_allocated(engine) ? gp_snapshot_write(recorder, "exit", NULL, NULL) : 0;
  /* It has served, or nobody wants one; otherwise it is all that there is. */
  if (!error || error == ECANCELED)
    gp_region_remove(&recorder->region);
  else
    gp_snapshot_leave_record(recorder);
  return error;
}

void gp_snapshot_close(gp_recorder_t *recorder)
{
  struct timespec until;
  if (!recorder)
    return;
  (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail */
  until.tv_sec += CLOSE_SECONDS;
  /* Not for ever: the very thread that is writing may be the one that ends the process, in a signal handler.
   */
  if (pthread_mutex_timedlock(&recorder->writer_mutex, &until) != 0)
    return;
  recorder->closed = true;
  (void)pthread_mutex_unlock(&recorder->writer_mutex); /* held */
}

void gp_snapshot_leave_record(const gp_recorder_t *recorder)
{
  if (gp_region_is_started(&recorder->region) && recorder->region.is_file)
    gp_log(GP_LOG_ERROR, "what was recorded is in %s; next: gpupool recover %s", recorder->region.file.path,
        recorder->region.file.path);
}

/* True for the first caller, and for one caller a minute: programs catch the error and try again, for hours.
 */
static bool oom_is_due(gp_recorder_t *recorder)
{
  uint64_t now_ns = gp_recorder_now_ns(recorder);
  uint64_t before = atomic_load(&recorder->oom_reported_ns);
  if (before && now_ns < before - 1 + OOM_INTERVAL_NS)
    return false;
  return atomic_compare_exchange_strong(&recorder->oom_reported_ns, &before, now_ns + 1);
}

void gp_snapshot_out_of_memory(void *self, const gp_oom_t *oom)
{
  gp_recorder_t *recorder = self;
  char text[GP_OOM_TEXT_BYTES];
  if (!gp_recorder_is_ours(recorder))
    return;
  gp_recorder_keep_oom(recorder, oom);
  if (!oom_is_due(recorder))
    return;
  gp_log(GP_LOG_ERROR, "%s", gp_oom_describe(oom, text, sizeof(text)));
  if (gp_option_number(recorder->options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_OOM)
    (void)gp_snapshot_write(recorder, "oom", oom, NULL); /* it has reported its failure */
}
