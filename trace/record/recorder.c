#include "trace/record/recorder.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/cancel.h"
#include "base/log.h"
#include "trace/record/description.h"
#include "trace/record/recorder_state.h"
#include "format/device.h"
#include "format/oom.h"
#include "format/recording.h"
#include "trace/record/sections.h"
#include "trace/stacks/known_stacks.h"
#include "trace/stacks/origin.h"
#include "base/pages.h"
#include "trace/stacks/unwind.h"

/* The record stores the value of GPUPOOL_TRACE. */
static_assert(GP_RECORDING_OFF == (int)GP_TRACE_OFF && GP_RECORDING_STATE == (int)GP_TRACE_STATE &&
                  GP_RECORDING_ALL == (int)GP_TRACE_ALL,
    "the option has the codes of the record");

/* The mode is the observer's interest, where 0 means none. The table of live memory stays right
 * while recording is off. */
static_assert(GP_TRACE_OFF == 0, "no interest");

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* A thread's view of its own chunk. Invariant: with recorder_id == recorder->id and used < limit, the chunk
 * is open and belongs to this thread, and `used` of its records are published. limit == 0: no chunk. */
typedef struct writer {
  uint64_t recorder_id;
  uint64_t newest_ns; /* of the chunk's records */
  gp_event_record_t *records;
  _Atomic uint32_t *count;
  uint32_t used;
  uint32_t limit;
  uint32_t chunk;
  uint16_t thread;
  int16_t stream; /* index of stream_handle, the last one seen */
  uint64_t stream_handle;
  bool has_stream;
  bool will_close; /* the key's destructor is armed */
} writer_t;

/* initial-exec: the general model calls a function that may allocate at a thread's first access. */
static __thread writer_t tls_writer __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t last_recorder_id;

/* For asserts: the invariant of writer_t. */
static bool owns_chunk(const gp_recorder_t *recorder, const writer_t *writer)
{
  const gp_chunk_t *chunk = &recorder->chunks.chunks[writer->chunk];
  return chunk->state == GP_CHUNK_OPEN && writer->count == &chunk->count &&
         atomic_load_explicit(&chunk->count, memory_order_relaxed) == writer->used;
}

/* The writer is of this recorder. */
static inline int16_t stream_index(gp_recorder_t *recorder, writer_t *writer, const gp_event_t *event)
{
  if (!event->has_stream)
    return GP_EVENT_RECORD_NO_STREAM;
  if (!writer->has_stream || writer->stream_handle != event->stream) {
    writer->stream = gp_handles_intern(&recorder->handles, event->stream);
    writer->stream_handle = event->stream;
    writer->has_stream = true;
  }
  return writer->stream;
}

/* The time of an event of a device. The caller holds the device's lock, so loads and stores of two threads
 * do not mix. Atomic because the snapshot writer reads without the lock. */
static inline uint64_t device_time_ns(gp_recorder_t *recorder, const gp_event_t *event)
{
  uint64_t time_ns = event->time_ns;
  gp_device_clock_t *clock = &recorder->clocks[event->device];
  uint64_t last_ns = atomic_load_explicit(&clock->last_ns, memory_order_relaxed);
  uint64_t floor_ns = atomic_load_explicit(&clock->floor_ns, memory_order_relaxed);
  if (last_ns < floor_ns)
    last_ns = floor_ns;
  if (time_ns <= last_ns)
    time_ns = last_ns + 1;
  gp_assert_internal(time_ns > last_ns && time_ns > floor_ns);
  atomic_store_explicit(&clock->last_ns, time_ns, memory_order_relaxed);
  return time_ns;
}

uint64_t gp_recorder_fence_ns(gp_recorder_t *recorder, int device)
{
  gp_device_clock_t *clock = &recorder->clocks[device];
  uint64_t now_ns = gp_recorder_now_ns(recorder);
  uint64_t last_ns = atomic_load_explicit(&clock->last_ns, memory_order_relaxed);
  if (now_ns < last_ns)
    now_ns = last_ns;
  /* Relaxed: a thread that records later takes the lock that the caller holds. */
  atomic_store_explicit(&clock->floor_ns, now_ns, memory_order_relaxed);
  return now_ns;
}

