/*
 * A snapshot (trace/FORMAT.md) in memory: what every reader makes, and everything else works on. The small
 * parts are a cJSON tree; events, segments, forwarded memory and stacks, of which there can be millions,
 * are arrays. The reader has checked every index.
 *
 * A snapshot that has been read may be used by many threads as long as no thread changes it.
 */
#ifndef GP_TOOLS_READ_SNAPSHOT_H
#define GP_TOOLS_READ_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "trace/format/device.h"
#include "tools/read/column.h"

#define GP_SNAPSHOT_FORMAT  "gpupool-snapshot"
#define GP_SNAPSHOT_VERSION 1 /* the newest that is understood */
#define GP_SNAPSHOT_DEVICES GP_MAX_DEVICES
#define GP_SNAPSHOT_NOTES   16
#define GP_SNAPSHOT_NAMES   256 /* actions or details: the library has a few dozen at most */

/* The columns of events. */
typedef enum gp_snapshot_column {
#define COLUMN(enumerator, name, least, member) GP_COLUMN_##enumerator,
#include "trace/format/columns.def"
  GP_COLUMN_COUNT
} gp_snapshot_column_t;

/* What an event is. */
typedef enum gp_event_kind {
#define ACTION(enumerator, name) GP_EVENT_##enumerator,
#include "trace/format/actions.def"
  GP_EVENT_SEGMENT_MAP, /* PyTorch's expandable segments */
  GP_EVENT_SEGMENT_UNMAP,
  GP_EVENT_OTHER, /* of a newer library */
} gp_event_kind_t;

/* A list of names that a column refers to. */
typedef struct gp_snapshot_names {
  char **names;
  size_t count;
} gp_snapshot_names_t;

typedef struct gp_snapshot_events {
  size_t count;                          /* rows that every column present has */
  gp_column_t *columns[GP_COLUMN_COUNT]; /* NULL: not asked for, or not in the file */
  gp_snapshot_names_t actions;           /* GP_SNAPSHOT_NAMES at most, as of details */
  gp_snapshot_names_t details;
  uint8_t kinds[GP_SNAPSHOT_NAMES]; /* gp_event_kind_t by the index of the action */
} gp_snapshot_events_t;

/* What a column holds of an event; otherwise: if there is no such column. */
static inline int64_t gp_snapshot_event(
    const gp_snapshot_events_t *events, gp_snapshot_column_t column, size_t event, int64_t otherwise)
{
  const gp_column_t *values = events->columns[column];
  return values ? gp_column_get(values, event) : otherwise;
}

/* The same of a column that holds nothing below 0; 0 if there is no such column. */
static inline uint64_t gp_snapshot_event_uint(
    const gp_snapshot_events_t *events, gp_snapshot_column_t column, size_t event)
{
  return (uint64_t)gp_snapshot_event(events, column, event, 0);
}

static inline gp_event_kind_t gp_snapshot_event_kind(const gp_snapshot_events_t *events, size_t event)
{
  const gp_column_t *actions = events->columns[GP_COLUMN_ACTION];
  return actions ? (gp_event_kind_t)events->kinds[gp_column_get(actions, event)] : GP_EVENT_OTHER;
}

/* The state of a block. */
typedef enum gp_snapshot_state {
#define BLOCK_STATE(enumerator, name) GP_SNAPSHOT_##enumerator,
#include "trace/format/states.def"
  GP_SNAPSHOT_OTHER, /* of a newer library */
} gp_snapshot_state_t;

/* Sizes in bytes. stack and stream are indexes, -1: none. */
typedef struct gp_snapshot_block {
  uint64_t address;
  uint64_t size;
  uint64_t requested;
  uint64_t block; /* incarnation */
  uint64_t time_ns;
  size_t segment; /* index */
  int device;
  int stack;
  int stream;
  gp_snapshot_state_t state;
  bool tainted;
} gp_snapshot_block_t;

typedef struct gp_snapshot_segment {
  uint64_t address;
  uint64_t size;
  uint64_t context;
  size_t first_block; /* its blocks are [first_block, first_block + block_count) of the snapshot's */
  size_t block_count;
  int device;
  int stream;
} gp_snapshot_segment_t;

/* Live memory that is not pooled. */
typedef struct gp_snapshot_forwarded {
  uint64_t address;
  uint64_t size;
  uint64_t block;
  uint64_t time_ns;
  char *kind;
  int device;
  int stack;
  int stream;
} gp_snapshot_forwarded_t;

