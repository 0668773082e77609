#include "trace/record/writer.h"

#include "base/assert.h"
#include "trace/stacks/known_stacks.h"
#include "trace/stacks/unwind.h"

__thread gp_writer_t gp_writer __attribute__((tls_model("initial-exec")));

bool gp_writer_owns_chunk(const gp_recorder_t *recorder, const gp_writer_t *writer)
{
  const gp_chunk_t *chunk = &recorder->chunks.chunks[writer->chunk];
  return chunk->state == GP_CHUNK_OPEN && writer->count == &chunk->count &&
         atomic_load_explicit(&chunk->count, memory_order_relaxed) == writer->used;
}

static int16_t stream_index(gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_t *event)
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

/* A free has the allocation's stack, unless frees get stacks of their own. */
static uint32_t origin_of(const gp_recorder_t *recorder, const gp_event_t *event)
{
  bool is_free = event->action == GP_ACTION_FREE_REQUESTED || event->action == GP_ACTION_FORWARDED_FREE;
  return is_free && recorder->origins.has_frees ? gp_origin_tls.origin : event->origin;
}

static void fill_record(gp_recorder_t *recorder, gp_writer_t *writer, gp_event_record_t *record,
    const gp_event_t *event, uint64_t time_ns)
{
  const gp_cookie_t *cookie = event->observer_cookie;
  bool is_pair = event->action == GP_ACTION_FREE_REQUESTED && cookie && gp_note_tells_alloc(cookie->note);

  gp_assert_internal(event->rounded_size >= event->size);
  __atomic_store_n(&record->time_ns, time_ns, __ATOMIC_RELAXED);
  record->address = event->address;
  record->size = event->size;
  record->lifetime_ns = event->alloc_ns != 0 ? time_ns - event->alloc_ns : 0;
  gp_event_record_set_block(record, event->rounded_size, event->block_id);
  if (!cookie || cookie->slot == 0 || recorder->origins.has_frees) /* its completion gets a record */
    record->completion = gp_completion_set(record->completion, GP_COMPLETION_CLOSED);
  record->duration =
      is_pair ? gp_note_thread(cookie->note) : gp_event_record_duration_pack(event->duration_ns);
  record->stack = (int32_t)origin_of(recorder, event) - 1;
  record->stream = stream_index(recorder, writer, event);
  record->thread = writer->thread;
  record->action = (uint8_t)event->action;
  record->detail = (uint8_t)event->detail;
  record->device = (int8_t)event->device;
  record->flags = (uint8_t)((event->hit ? GP_EVENT_RECORD_HIT : 0) | (is_pair ? GP_EVENT_RECORD_PAIR : 0));
}

void gp_writer_thread_ended(void *self)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
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

uint32_t gp_writer_turn(gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_record_t *record)
{
  uint32_t full = writer->limit ? writer->chunk : GP_CHUNK_NONE;
  uint32_t chunk = gp_chunks_rotate(&recorder->chunks, full, writer->newest_ns, writer->thread, record);
  writer->newest_ns = 0;
  writer->used = 0;
  writer->limit = 0;
  if (chunk == GP_CHUNK_NONE)
    return 0;
  writer->chunk = chunk;
  writer->limit = recorder->chunks.header->chunk_records;
  writer->records = gp_chunks_records(&recorder->chunks, chunk);
  writer->count = &recorder->chunks.chunks[chunk].count;
  gp_event_record_copy(&writer->records[0], record);
  return gp_writer_publish(writer, gp_event_record_time_ns(record));
}

uint32_t gp_writer_append(
    gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_t *event, uint64_t time_ns)
{
  if (writer->used < writer->limit) {
    gp_assert_internal(gp_writer_owns_chunk(recorder, writer));
    fill_record(recorder, writer, &writer->records[writer->used], event, time_ns);
    return gp_writer_publish(writer, time_ns);
  }
  gp_event_record_t record;
  fill_record(recorder, writer, &record, event, time_ns);
  return gp_writer_turn(recorder, writer, &record);
}

/* The record begins. Events that were held back come first, under the names of their threads. */
static void append_prestart(gp_recorder_t *recorder, gp_writer_t *writer)
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
    (void)gp_writer_append(recorder, writer, &kept->event, kept->event.time_ns);
  }
  writer->thread = own;
}

void gp_writer_know_thread(gp_recorder_t *recorder, gp_writer_t *writer)
{
  if (writer->recorder_id != recorder->id) {
    *writer = (gp_writer_t){.recorder_id = recorder->id};
    writer->thread = gp_threads_add_caller(&recorder->threads);
  }
  gp_writer_arm_end(recorder, writer);
}

uint32_t gp_writer_begin(gp_recorder_t *recorder, const gp_event_t *event, uint64_t time_ns)
{
  gp_writer_t *writer = &gp_writer;
  if (event->action == GP_ACTION_MODE && !gp_region_is_started(&recorder->region)) {
    gp_event_t kept = *event;
    kept.time_ns = time_ns;
    if (gp_prestart_keep(&recorder->prestart, &kept))
      return 0;
  }
  gp_writer_know_thread(recorder, writer);
  if (gp_prestart_end(&recorder->prestart))
    append_prestart(recorder, writer);
  return gp_writer_append(recorder, writer, event, time_ns);
}