static inline uint64_t ordered_time_ns(gp_recorder_t *recorder, const gp_event_t *event)
{
  /* A snapshot event arrives without the lock. */
  if ((unsigned)event->device >= GP_MAX_DEVICES || event->action == GP_ACTION_SNAPSHOT)
    return event->time_ns;
  return device_time_ns(recorder, event);
}

/* A free has the allocation's stack, unless frees get stacks of their own. */
static inline uint32_t origin_of(const gp_recorder_t *recorder, const gp_event_t *event)
{
  bool is_free = event->action == GP_ACTION_FREE_REQUESTED || event->action == GP_ACTION_FORWARDED_FREE;
  return is_free && recorder->origins.has_frees ? gp_origin_tls.origin : event->origin;
}

static inline __attribute__((always_inline)) void fill_record(gp_recorder_t *recorder, writer_t *writer,
    gp_event_record_t *record, const gp_event_t *event, uint64_t time_ns, int16_t stream)
{
  if (time_ns > writer->newest_ns)
    writer->newest_ns = time_ns;
  record->time_ns = time_ns;
  record->address = event->address;
  record->size = event->size;
  record->rounded_size = event->rounded_size;
  record->block_id = event->block_id;
  record->lifetime_ns = event->lifetime_ns;
  record->duration = gp_event_record_duration_pack(event->duration_ns);
  record->stack = (int32_t)origin_of(recorder, event) - 1;
  record->stream = stream;
  record->thread = writer->thread;
  record->action = (uint8_t)event->action;
  record->detail = (uint8_t)event->detail;
  record->device = (int8_t)event->device;
  record->hit = event->hit;
}

/* Makes sure that the thread's chunk is closed at the thread's end, and its known stacks are freed. */
static inline void arm_thread_end(gp_recorder_t *recorder, writer_t *writer)
{
  if (!writer->will_close && recorder->has_key)
    writer->will_close = pthread_setspecific(recorder->key, recorder) == 0;
}

/* At the end of a thread. Closes its chunk for reuse; the events stay until then. */
static void thread_ended(void *self)
{
  gp_recorder_t *recorder = self;
  writer_t *writer = &tls_writer;
  /* Another destructor may allocate or free GPU memory after this one, which arms this one again. */
  writer->will_close = false;
  gp_unwind_thread_ended();
  gp_known_stacks_thread_ended();
  if (writer->recorder_id != recorder->id || atomic_load(&recorder->silent) || getpid() != recorder->pid)
    return;
  if (writer->limit)
    gp_chunks_close(&recorder->chunks, writer->chunk, writer->newest_ns);
  writer->limit = 0;
  writer->used = 0;
}

/* Stores a record when the thread has no chunk, or a full one. */
static void turn(
    gp_recorder_t *recorder, writer_t *writer, const gp_event_record_t *record, uint64_t full_newest_ns)
{
  uint32_t full = writer->limit ? writer->chunk : GP_CHUNK_NONE;
  uint32_t chunk = gp_chunks_rotate(&recorder->chunks, full, full_newest_ns, writer->thread, record);
  writer->used = 0;
  writer->limit = 0;
  if (chunk == GP_CHUNK_NONE)
    return;
  writer->chunk = chunk;
  writer->limit = recorder->chunks.header->chunk_events;
  writer->records = gp_chunks_records(&recorder->chunks, chunk);
  writer->count = &recorder->chunks.chunks[chunk].count;
  writer->records[0] = *record;
  writer->used = 1;
  atomic_store_explicit(writer->count, 1, memory_order_release);
}

static void append(gp_recorder_t *recorder, writer_t *writer, const gp_event_t *event, uint64_t time_ns)
{
  int16_t stream = stream_index(recorder, writer, event);
  if (writer->used < writer->limit) {
    fill_record(recorder, writer, &writer->records[writer->used], event, time_ns, stream);
    /* Release: a reader that sees the count sees the record. */
    atomic_store_explicit(writer->count, ++writer->used, memory_order_release);
    return;
  }
  gp_event_record_t record;
  uint64_t full_newest_ns = writer->newest_ns;
  writer->newest_ns = 0;
  fill_record(recorder, writer, &record, event, time_ns, stream);
  turn(recorder, writer, &record, full_newest_ns);
}

