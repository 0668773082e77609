/*
 * Stamps: 8-byte words that tell which block of which pass they belong to.
 *
 * A block carries a word at its head, one at every multiple of 2 MiB (more from 8 MiB on, so that it has 4
 * at most: each touches a page of the host's memory that nothing else does) and one at its tail. They are
 * written by asynchronous copies from pinned memory: such a write is pending when the call returns, so a
 * block that is freed, or handed to another owner, too early is overwritten by it. Reading back is a pending
 * copy as well, which finds the words of the next owner if the block was handed on before the read was done.
 * A copy of separate words costs one call: it is a 2D copy of 8-byte rows; a block of up to 2 MiB is a copy
 * of two rows.
 */
#include "replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_PITCH     (UINT64_C(2) << 20)
#define MOST_ROWS     4u
#define WORD          sizeof(uint64_t)
#define SEGMENT_COUNT 16u
#define SEGMENT_WORDS 32768u /* 256 KiB: 4 MiB of pinned memory per thread */
#define TAIL_WORD     ((1u << 20) - 1)
#define MAX_REPORTS   10

/* Lines written, by all threads together */
static atomic_uint reports;

/* One copy: `words` staged words, of which the one at index `tail_at` is the tail word. */
typedef struct span {
  uint64_t offset;
  size_t pitch, width, rows;
  uint32_t words;
  uint32_t tail_at;
} span_t;

/* A read-back to be compared once its copy is complete */
typedef struct check {
  stamp_block_t block;
  span_t span;
  const uint64_t *got;
} check_t;

/* fill <= SEGMENT_WORDS; is_used[s] is set while a copy on stream s may still use the segment */
typedef struct segment {
  uint64_t *words;
  uint32_t fill;
  bool *is_used;
  check_t *checks;
  size_t check_count, check_room;
} segment_t;

struct stamp_ring {
  const replay_api_t *api;
  const replay_trace_t *trace;
  void *const *streams;
  uint32_t stream_count;
  uint64_t *memory;
  unsigned current;
  uint64_t wrong;
  segment_t segments[SEGMENT_COUNT];
};

/* A bijection of 64-bit numbers (the finalizer of splitmix64): unequal keys give unequal stamps, of random
 * look, so that no plain pattern in memory is taken for one. */
static uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t unmix(uint64_t x)
{
  x = (x ^ (x >> 31) ^ (x >> 62)) * UINT64_C(0x319642b2d24d8ec3);
  x = (x ^ (x >> 27) ^ (x >> 54)) * UINT64_C(0x96de1b173f119089);
  return x ^ (x >> 30) ^ (x >> 60);
}

/* 16 bits of pass, 28 of block, 20 of word; pass counts from 1, so that memory full of zeros is no stamp */
static uint64_t stamp_word(const stamp_block_t *block, uint32_t word)
{
  return mix((uint64_t)block->pass << 48 | (uint64_t)block->block << 20 | (word & TAIL_WORD));
}

/* Between the words of a block of `bytes`, the tail word left out. */
static uint64_t pitch_of(uint64_t bytes)
{
  uint64_t pages = bytes / MIN_PITCH;
  return MIN_PITCH * (pages < MOST_ROWS ? 1 : pages / MOST_ROWS + 1);
}

/* The copies of a block of `bytes` in turn: *copy is 0 at first. False when there is none left. */
static bool next_span(uint64_t bytes, unsigned *copy, span_t *ret_span)
{
  uint64_t pitch = pitch_of(bytes);
  uint64_t rows = bytes < 2 * WORD ? 1 : (bytes - 2 * WORD) / pitch + 1; /* none overlaps the tail word */
  unsigned copies = bytes == 0 ? 0 : rows == 1 ? 1 : 2;
  if (*copy == copies)
    return false;
  if (bytes < 2 * WORD)
    *ret_span = (span_t){.pitch = bytes, .width = bytes, .rows = 1, .words = 2, .tail_at = 1};
  else if (rows == 1)
    *ret_span = (span_t){.pitch = bytes - WORD, .width = WORD, .rows = 2, .words = 2, .tail_at = 1};
  else if (*copy == 0)
    *ret_span =
        (span_t){.pitch = pitch, .width = WORD, .rows = rows, .words = (uint32_t)rows, .tail_at = UINT32_MAX};
  else
    *ret_span = (span_t){.offset = bytes - WORD, .pitch = WORD, .width = WORD, .rows = 1, .words = 1};
  (*copy)++;
  return true;
}

