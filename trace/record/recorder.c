#include "trace/record/recorder.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "trace/record/recorder_state.h"
#include "base/cancel.h"
#include "trace/record/description.h"
#include "trace/record/writer.h"
#include "format/recording.h"
#include "trace/stacks/origin.h"
#include "base/pages.h"
#include "trace/record/chunks.h"
#include "trace/record/live.h"
#include "trace/record/tables.h"

void gp_prestart_init(gp_prestart_t *prestart)
{
  gp_lock_init(&prestart->lock, GP_RANK_PRESTART);
}

void gp_prestart_fini(gp_prestart_t *prestart)
{
  gp_assert_internal(gp_lock_is_free(&prestart->lock));
}

bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event)
{
  gp_lock_take(&prestart->lock);
  bool kept = !prestart->is_over && prestart->count < GP_PRESTART_EVENTS;
  gp_assert_internal(gp_lock_is_held(&prestart->lock));
  if (kept)
    prestart->events[prestart->count++] = (gp_prestart_event_t){*event, gp_threads_describe_caller()};
  gp_lock_release(&prestart->lock);
  return kept;
}

bool gp_prestart_end(gp_prestart_t *prestart)
{
  gp_lock_take(&prestart->lock);
  bool is_first = !prestart->is_over;
  gp_assert_internal(gp_lock_is_held(&prestart->lock));
  gp_assert(prestart->count <= GP_PRESTART_EVENTS);
  prestart->is_over = true;
  gp_lock_release(&prestart->lock);
  return is_first;
}

#define PAGE_BYTES_MOST ((size_t)64 * 1024)

/* Returns the largest size in bytes of a section. It depends on `events`, the number of events that the
 * library keeps, only for GP_SECTION_EVENTS. Thread-safe. */
static size_t gp_section_capacity(gp_section_t section, uint64_t events)
{
  switch (section) {
  case GP_SECTION_DESCRIPTION: return sizeof(uint64_t) + GP_DESCRIPTION_BYTES;
  case GP_SECTION_DEVICES: return GP_MAX_DEVICES * sizeof(gp_device_record_t);
  case GP_SECTION_HEAPS: return GP_HEAPS_MAX * sizeof(gp_heap_counts_t);
  case GP_SECTION_OOM: return sizeof(gp_oom_record_t);
  case GP_SECTION_THREADS: return sizeof(gp_thread_table_t);
  case GP_SECTION_STREAMS: return sizeof(gp_handle_table_t);
  case GP_SECTION_LIVE: return GP_LIVE_MAX * sizeof(gp_live_slot_t);
  case GP_SECTION_STACKS: return GP_STACKS_LOG_BYTES;
  case GP_SECTION_MODULES: return GP_MODULES_LOG_BYTES;
  case GP_SECTION_CODES: return GP_CODE_LOG_BYTES;
  case GP_SECTION_MARKS: return sizeof(gp_mark_table_t);
  case GP_SECTION_EVENTS: return gp_chunks_bytes(events);
  default: return 0;
  }
}

size_t gp_section_capacity_max(gp_section_t section)
{
  return gp_section_capacity(section, gp_option_table[GP_OPTION_trace_events].maximum) + PAGE_BYTES_MOST;
}

/* The record stores the value of GPUPOOL_TRACE, so the codes in the record and those of the option must be
 * equal. */
static_assert(GP_RECORDING_OFF == (int)GP_TRACE_OFF && GP_RECORDING_STATE == (int)GP_TRACE_STATE &&
                  GP_RECORDING_ALL == (int)GP_TRACE_ALL,
    "the option has the codes of the record");

/* The recorder's mode is also the observer's `interest`, where 0 means no events. The table of live memory is
 * kept up to date even while recording is off. */
static_assert(GP_TRACE_OFF == 0, "no interest");

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

static _Atomic uint64_t last_recorder_id;

uint64_t gp_recorder_fence_ns(gp_recorder_t *recorder, int device)
{
  gp_device_clock_t *clock = &recorder->clocks[device];
  uint64_t now_ns = gp_recorder_now_ns(recorder);
  uint64_t last_ns = atomic_load_explicit(&clock->last_ns, memory_order_relaxed);
  if (now_ns < last_ns)
    now_ns = last_ns;
  /* Relaxed is sufficient: a thread that records later first takes the device's lock, which the caller holds
   * now. */
  atomic_store_explicit(&clock->floor_ns, now_ns, memory_order_relaxed);
  return now_ns;
}