/* The record begins. Events that were held back come first, under the names of their threads. */
static void append_prestart(gp_recorder_t *recorder, writer_t *writer)
{
  const gp_prestart_t *prestart = &recorder->prestart;
  const uint16_t own = writer->thread;
  const int32_t own_tid = gp_threads_describe_caller().tid;
  uint16_t threads[GP_PRESTART_EVENTS];
  for (unsigned i = 0; i < prestart->count; i++) {
    const gp_prestart_event_t *kept = &prestart->events[i];
    unsigned same = 0;
    while (prestart->events[same].thread.tid != kept->thread.tid)
      same++;
    if (same < i)
      threads[i] = threads[same];
    else
      threads[i] = kept->thread.tid == own_tid ? own : gp_threads_add(&recorder->threads, &kept->thread);
    writer->thread = threads[i];
    append(recorder, writer, &kept->event, kept->event.time_ns);
  }
  writer->thread = own;
}

static void know_thread(gp_recorder_t *recorder, writer_t *writer)
{
  if (writer->recorder_id != recorder->id) {
    *writer = (writer_t){.recorder_id = recorder->id};
    writer->thread = gp_threads_add_caller(&recorder->threads);
  }
  arm_thread_end(recorder, writer);
}

/* The thread has no chunk of this recorder, or a full one. */
static __attribute__((noinline)) void record_slowly(gp_recorder_t *recorder, const gp_event_t *event)
{
  writer_t *writer = &tls_writer;
  if (getpid() != recorder->pid) { /* a child made without fork()'s handlers */
    gp_recorder_fork_child(recorder);
    return;
  }
  if (event->action == GP_ACTION_MODE && !gp_region_is_started(&recorder->region)) {
    gp_event_t kept = *event;
    kept.time_ns = ordered_time_ns(recorder, event);
    if (gp_prestart_keep(&recorder->prestart, &kept))
      return;
  }
  know_thread(recorder, writer);
  if (gp_prestart_end(&recorder->prestart))
    append_prestart(recorder, writer);
  append(recorder, writer, event, ordered_time_ns(recorder, event));
}

/* Called after the event is stored, so no slot is ahead of the events. Known slots stay right
 * while recording is off. */
static void keep_live(gp_recorder_t *recorder, const gp_event_t *event, bool is_quiet)
{
  if (!event->observer_cookie || !recorder->live.slots || (is_quiet && *event->observer_cookie == 0))
    return;
  int16_t stream = event->has_stream ? gp_handles_intern(&recorder->handles, event->stream) : -1;
  gp_live_event(&recorder->live, event, stream, is_quiet);
}

static __attribute__((noinline)) void record_any(gp_recorder_t *recorder, const gp_event_t *event)
{
  writer_t *writer = &tls_writer;
  int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);
  if (mode == GP_TRACE_ALL && (writer->recorder_id != recorder->id || writer->used == writer->limit))
    record_slowly(recorder, event);
  else if (mode == GP_TRACE_ALL)
    append(recorder, writer, event, ordered_time_ns(recorder, event));
  keep_live(recorder, event, mode == GP_TRACE_OFF);
}

/* The writer has room, and knows the event's stream, if it has one. */
static inline bool is_ready(const gp_recorder_t *recorder, const writer_t *writer, const gp_event_t *event)
{
  return writer->recorder_id == recorder->id && writer->used != writer->limit &&
         (!event->has_stream || (writer->has_stream && writer->stream_handle == event->stream));
}