/* One call. Text is "" where it is not known. */
typedef struct gp_snapshot_frame {
  uint64_t address; /* 0: none */
  char *function;
  char *file;
  int module;
  int line; /* 0: not known */
  bool is_inline;
} gp_snapshot_frame_t;

typedef struct gp_snapshot_module {
  char *path;
  char *build_id; /* hexadecimal */
  uint64_t bias;
  uint64_t start;
  uint64_t end;
} gp_snapshot_module_t;

/* Stack i is frames[first[i] .. first[i + 1]) of frame_indexes, the innermost first. */
typedef struct gp_snapshot_stacks {
  size_t count;
  size_t *first; /* count + 1; NULL if count is 0 */
  int *frame_indexes;
} gp_snapshot_stacks_t;

typedef struct gp_snapshot_device {
  int device;
  uint64_t limit; /* bytes; 0: none */
  uint64_t total; /* bytes of the device; 0: not known, nor the next three */
  uint64_t free;
  uint64_t unaccounted; /* in use, but by nothing that the process asked for */
  uint64_t use_ns;      /* when that was so */
  gp_stats_t stats;
  double cache_hit_rate;
  double efficiency;
  double fragmentation;
} gp_snapshot_device_t;

typedef struct gp_snapshot {
  cJSON *root; /* format, version, reason, process, settings, streams, threads, oom */
  gp_snapshot_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
  gp_snapshot_segment_t *segments; /* as in the file: by device, then address */
  size_t segment_count;
  gp_snapshot_block_t *blocks;
  size_t block_count;
  gp_snapshot_forwarded_t *forwarded;
  size_t forwarded_count;
  gp_snapshot_stacks_t stacks;
  gp_snapshot_frame_t *frames;
  size_t frame_count;
  gp_snapshot_module_t *modules;
  size_t module_count;
  gp_snapshot_events_t events;
  uint64_t recorded_since_ns; /* events up to here are missing; 0: none is */
  uint64_t dropped_events;
  char *notes[GP_SNAPSHOT_NOTES]; /* what the file lacks, a sentence each */
  size_t note_count;
  uint64_t input_bytes; /* of the file that it was read from, uncompressed; 0: it was in memory */
} gp_snapshot_t;

/*
 * The most that may be written out of a snapshot: a small file can refer to a long name, or to a deep stack,
 * from many places, and what writes it at each of them would write any amount. 64 MiB, and 16 times the file.
 */
uint64_t gp_snapshot_output_most(const gp_snapshot_t *snapshot);

/* Why an input could not be read. */
typedef struct gp_snapshot_error {
  size_t offset; /* of the byte that is wrong */
  char text[512];
} gp_snapshot_error_t;

void gp_snapshot_destroy(gp_snapshot_t *snapshot); /* NULL is legal */

/* Fills kinds from the names of the actions. */
void gp_snapshot_find_kinds(gp_snapshot_events_t *events);

/* The name of the action in the snapshot; "" of GP_EVENT_OTHER. Static. */
const char *gp_event_kind_name(gp_event_kind_t kind);

/* The state of that name, which need not end with a NUL; GP_SNAPSHOT_OTHER if there is none. */
gp_snapshot_state_t gp_snapshot_state_of(const char *name, size_t length);

/* The name of a state in the snapshot; that of GP_SNAPSHOT_OTHER is "". Static. */
const char *gp_snapshot_state_name(gp_snapshot_state_t state);

/* Adds a sentence to the notes: something is missing. */
void gp_snapshot_note(gp_snapshot_t *snapshot, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For asserts: true if every index leads to something that is there. */
bool gp_snapshot_is_sound(const gp_snapshot_t *snapshot);

/* True if the snapshot lacks something: events that were dropped, or members. */
bool gp_snapshot_is_partial(const gp_snapshot_t *snapshot);

/* A member of a cJSON object as text; "" if there is none. Borrowed. */
const char *gp_snapshot_text(const cJSON *object, const char *name);

/* A member as a whole number from 0 to 2^53: 1 and *ret_number, 0 if it is absent or null, -1 if it is
 * something else. */
int gp_snapshot_uint(const cJSON *object, const char *name, uint64_t *ret_number);

#endif
