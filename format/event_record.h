/*
 * A record in the ring of events. The layout is fixed: the reader may be another process, of another build,
 * after this process was killed. There are no pointers; indexes refer to tables that only grow.
 *
 * A record represents one event. To save stores to new memory, it may also represent up to three events of
 * one block:
 *
 *   alloc            present if the action is free_requested and the flag PAIR is set. Its time is
 *                    time_ns - lifetime_ns, its thread is `alloc_thread`. The alloc was served from the pool
 *                    (a hit), so it has no duration and no detail.
 *   the action       always present; its time is time_ns
 *   free_completed   present if `completion` contains its time. Its thread is that of the free.
 *
 * While a block is allocated, its live slot represents the alloc event (live_slot.h, records_alloc). Every
 * other event has a record of its own. If a free has a stack of its own, each of the three events has its own
 * record, too.
 */
#ifndef GP_FORMAT_EVENT_RECORD_H
#define GP_FORMAT_EVENT_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/actions.h"

#define GP_EVENT_RECORD_NO_STREAM (-1)

/* values of `flags` */
#define GP_EVENT_RECORD_HIT   1u
#define GP_EVENT_RECORD_PAIR  2u
#define GP_EVENT_RECORD_FLAGS (GP_EVENT_RECORD_HIT | GP_EVENT_RECORD_PAIR)

/* Values of the upper half of `completion`, which otherwise is the time from the free to its completion in
 * nanoseconds. */
#define GP_COMPLETION_OPEN 0u /* the time is not known yet, but may still be set */
#define GP_COMPLETION_CLOSED                                                                                 \
  UINT32_MAX /* the time will never be set here; if the free completes, a separate event records it */

/* An event record in the ring. Threads other than its writer load time_ns, and load and change `completion`,
 * so both are accessed atomically. */
typedef struct gp_event_record {
  uint64_t time_ns; /* time on the engine's clock */
  uint64_t address;
  uint64_t size;
  uint64_t lifetime_ns;
  uint64_t completion; /* the lower half contains the lower half of block_id */
  uint32_t slack;      /* lower half of the slack: rounded size minus size */
  union {
    uint32_t duration;     /* duration of the driver call, from gp_event_record_duration_pack */
    uint32_t alloc_thread; /* with PAIR: index of the thread that made the alloc */
  };
  int32_t stack;       /* index of the stack, which is the event's origin minus one; -1: none */
  uint16_t slack_high; /* bits 32 to 47 of the slack */
  uint16_t block_high; /* bits 32 to 47 of block_id */
  int16_t stream;
  uint16_t thread;
  uint8_t action; /* gp_action_t */
  uint8_t detail; /* gp_detail_t */
  int8_t device;
  uint8_t flags;
} gp_event_record_t;

static_assert(sizeof(gp_event_record_t) == 64, "a record is one cache line, in every build");

/* One event, extracted from a record. */
typedef struct gp_decoded_event {
  uint64_t time_ns;
  uint64_t address;
  uint64_t size;
  uint64_t rounded_size;
  uint64_t block_id;
  uint64_t duration_ns;
  uint64_t lifetime_ns;
  int32_t stack;
  int16_t stream;
  uint16_t thread;
  uint8_t action;
  uint8_t detail;
  int8_t device;
  uint8_t hit;
} gp_decoded_event_t;

/* The events that a record represents, in the order in which they happened. */
typedef enum gp_event_part {
  GP_PART_ALLOC,
  GP_PART_ACTION,
  GP_PART_COMPLETION,
  GP_PARTS,
} gp_event_part_t;

/* Packs a duration into 32 bits. Up to 2.1 s, the result is in nanoseconds. For longer durations, the top bit
 * is set and the units are 1024 ns, which allows up to 36 minutes. */
static inline uint32_t gp_event_record_duration_pack(uint64_t duration_ns)
{
  if (duration_ns < UINT64_C(1) << 31)
    return (uint32_t)duration_ns;
  uint64_t units = duration_ns >> 10;
  if (units > 0x7fffffffu)
    units = 0x7fffffffu;
  return 0x80000000u | (uint32_t)units;
}

static inline uint64_t gp_event_record_duration_unpack(uint32_t packed)
{
  return packed & 0x80000000u ? (uint64_t)(packed & 0x7fffffffu) << 10 : packed;
}

static inline uint64_t gp_event_record_time_ns(const gp_event_record_t *record)
{
  return __atomic_load_n(&record->time_ns, __ATOMIC_RELAXED);
}

static inline uint64_t gp_event_record_completion(const gp_event_record_t *record)
{
  return __atomic_load_n(&record->completion, __ATOMIC_RELAXED);
}

/* Returns the initial value of `completion` for a freed block: no time is known yet. */
static inline uint64_t gp_completion_open(uint64_t block_id)
{
  return block_id & UINT32_MAX;
}

/* Returns `completion` with its time replaced by after_ns: the nanoseconds since the free, or
 * GP_COMPLETION_CLOSED. */