/* The path of nearly all events: the block has a slot and keeps it, and the thread's writer is ready. */
static void record_event(void *self, const gp_event_t *event)
{
  gp_recorder_t *recorder = self;
  writer_t *writer = &tls_writer;
  gp_live_slot_t *slot = gp_live_usual_slot(&recorder->live, event);
  bool is_kept = atomic_load_explicit(&recorder->mode, memory_order_relaxed) == GP_TRACE_ALL;
  if (!slot || ((is_kept || event->has_stream) && !is_ready(recorder, writer, event))) {
    record_any(recorder, event);
    return;
  }
  int16_t stream = event->has_stream ? writer->stream : (int16_t)GP_EVENT_RECORD_NO_STREAM;
  if (is_kept) {
    gp_assert_internal(owns_chunk(recorder, writer));
    gp_event_record_t *record = &writer->records[writer->used];
    fill_record(recorder, writer, record, event, device_time_ns(recorder, event), stream);
    /* Release: a reader that sees the count sees the record. */
    atomic_store_explicit(writer->count, ++writer->used, memory_order_release);
  }
  gp_live_usual_event(slot, event, stream);
}

static void record_holders(void *self, const uint32_t *cookie, uint32_t refs, bool tainted)
{
  gp_recorder_t *recorder = self;
  gp_live_holders(&recorder->live, *cookie, refs, tainted);
}

/* Describes the process in the record. Runs once, with the first memory that the program gets. */
static void describe(gp_recorder_t *recorder)
{
  char *buffer;
  gp_record_header_t *header = recorder->region.header;
  if (atomic_exchange(&recorder->is_described, true))
    return;
  atomic_store(&header->recording, (uint32_t)gp_recorder_mode(recorder));
  atomic_store(&header->driver_version, atomic_load(&recorder->driver_version));
  atomic_store(&header->runtime_version, atomic_load(&recorder->runtime_version));
  atomic_store(&header->has_gap, atomic_load(&recorder->has_gap));
  buffer = gp_pages_map(GP_DESCRIPTION_BYTES, false);
  if (!buffer)
    return;
  int cancel_state =
      gp_cancel_hold(); /* the caller holds a device's lock, and this reads the command line from a file */
  gp_description_t description = gp_description_make(recorder->options, buffer, GP_DESCRIPTION_BYTES);
  gp_cancel_restore(cancel_state);
  /* The length precedes the text and is stored last: a reader needs whole pairs. */
  if (gp_region_grow(&recorder->region, GP_SECTION_DESCRIPTION, sizeof(uint64_t) + description.length)) {
    char *section = gp_region_section(&recorder->region, GP_SECTION_DESCRIPTION, NULL);
    memcpy(section + sizeof(uint64_t), description.text, description.length);
    atomic_signal_fence(memory_order_release);
    *(uint64_t *)(void *)section = description.length;
  }
  gp_pages_unmap(buffer, GP_DESCRIPTION_BYTES);
}

static void keep_oom(gp_recorder_t *recorder, const gp_oom_t *oom)
{
  if (!gp_region_is_started(&recorder->region) ||
      !gp_region_grow(&recorder->region, GP_SECTION_OOM, sizeof(gp_oom_record_t)))
    return;
  gp_oom_record_t *record = gp_region_section(&recorder->region, GP_SECTION_OOM, NULL);
  gp_lock_take(&recorder->live.lock);
  atomic_store(&record->is_complete, 0);
  gp_assert_internal(gp_lock_is_held(&recorder->live.lock));
  record->report = *oom;
  atomic_store(&record->is_complete, 1);
  gp_lock_release(&recorder->live.lock);
}

static void record_oom(void *self, const gp_oom_t *oom)
{
  gp_recorder_t *recorder = self;
  gp_assert(gp_locks_held() == 0);
  if (!gp_recorder_is_ours(recorder))
    return;
  keep_oom(recorder, oom);
  if (recorder->hear_oom)
    recorder->hear_oom(recorder->hear_oom_self, oom);
}

/* The device's part of the record; NULL while there is no record, or if there is
 * no memory for that part. */