static uint64_t span_word(const stamp_block_t *block, const span_t *span, uint32_t index)
{
  return stamp_word(block, index == span->tail_at ? TAIL_WORD : index);
}

/* Names the owner of a word that was found where another was expected. */
static void describe(const stamp_ring_t *ring, uint64_t word, uint32_t pass, char *text, size_t size)
{
  uint64_t key = unmix(word);
  uint64_t block = key >> 20 & ((1u << 28) - 1);
  if (word == 0)
    snprintf(text, size, "never written");
  else if (key >> 48 >= 1 && key >> 48 <= pass && block < ring->trace->block_count)
    snprintf(text, size, "stamp of block %" PRIu64 " of pass %" PRIu64, ring->trace->ids[block], key >> 48);
  else
    snprintf(text, size, "no stamp");
}

/* One line per copy: its first wrong word and how many there are */
static void report(const stamp_ring_t *ring, const check_t *check, uint32_t index, uint32_t wrong,
    uint64_t want, uint64_t got)
{
  unsigned number = atomic_fetch_add(&reports, 1);
  if (number >= MAX_REPORTS)
    return;
  char owner[96], row[16] = "end of pass";
  describe(ring, got, check->block.pass, owner, sizeof(owner));
  if (check->block.line)
    snprintf(row, sizeof(row), "%" PRIu32, check->block.line);
  uint64_t offset =
      check->span.offset + (check->span.rows > 1 ? index * (uint64_t)check->span.pitch : index * WORD);
  fprintf(stderr,
      "replay: %s:%s: %" PRIu32 " of %" PRIu32 " stamps wrong in block %" PRIu64 " of pass %" PRIu32
      ", first at 0x%" PRIx64 " + %" PRIu64 ": expected 0x%016" PRIx64 ", got 0x%016" PRIx64 " (%s)%s\n",
      ring->trace->path, row, wrong, check->span.words, ring->trace->ids[check->block.block],
      check->block.pass, check->block.address, offset, want, got, owner,
      number + 1 == MAX_REPORTS ? "; further ones are only counted" : "");
}

static void compare(stamp_ring_t *ring, const check_t *check)
{
  uint32_t wrong = 0, first = 0;
  uint64_t first_want = 0, first_got = 0;
  for (uint32_t i = 0; i < check->span.words; i++) {
    /* Only what lies inside the block counts: blocks below 16 bytes hold parts of their words */
    size_t inside = check->span.width * check->span.rows;
    inside = inside <= i * WORD ? 0 : inside - i * WORD;
    uint64_t expected = span_word(&check->block, &check->span, i), want = 0, got = 0;
    memcpy(&want, &expected, inside < WORD ? inside : WORD);
    memcpy(&got, &check->got[i], inside < WORD ? inside : WORD);
    if (want != got && wrong++ == 0) {
      first = i;
      first_want = want;
      first_got = got;
    }
  }
  if (wrong > 0)
    report(ring, check, first, wrong, first_want, first_got);
  ring->wrong += wrong;
}

static void settle_segment(stamp_ring_t *ring, segment_t *segment)
{
  for (size_t i = 0; i < segment->check_count; i++)
    compare(ring, &segment->checks[i]);
  memset(segment->is_used, 0, ring->stream_count * sizeof(bool));
  segment->check_count = 0;
  segment->fill = 0;
}