static inline uint64_t ordered_time_ns(gp_recorder_t *recorder, const gp_event_t *event)
{
  /* A snapshot event is recorded without the device's lock, so its time cannot be ordered. */
  if ((unsigned)event->device >= GP_MAX_DEVICES || event->action == GP_ACTION_SNAPSHOT)
    return event->time_ns;
  return gp_recorder_time_ns(recorder, event->device, event->time_ns);
}

/* Records a block's alloc at the moment when the block is freed. This is needed if only the slot records the
 * alloc, because recording was switched off since then. */
static void record_alloc_late(gp_recorder_t *recorder, const gp_event_t *event)
{
  gp_writer_t *writer = &gp_writer;
  gp_event_t alloc = *event;

  alloc.action = GP_ACTION_ALLOC;
  alloc.detail = GP_DETAIL_NONE;
  alloc.alloc_ns = 0;
  alloc.hit = true;
  gp_writer_know_thread(recorder, writer);
  uint16_t own = writer->thread;
  writer->thread = gp_note_thread(event->observer_cookie->note);
  (void)gp_writer_append(recorder, writer, &alloc, event->alloc_ns);
  writer->thread = own;
}

/* Returns the block's new note after an event whose record is at `place`. */
static uint32_t note_after(const gp_recorder_t *recorder, const gp_event_t *event, uint32_t place)
{
  return event->action == GP_ACTION_FREE_REQUESTED && !recorder->origins.has_frees ? place : 0;
}

/* Records any event, in any mode. writer.c has the fast paths. On this path an alloc gets a record of its
 * own. */
static uint64_t record_event(void *self, const gp_event_t *event)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = event->observer_cookie;
  int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);
  uint64_t time_ns = event->time_ns;
  uint32_t place = 0;

  if (mode == GP_TRACE_ALL) {
    bool has_room = writer->recorder_id == recorder->id && writer->used != writer->limit;
    if (!has_room && getpid() != recorder->pid) { /* the child was created without fork()'s handlers */
      gp_recorder_fork_child(recorder);
      return time_ns;
    }
    time_ns = ordered_time_ns(recorder, event);
    bool is_entered = event->action == GP_ACTION_FREE_COMPLETED && cookie &&
                      gp_writer_complete(recorder, writer, cookie->note, event->block_id, time_ns);
    if (!is_entered)
      place = has_room ? gp_writer_append(recorder, writer, event, time_ns)
                       : gp_writer_begin(recorder, event, time_ns);
  } else if (event->action == GP_ACTION_FREE_REQUESTED && cookie && gp_note_records_alloc(cookie->note) &&
             gp_recorder_is_ours(recorder)) {
    record_alloc_late(recorder, event);
  }
  /* The slot changes after the event is stored, so a slot is never ahead of the events. Existing slots are
   * kept up to date even while recording is off. */
  if (!cookie || !recorder->live.slots || (mode == GP_TRACE_OFF && cookie->slot == 0))
    return time_ns;
  int16_t stream = event->has_stream ? gp_handles_intern(&recorder->handles, event->stream) : -1;
  gp_live_event(&recorder->live, event, time_ns, stream, mode == GP_TRACE_OFF);
  cookie->note = cookie->slot != 0 ? note_after(recorder, event, place) : 0;
  return time_ns;
}

static void record_holders(void *self, const gp_cookie_t *cookie, uint32_t refs, bool tainted)
{
  gp_recorder_t *recorder = self;
  gp_live_holders(&recorder->live, cookie->slot, refs, tainted);
}

/* Writes the description of the process into the record, once, at the program's first allocation. */
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
      gp_cancel_hold(); /* file I/O is a cancellation point, and the caller holds a device's lock */
  gp_description_t description = gp_description_make(recorder->options, buffer, GP_DESCRIPTION_BYTES);
  gp_cancel_restore(cancel_state);
  /* The length precedes the text but is stored last. So a reader never sees a partial description. */
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
  if (recorder->on_oom)
    recorder->on_oom(recorder->on_self, oom);
}

static void report_damage(void *self, const gp_damage_t *damage)
{
  gp_recorder_t *recorder = self;
  gp_assert(gp_locks_held() == 0);
  if (gp_recorder_is_ours(recorder) && recorder->on_damage)
    recorder->on_damage(recorder->on_self, damage);
}

/* Returns the device's part of the record. Returns NULL if there is no record yet, or no memory for that
 * part. */