static gp_device_record_t *device_record(gp_recorder_t *recorder, int device)
{
  gp_assert(device >= 0 && device < GP_MAX_DEVICES);
  if (!gp_region_is_started(&recorder->region) ||
      !gp_region_grow(&recorder->region, GP_SECTION_DEVICES, GP_MAX_DEVICES * sizeof(gp_device_record_t)))
    return NULL;
  return (gp_device_record_t *)gp_region_section(&recorder->region, GP_SECTION_DEVICES, NULL) + device;
}

/* The statistics are kept in the record, so that a reader finds those of a killed process. */
static gp_stats_t *place_stats(void *self, int device)
{
  gp_recorder_t *recorder = self;
  if (gp_region_is_started(&recorder->region) &&
      !atomic_load_explicit(&recorder->is_described, memory_order_relaxed))
    describe(recorder);
  gp_device_record_t *record = device_record(recorder, device);
  return record ? &record->stats : NULL;
}

static void record_facts(void *self, int device, const gp_device_facts_t *facts)
{
  gp_device_record_t *record = device_record(self, device);
  if (!record)
    return;
  record->limit = facts->limit;
  record->use = facts->use;
  record->has_use = facts->has_use;
  record->is_known = 1;
}

static bool init_region(gp_recorder_t *recorder)
{
  uint64_t events = gp_option_number(recorder->options, GP_OPTION_trace_events);
  gp_region_plan_t plan = {
      .root = gp_option_text(recorder->options, GP_OPTION_record),
      .base_ns = recorder->base_ns,
      .start_time_us = recorder->start_time_us,
      .pid = recorder->pid,
  };
  /* With too little address space, tries with fewer events. */
  for (;; events /= 2) {
    for (int i = 0; i < GP_SECTION_COUNT; i++)
      plan.capacity[i] = gp_section_capacity((gp_section_t)i, events);
    if (gp_region_init(&recorder->region, &plan))
      break;
    if (events < GP_CHUNK_EVENTS)
      return false;
  }
  gp_chunks_init(&recorder->chunks, &recorder->region, events);
  return true;
}

static void find_origin(void *self, gp_occasion_t occasion, uint64_t size)
{
  gp_recorder_t *recorder = self;
  gp_assert(gp_locks_held() == 0);
  if (atomic_load_explicit(&recorder->mode, memory_order_relaxed) == GP_TRACE_OFF)
    return;
  arm_thread_end(recorder, &tls_writer);
  gp_origin_find(&recorder->origins, occasion, size); /* last: its callees need the stack */
}

static uint32_t tell_origin(void *self)
{
  (void)self;
  return gp_origin_tls.origin;
}

