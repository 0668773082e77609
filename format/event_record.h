/* One stored event. The layout is fixed: the reader may be another process, of another build, after this
 * one was killed. No pointers; indexes refer to tables that only grow. */
#ifndef GP_FORMAT_EVENT_RECORD_H
#define GP_FORMAT_EVENT_RECORD_H

#include <assert.h>
#include <stdint.h>

#define GP_EVENT_RECORD_NO_STREAM (-1)

typedef struct gp_event_record {
  uint64_t time_ns; /* the engine's clock */
  uint64_t address;
  uint64_t size;
  uint64_t rounded_size;
  uint64_t block_id;
  uint64_t lifetime_ns;
  uint32_t duration; /* gp_event_record_duration_pack */
  int32_t stack;     /* index, -1: none; the event's origin less one */
  int16_t stream;
  uint16_t thread;
  uint8_t action; /* gp_action_t */
  uint8_t detail; /* gp_detail_t */
  int8_t device;
  uint8_t hit;
} gp_event_record_t;

static_assert(sizeof(gp_event_record_t) == 64, "a record is one cache line, in every build");

/* 31 bits of nanoseconds; longer than 2.1 s (the top bit): units of 1024 ns, up to 36 minutes. */
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

#endif