static gp_device_record_t *device_record(gp_recorder_t *recorder, int device)
{
  gp_assert(device >= 0 && device < GP_MAX_DEVICES);
  if (!gp_region_is_started(&recorder->region) ||
      !gp_region_grow(&recorder->region, GP_SECTION_DEVICES, GP_MAX_DEVICES * sizeof(gp_device_record_t)))
    return NULL;
  return (gp_device_record_t *)gp_region_section(&recorder->region, GP_SECTION_DEVICES, NULL) + device;
}

/* Returns where to keep a device's statistics: in the record, so that they survive a kill. Returns NULL if
 * there is no place. */
static gp_stats_t *place_stats(void *self, int device)
{
  gp_recorder_t *recorder = self;
  if (gp_region_is_started(&recorder->region) &&
      !atomic_load_explicit(&recorder->is_described, memory_order_relaxed))
    describe(recorder);
  gp_device_record_t *record = device_record(recorder, device);
  return record ? &record->stats : NULL;
}

/* Returns where in the record to keep the counts of a thread's heap, or NULL if there is no place. */
static gp_heap_counts_t *place_heap(void *self, uint32_t number)
{
  gp_recorder_t *recorder = self;

  if (number >= GP_HEAPS_MAX || !gp_region_is_started(&recorder->region) ||
      !gp_region_grow(&recorder->region, GP_SECTION_HEAPS, (number + 1) * sizeof(gp_heap_counts_t)))
    return NULL;
  return (gp_heap_counts_t *)gp_region_section(&recorder->region, GP_SECTION_HEAPS, NULL) + number;
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
  /* If there is too little address space, tries again with half as many events. */
  for (;; events /= 2) {
    for (int i = 0; i < GP_SECTION_COUNT; i++)
      plan.capacity[i] = gp_section_capacity((gp_section_t)i, events);
    if (gp_region_init(&recorder->region, &plan))
      break;
    if (events < GP_CHUNK_RECORDS)
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
  gp_writer_arm_end(recorder, &gp_writer);
  gp_origin_find(&recorder->origins, occasion, size); /* last: its callees need most of the stack */
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
  /* A forked child gets a zeroed recorder, which is off, because the child does not inherit the region. */
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
  /* If the process has no key left, the chunks of ended threads stay open and are never reused. */
  recorder->has_key = pthread_key_create(&recorder->key, gp_writer_thread_ended) == 0;
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
  bool has_pairs = !recorder->origins.has_frees; /* a free with its own stack needs its own record */
  return (gp_observer_t){
      .interest = &recorder->mode,
      .find_origin = has_stacks ? find_origin : NULL,
      .origin = has_stacks ? tell_origin : NULL,
      .event = record_event,
      .alloc = has_pairs ? gp_pairs_alloc : NULL,
      .free_requested = has_pairs ? gp_pairs_free_requested : NULL,
      .free_completed = has_pairs ? gp_pairs_free_completed : NULL,
      .keep = has_pairs ? gp_pairs_keep : NULL,
      .reuse = has_pairs ? gp_pairs_reuse : NULL,
      .join = has_pairs ? gp_pairs_join : NULL,
      .holders = record_holders,
      .place_stats = place_stats,
      .place_heap = place_heap,
      .device_facts = record_facts,
      .out_of_memory = record_oom,
      .damage = report_damage,
      .self = recorder,
  };
}

void gp_recorder_set_reports(gp_recorder_t *recorder, gp_oom_fn oom, gp_damage_fn damage, void *self)
{
  gp_assert(!recorder->on_oom);
  recorder->on_oom = oom;
  recorder->on_damage = damage;
  recorder->on_self = self;
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
  /* The header changes before recording stops, and only after recording starts. Otherwise the record would
   * claim to have all events while some are missing. */
  if (has_record && mode != GP_TRACE_ALL)
    atomic_store(&recorder->region.header->recording, (uint32_t)mode);
  int before = atomic_exchange(&recorder->mode, mode);
  /* Reads the time after the switch: a thread that still saw the old mode may have dropped an event just
   * before, and that event must also count as lost. */
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
  gp_writer_know_thread(recorder, &gp_writer);
  gp_mark_record_t mark = {
      .scope = scope, .thread = gp_writer.thread, .kind = (uint8_t)kind, .device = (int8_t)device};
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
  recorder->live.slots = NULL; /* this process does not have the slots */
  atomic_store(&recorder->mode, GP_TRACE_OFF);
}