gp_recorder_t *gp_recorder_create(const gp_options_t *options, gp_clock_fn clock, void *clock_self)
{
  gp_recorder_t *recorder = gp_pages_map(sizeof(*recorder), false);
  if (!recorder)
    return NULL;
  recorder->id = atomic_fetch_add(&last_recorder_id, 1) + 1;
  recorder->clock = clock;
  recorder->clock_self = clock_self;
  recorder->options = options;
  recorder->pid = getpid();
  /* A child then finds a recorder that is off: it has no memory to record in (region.h). */
  (void)madvise(recorder, sizeof(*recorder), MADV_WIPEONFORK);
  struct timespec now;
  recorder->base_ns = gp_recorder_now_ns(recorder);
  (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
  recorder->start_time_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
  if (!init_region(recorder)) {
    gp_pages_unmap(recorder, sizeof(*recorder));
    return NULL;
  }
  gp_prestart_init(&recorder->prestart);
  gp_threads_init(&recorder->threads, &recorder->region);
  gp_handles_init(&recorder->handles, &recorder->region);
  gp_marks_init(&recorder->marks, &recorder->region);
  gp_live_init(&recorder->live, &recorder->region);
  gp_origins_init(&recorder->origins, options, &recorder->region);
  /* Without a key (the process has used up all keys) chunks of ended threads are not reused. */
  recorder->has_key = pthread_key_create(&recorder->key, thread_ended) == 0;
  atomic_store(&recorder->mode, (int)gp_option_number(options, GP_OPTION_trace));
  return recorder;
}

void gp_recorder_destroy(gp_recorder_t *recorder)
{
  if (!recorder)
    return;
  if (recorder->has_key)
    (void)pthread_key_delete(recorder->key); /* cannot fail on a key that was created */
  gp_region_remove(&recorder->region);
  gp_chunks_fini(&recorder->chunks);
  gp_live_fini(&recorder->live);
  gp_origins_fini(&recorder->origins);
  gp_marks_fini(&recorder->marks);
  gp_handles_fini(&recorder->handles);
  gp_threads_fini(&recorder->threads);
  gp_region_fini(&recorder->region);
  gp_prestart_fini(&recorder->prestart);
  gp_pages_unmap(recorder, sizeof(*recorder));
}

gp_observer_t gp_recorder_observer(gp_recorder_t *recorder)
{
  bool has_stacks = recorder->origins.mode != GP_STACKS_OFF;
  return (gp_observer_t){
      .interest = &recorder->mode,
      .find_origin = has_stacks ? find_origin : NULL,
      .origin = has_stacks ? tell_origin : NULL,
      .event = record_event,
      .holders = record_holders,
      .place_stats = place_stats,
      .device_facts = record_facts,
      .out_of_memory = record_oom,
      .self = recorder,
  };
}

void gp_recorder_hear_oom(gp_recorder_t *recorder, gp_oom_fn fn, void *self)
{
  gp_assert(!recorder->hear_oom);
  recorder->hear_oom = fn;
  recorder->hear_oom_self = self;
}

void gp_recorder_set_versions(gp_recorder_t *recorder, int driver_version, int runtime_version)
{
  atomic_store(&recorder->driver_version, driver_version);
  atomic_store(&recorder->runtime_version, runtime_version);
  if (gp_region_is_started(&recorder->region)) {
    atomic_store(&recorder->region.header->driver_version, driver_version);
    atomic_store(&recorder->region.header->runtime_version, runtime_version);
  }
}

void gp_recorder_set_mode(gp_recorder_t *recorder, int mode)
{
  if (atomic_load(&recorder->silent))
    return;
  bool has_record = gp_region_is_started(&recorder->region);
  /* The record must not claim all events when some are missing: this changes it before recording stops,
   * and after it has begun. */
  if (has_record && mode != GP_TRACE_ALL)
    atomic_store(&recorder->region.header->recording, (uint32_t)mode);
  int before = atomic_exchange(&recorder->mode, mode);
  /* Takes the time after the switch: a thread that still saw the old mode may have dropped an earlier
   * event, which must not be the only one missing. */
  if (mode == GP_TRACE_ALL && before != GP_TRACE_ALL)
    gp_chunks_forget(&recorder->chunks, gp_recorder_now_ns(recorder));
  if (before == GP_TRACE_OFF && mode != GP_TRACE_OFF)
    atomic_store(&recorder->has_gap, true);
  if (has_record) {
    atomic_store(&recorder->region.header->recording, (uint32_t)mode);
    atomic_store(&recorder->region.header->has_gap, atomic_load(&recorder->has_gap));
  }
}

void gp_recorder_mark(
    gp_recorder_t *recorder, gp_mark_kind_t kind, int device, uint64_t scope, const char *name)
{
  gp_assert(gp_locks_held() == 0);
  if (!gp_recorder_is_ours(recorder) || gp_recorder_mode(recorder) == GP_TRACE_OFF)
    return;
  know_thread(recorder, &tls_writer);
  gp_mark_record_t mark = {
      .scope = scope, .thread = tls_writer.thread, .kind = (uint8_t)kind, .device = (int8_t)device};
  memcpy(mark.name, name, strnlen(name, sizeof(mark.name) - 1));
  gp_marks_add(&recorder->marks, &mark, recorder->clock, recorder->clock_self);
}

int gp_recorder_mode(const gp_recorder_t *recorder)
{
  return atomic_load(&recorder->mode);
}

void gp_recorder_fork_child(gp_recorder_t *recorder)
{
  atomic_store(&recorder->silent, true);
  recorder->live.slots = NULL; /* the slots are not in this process */
  atomic_store(&recorder->mode, GP_TRACE_OFF);
}
