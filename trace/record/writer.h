/*
 * Stores the events of the calling thread. Each thread fills a chunk of its own (chunks.h), so it needs no
 * lock and shares no cache line.
 */
#ifndef GP_TRACE_RECORD_WRITER_H
#define GP_TRACE_RECORD_WRITER_H

#include "trace/record/recorder_state.h"

/* A thread's state, with its own chunk. Invariant: if recorder_id == recorder->id and used < limit, the chunk
 * is open and belongs to this thread, and its first `used` records are published. If `limit` is 0, the thread
 * has no chunk. */
typedef struct gp_writer {
  uint64_t recorder_id;
  uint64_t newest_ns; /* newest time in the chunk's records, without completion times */
  gp_event_record_t *records;
  _Atomic uint32_t *count;
  uint32_t used;
  uint32_t limit;
  uint32_t chunk;
  uint16_t thread;
  int16_t stream; /* index of stream_handle, the last stream recorded */
  uint64_t stream_handle;
  bool has_stream;
  bool will_close; /* the key's destructor will run at the thread's end */
} gp_writer_t;

/* initial-exec, because the general model calls a function at a thread's first access, which may allocate. */
extern __thread gp_writer_t gp_writer __attribute__((tls_model("initial-exec")));

/* Registers the calling thread with this recorder, unless it is registered. Gives up a chunk of another
 * recorder. */
void gp_writer_know_thread(gp_recorder_t *recorder, gp_writer_t *writer);

/* Makes sure that a destructor runs when the thread ends. It closes the thread's chunk and frees its known
 * stacks. */
static inline void gp_writer_arm_end(gp_recorder_t *recorder, gp_writer_t *writer)
{
  if (!writer->will_close && recorder->has_key)
    writer->will_close = pthread_setspecific(recorder->key, recorder) == 0;
}

/* Closes the chunk of the ending thread. This is the destructor of recorder->key; `self` is the recorder. The
 * events stay readable until the chunk is reused. */
void gp_writer_thread_ended(void *self);

/* Stores an event with the time time_ns. Returns the record's place (gp_chunks_place), or 0 if the record is
 * not in a chunk of this thread. The thread must be registered (gp_writer_know_thread). */
uint32_t gp_writer_append(
    gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_t *event, uint64_t time_ns);

/* Does what gp_writer_append does, but also works if the thread is not registered or the record has not
 * begun. */
uint32_t gp_writer_begin(gp_recorder_t *recorder, const gp_event_t *event, uint64_t time_ns);

/* Opens a new chunk for a thread that has no chunk or a full one, and stores the record there. Returns what
 * gp_writer_append returns. */
uint32_t gp_writer_turn(gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_record_t *record);

/* Returns true if the invariant of gp_writer_t holds; for asserts. */
bool gp_writer_owns_chunk(const gp_recorder_t *recorder, const gp_writer_t *writer);

/* Publishes the record at index `used`, which the caller has filled. Returns its place. */
static inline uint32_t gp_writer_publish(gp_writer_t *writer, uint64_t time_ns)
{
  if (time_ns > writer->newest_ns)
    writer->newest_ns = time_ns;
  /* Release: a reader that sees the new count also sees the record. */
  atomic_store_explicit(writer->count, writer->used + 1, memory_order_release);
  return gp_chunks_place(writer->chunk, writer->used++);
}

/* Stores the completion time of a free in the free's record, whose place is `note`. Returns false if that
 * record no longer exists; the caller must then record the completion as an event of its own. */
static inline bool gp_writer_complete(
    gp_recorder_t *recorder, const gp_writer_t *writer, uint32_t note, uint64_t block_id, uint64_t time_ns)
{
  if (note == 0 || gp_note_records_alloc(note))
    return false;
  bool is_own =
      writer->recorder_id == recorder->id && writer->limit != 0 && note / GP_CHUNK_RECORDS == writer->chunk;
  return gp_chunks_complete(&recorder->chunks, note, is_own, block_id, time_ns);
}

/* Returns the time to record for a device's event: time_ns, or slightly later so that times are unique and
 * increasing. The caller holds the device's lock. The members are atomic because the snapshot writer reads
 * them without the lock. */
static inline uint64_t gp_recorder_time_ns(gp_recorder_t *recorder, int device, uint64_t time_ns)
{
  gp_device_clock_t *clock = &recorder->clocks[device];
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

/*
 * The observer's fast paths (gp_observer_t). They write one record for an allocation and its free together.
 * `self` is the recorder. The caller holds the device's lock; for keep and reuse, it holds the heap's lock
 * instead.
 */

uint64_t gp_pairs_alloc(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_free_requested(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_free_completed(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns);
uint64_t gp_pairs_keep(
    void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns);
uint64_t gp_pairs_reuse(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device,
    bool is_cut, uint64_t *last_ns, uint64_t time_ns);
void gp_pairs_join(void *self, int device, uint64_t last_ns);

#endif