static inline uint64_t gp_completion_set(uint64_t completion, uint32_t after_ns)
{
  return (uint64_t)after_ns << 32 | (completion & UINT32_MAX);
}

static inline bool gp_completion_is_known(uint64_t completion)
{
  uint64_t after_ns = completion >> 32;
  return after_ns != GP_COMPLETION_OPEN && after_ns != GP_COMPLETION_CLOSED;
}

/* Returns true if the record represents the event `part`. `completion` is the record's member, which the
 * caller loads only once, because another thread may change it. */
static inline bool gp_event_record_has(
    const gp_event_record_t *record, uint64_t completion, gp_event_part_t part)
{
  bool is_free = record->action == GP_ACTION_FREE_REQUESTED;
  if (part == GP_PART_ACTION)
    return true;
  return is_free && (part == GP_PART_ALLOC ? (record->flags & GP_EVENT_RECORD_PAIR) != 0
                                           : gp_completion_is_known(completion));
}

/* Returns the time of one of the events that the record represents. */
static inline uint64_t gp_event_record_part_ns(
    const gp_event_record_t *record, uint64_t completion, gp_event_part_t part)
{
  uint64_t time_ns = gp_event_record_time_ns(record);
  if (part == GP_PART_ALLOC)
    return time_ns - record->lifetime_ns;
  return part == GP_PART_COMPLETION ? time_ns + (completion >> 32) : time_ns;
}

/* Sets the members that are stored in two parts: the slack and the block's id. The record's `size` must be
 * set already. rounded_size must be at least `size`, and less than `size` + 2^48. block_id must be less than
 * 2^48. */
static inline void gp_event_record_set_block(
    gp_event_record_t *record, uint64_t rounded_size, uint64_t block_id)
{
  uint64_t slack = rounded_size - record->size;

  record->slack = (uint32_t)slack;
  record->slack_high = (uint16_t)(slack >> 32);
  record->block_high = (uint16_t)(block_id >> 32);
  __atomic_store_n(&record->completion, gp_completion_open(block_id), __ATOMIC_RELAXED);
}

/* Returns the number of events that the record represents. */
static inline unsigned gp_event_record_count(const gp_event_record_t *record, uint64_t completion)
{
  return 1u + gp_event_record_has(record, completion, GP_PART_ALLOC) +
         gp_event_record_has(record, completion, GP_PART_COMPLETION);
}

static inline uint64_t gp_event_record_newest_ns(const gp_event_record_t *record, uint64_t completion)
{
  bool is_completed = gp_event_record_has(record, completion, GP_PART_COMPLETION);
  return gp_event_record_part_ns(record, completion, is_completed ? GP_PART_COMPLETION : GP_PART_ACTION);
}

/* Copies a record into or out of the ring, with atomic access to the members that other threads use. */
static inline void gp_event_record_copy(gp_event_record_t *to, const gp_event_record_t *from)
{
  uint64_t completion = gp_event_record_completion(from);
  uint64_t time_ns = gp_event_record_time_ns(from);
  memcpy(&to->address, &from->address,
      offsetof(gp_event_record_t, completion) - offsetof(gp_event_record_t, address));
  memcpy(&to->slack, &from->slack, sizeof(*to) - offsetof(gp_event_record_t, slack));
  __atomic_store_n(&to->time_ns, time_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&to->completion, completion, __ATOMIC_RELAXED);
}

/* Returns one of the events that the record represents. No thread may change the record meanwhile. Inlined,
 * so that callers that need only one member do no other work. */
static inline __attribute__((always_inline)) gp_decoded_event_t gp_event_record_decode(
    const gp_event_record_t *record, gp_event_part_t part)
{
  bool is_alloc = part == GP_PART_ALLOC;
  bool is_completion = part == GP_PART_COMPLETION;
  bool is_pair = record->flags & GP_EVENT_RECORD_PAIR;
  uint64_t time_ns = gp_event_record_part_ns(record, record->completion, part);
  return (gp_decoded_event_t){
      .time_ns = time_ns,
      .address = record->address,
      .size = record->size,
      .rounded_size = record->size + ((uint64_t)record->slack_high << 32 | record->slack),
      .block_id = (uint64_t)record->block_high << 32 | (record->completion & UINT32_MAX),
      .duration_ns = is_pair || is_completion ? 0 : gp_event_record_duration_unpack(record->duration),
      .lifetime_ns = is_alloc ? 0 : record->lifetime_ns + (time_ns - record->time_ns),
      .stack = record->stack,
      .stream = record->stream,
      .thread = is_alloc ? (uint16_t)record->alloc_thread : record->thread,
      .action = is_alloc        ? (uint8_t)GP_ACTION_ALLOC
                : is_completion ? (uint8_t)GP_ACTION_FREE_COMPLETED
                                : record->action,
      .detail = is_alloc || is_completion ? 0 : record->detail,
      .device = record->device,
      .hit = is_alloc || (record->flags & GP_EVENT_RECORD_HIT),
  };
}

#endif
