/*
 * Reads a trace: a CSV of rows "op,id,size,stream", where op is A (allocate) or F (free).
 */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define HEADER     "op,id,size,stream"
#define MAX_BLOCKS (1u << 28) /* what a stamp can name */
#define NO_BLOCK   UINT32_MAX

/* id -> block that is live under it, NO_BLOCK if none is. Open addressing; ids are never removed. */
typedef struct id_map {
  uint64_t *keys;
  uint32_t *blocks;
  bool *is_taken;
  size_t count, room; /* room is a power of two, count * 2 <= room */
} id_map_t;

typedef struct reader {
  const char *path;
  uint32_t line;
  replay_trace_t trace;
  size_t row_room, block_room, stream_room;
  id_map_t live;
} reader_t;

static void *grow(void *array, size_t *room, size_t count, size_t item_bytes)
{
  if (count < *room)
    return array;
  *room = *room ? 2 * *room : 64;
  array = realloc(array, *room * item_bytes);
  if (!array)
    abort();
  return array;
}

static uint32_t *id_map_slot(id_map_t *map, uint64_t id)
{
  for (size_t i = id * UINT64_C(0x9e3779b97f4a7c15) >> 20;; i++) {
    i &= map->room - 1;
    if (map->is_taken[i] && map->keys[i] != id)
      continue;
    if (!map->is_taken[i]) {
      map->is_taken[i] = true;
      map->keys[i] = id;
      map->blocks[i] = NO_BLOCK;
      map->count++;
    }
    return &map->blocks[i];
  }
}

static void id_map_fini(id_map_t *map)
{
  free(map->keys);
  free(map->blocks);
  free(map->is_taken);
}

/* The returned place is valid until the next call. */
static uint32_t *id_map_find(id_map_t *map, uint64_t id)
{
  if (2 * (map->count + 1) > map->room) {
    id_map_t old = *map;
    map->room = old.room ? 2 * old.room : 1024;
    map->count = 0;
    map->keys = malloc(map->room * sizeof(*map->keys));
    map->blocks = malloc(map->room * sizeof(*map->blocks));
    map->is_taken = calloc(map->room, sizeof(*map->is_taken));
    if (!map->keys || !map->blocks || !map->is_taken)
      abort();
    for (size_t i = 0; i < old.room; i++)
      if (old.is_taken[i])
        *id_map_slot(map, old.keys[i]) = old.blocks[i];
    id_map_fini(&old);
  }
  return id_map_slot(map, id);
}

static bool complain(const reader_t *reader, const char *problem)
{
  fprintf(stderr, "replay: %s:%" PRIu32 ": %s\n", reader->path, reader->line, problem);
  return false;
}

/* Digits up to the given end character, nothing else; *text moves behind it. */
static bool parse_number(const char **text, char end, uint64_t *ret_number)
{
  const char *p = *text;
  uint64_t number = 0;
  if (*p < '0' || *p > '9')
    return false;
  for (; *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow(number, 10u, &number) ||
        __builtin_add_overflow(number, (unsigned)(*p - '0'), &number))
      return false;
  if (*p != end)
    return false;
  *text = p + (end != '\0');
  *ret_number = number;
  return true;
}

static uint32_t stream_index(reader_t *reader, uint64_t stream)
{
  replay_trace_t *trace = &reader->trace;
  for (uint32_t i = 0; i < trace->stream_count; i++)
    if (trace->streams[i] == stream)
      return i;
  trace->streams = grow(trace->streams, &reader->stream_room, trace->stream_count, sizeof(*trace->streams));
  trace->streams[trace->stream_count] = stream;
  return trace->stream_count++;
}

static bool parse_row(reader_t *reader, const char *text)
{
  replay_trace_t *trace = &reader->trace;
  char op = text[0];
  if ((op != 'A' && op != 'F') || text[1] != ',')
    return complain(reader, "expected a row \"" HEADER "\" with op A or F");
  text += 2;
  uint64_t id, bytes, stream;
  if (!parse_number(&text, ',', &id))
    return complain(reader, "the id is not a number below 2^64 followed by a comma");
  if (!parse_number(&text, ',', &bytes))
    return complain(reader, "the size is not a number below 2^64 followed by a comma");
  if (!parse_number(&text, '\0', &stream))
    return complain(reader, "the stream is not a number below 2^64 that ends the row");

  uint32_t *live = id_map_find(&reader->live, id);
  char problem[96];
  if (op == 'A' && *live != NO_BLOCK) {
    snprintf(problem, sizeof(problem), "block %" PRIu64 " is allocated, but it is already live", id);
    return complain(reader, problem);
  }
  if (op == 'F' && *live == NO_BLOCK) {
    snprintf(problem, sizeof(problem), "block %" PRIu64 " is freed, but it is not live", id);
    return complain(reader, problem);
  }
  if (op == 'A') {
    if (trace->block_count == MAX_BLOCKS)
      return complain(reader, "more than 2^28 allocations");
    trace->ids = grow(trace->ids, &reader->block_room, trace->block_count, sizeof(*trace->ids));
    trace->ids[trace->block_count] = id;
    *live = trace->block_count++;
  }
  trace->rows = grow(trace->rows, &reader->row_room, trace->row_count, sizeof(*trace->rows));
  trace->rows[trace->row_count++] = (replay_row_t){
      .is_alloc = op == 'A',
      .block = *live,
      .bytes = bytes,
      .stream = stream_index(reader, stream),
      .line = reader->line,
  };
  if (op == 'F')
    *live = NO_BLOCK;
  return true;
}

static bool read_rows(reader_t *reader, FILE *file)
{
  char *text = NULL;
  size_t room = 0;
  bool ok = true;
  for (ssize_t length; ok && (length = getline(&text, &room, file)) >= 0;) {
    reader->line++;
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
      text[--length] = '\0';
    if (strlen(text) != (size_t)length)
      ok = complain(reader, "a zero byte");
    else if (reader->line > 1 || strcmp(text, HEADER) != 0)
      ok = parse_row(reader, text);
  }
  if (ok && ferror(file))
    ok = complain(reader, strerror(errno));
  else if (ok && reader->trace.row_count == 0)
    ok = complain(reader, "no rows");
  free(text);
  return ok;
}

bool replay_trace_read(const char *path, replay_trace_t *ret_trace)
{
  bool is_stdin = strcmp(path, "-") == 0;
  reader_t reader = {.path = is_stdin ? "<stdin>" : path};
  FILE *file = is_stdin ? stdin : fopen(path, "r");
  if (!file) {
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    return false;
  }
  bool ok = read_rows(&reader, file);
  if (!is_stdin)
    (void)fclose(file); /* it was only read */
  id_map_fini(&reader.live);
  if (!ok) {
    replay_trace_fini(&reader.trace);
    return false;
  }
  reader.trace.path = reader.path;
  *ret_trace = reader.trace;
  return true;
}

void replay_trace_fini(replay_trace_t *trace)
{
  free(trace->rows);
  free(trace->ids);
  free(trace->streams);
  *trace = (replay_trace_t){0};
}