static uint64_t *reserve(stamp_ring_t *ring, uint32_t words, uint32_t stream)
{
  segment_t *segment = &ring->segments[ring->current];
  if (segment->fill + words > SEGMENT_WORDS) {
    ring->current = (ring->current + 1) % SEGMENT_COUNT;
    segment = &ring->segments[ring->current];
    for (uint32_t i = 0; i < ring->stream_count; i++)
      if (segment->is_used[i])
        replay_must(ring->api, "stream synchronize", ring->api->stream_sync(ring->streams[i]));
    settle_segment(ring, segment);
  }
  uint64_t *place = segment->words + segment->fill;
  segment->fill += words;
  segment->is_used[stream] = true;
  return place;
}

static void add_check(segment_t *segment, const stamp_block_t *block, const span_t *span, const uint64_t *got)
{
  if (segment->check_count == segment->check_room) {
    segment->check_room = segment->check_room ? 2 * segment->check_room : 256;
    segment->checks = realloc(segment->checks, segment->check_room * sizeof(check_t));
    if (!segment->checks)
      abort();
  }
  segment->checks[segment->check_count++] = (check_t){.block = *block, .span = *span, .got = got};
}

void stamp_write(stamp_ring_t *ring, const stamp_block_t *block, uint32_t stream)
{
  span_t span;
  for (unsigned copy = 0; next_span(block->bytes, &copy, &span);) {
    uint64_t *words = reserve(ring, span.words, stream);
    for (uint32_t i = 0; i < span.words; i++)
      words[i] = span_word(block, &span, i);
    replay_must(ring->api, "copy to the device",
        ring->api->copy_in(
            block->address + span.offset, span.pitch, words, span.width, span.rows, ring->streams[stream]));
  }
}

void stamp_read(stamp_ring_t *ring, const stamp_block_t *block, uint32_t stream)
{
  span_t span;
  for (unsigned copy = 0; next_span(block->bytes, &copy, &span);) {
    uint64_t *words = reserve(ring, span.words, stream);
    memset(words, 0, span.words * WORD); /* stamps that were here would hide a read that never happened */
    replay_must(ring->api, "copy from the device",
        ring->api->copy_out(
            words, block->address + span.offset, span.pitch, span.width, span.rows, ring->streams[stream]));
    add_check(&ring->segments[ring->current], block, &span, words);
  }
}

void stamp_settle(stamp_ring_t *ring)
{
  for (unsigned i = 0; i < SEGMENT_COUNT; i++)
    settle_segment(ring, &ring->segments[i]);
}

uint64_t stamp_wrong_count(const stamp_ring_t *ring)
{
  return ring->wrong;
}

stamp_ring_t *stamp_ring_create(
    const replay_api_t *api, const replay_trace_t *trace, void *const *streams, uint32_t stream_count)
{
  stamp_ring_t *ring = calloc(1, sizeof(*ring));
  if (!ring)
    abort();
  ring->api = api;
  ring->trace = trace;
  ring->streams = streams;
  ring->stream_count = stream_count;
  void *memory = NULL;
  replay_must(api, "pinned memory", api->host_alloc(&memory, SEGMENT_COUNT * SEGMENT_WORDS * WORD));
  ring->memory = memory;
  for (unsigned i = 0; i < SEGMENT_COUNT; i++) {
    ring->segments[i].words = ring->memory + (size_t)i * SEGMENT_WORDS;
    ring->segments[i].is_used = calloc(stream_count, sizeof(bool));
    if (!ring->segments[i].is_used)
      abort();
  }
  return ring;
}

void stamp_ring_destroy(stamp_ring_t *ring)
{
  replay_must(ring->api, "free of pinned memory", ring->api->host_free(ring->memory));
  for (unsigned i = 0; i < SEGMENT_COUNT; i++) {
    free(ring->segments[i].is_used);
    free(ring->segments[i].checks);
  }
  free(ring);
}
