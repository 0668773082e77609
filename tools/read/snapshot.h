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
  gp_column_t *device_free;    /* of PyTorch's: bytes that the driver had free when memory ran out, -1:
                                  not said; NULL: no event says it. See gp_snapshot_device_free() */
  gp_snapshot_names_t actions; /* GP_SNAPSHOT_NAMES at most, as of details */
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

/* What the driver had free when memory ran out at an event, as a snapshot of PyTorch says with it. False: the
 * event does not say. */
static inline bool gp_snapshot_device_free(
    const gp_snapshot_events_t *events, size_t event, uint64_t *ret_bytes)
{
  int64_t bytes = events->device_free ? gp_column_get(events->device_free, event) : -1;
  if (bytes >= 0)
    *ret_bytes = (uint64_t)bytes;
  return bytes >= 0;
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
  bool is_rebuilt; /* its file is another build now, so that its frames got no names (gp_symbols_resolve) */
} gp_snapshot_module_t;

/* Stack i is frames[first[i] .. first[i + 1]) of frame_indexes, the innermost first. */
typedef struct gp_snapshot_stacks {
  size_t count;
  size_t *first; /* count + 1; NULL if count is 0 */
  int *frame_indexes;
} gp_snapshot_stacks_t;

/* What part a frame has in an allocation (tools/symbols/frame_parts.h). */
typedef struct gp_snapshot_frame_kind {
  uint8_t part;   /* gp_frame_part_t */
  uint8_t group;  /* gp_frame_group_t */
  uint8_t form;   /* gp_frame_form_t */
  bool is_python; /* a line of Python */
  bool is_root;   /* main, or the top of a script */
  bool is_common; /* its name says little: each of its lines is an owner of its own */
} gp_snapshot_frame_kind_t;

/* Whose a stack is (tools/symbols/stack_owners.h): places in it, 0 is the innermost frame, -1 none. */
typedef struct gp_snapshot_owner {
  int place;       /* -1: the stack is empty */
  int through;     /* the function of the user or of a library that the owner called */
  int operation;   /* the operator of a framework that it called */
  bool is_program; /* the owner is the script of the interpreter at place, whose frames are not recorded */
} gp_snapshot_owner_t;

typedef struct gp_snapshot_device {
  int device;
  uint64_t limit; /* bytes; 0: none */
  uint64_t total; /* bytes of the device; 0: not known, nor the next four */
  uint64_t free;
  uint64_t in_pools;    /* held by the driver's own pools, not in use; 0 too where the snapshot is older */
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
  gp_snapshot_owner_t *owners;           /* by stack; NULL: not found yet */
  gp_snapshot_frame_kind_t *frame_kinds; /* by frame; as owners */
  gp_snapshot_events_t events;
  uint64_t recorded_since_ns; /* events up to here are missing; 0: none is */
  uint64_t dropped_events;
  bool times_are_numbers;         /* no event has a time: each time_ns is the event's number, from 0 on */
  char *notes[GP_SNAPSHOT_NOTES]; /* what the file lacks, a sentence each */
  bool note_is_usual[GP_SNAPSHOT_NOTES]; /* sound files of that kind lack it, too: nothing is damaged */
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

/* The same of something that sound files of that kind lack, too. */
void gp_snapshot_note_usual(gp_snapshot_t *snapshot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For asserts: true if every index leads to something that is there. */
bool gp_snapshot_is_sound(const gp_snapshot_t *snapshot);

/* True if the snapshot lacks something: events that were dropped, or members. */
bool gp_snapshot_is_partial(const gp_snapshot_t *snapshot);

/*
 * When something was, for a reader: "1.23 ms", or "event 17" of a snapshot without times. buffer holds
 * GP_NUMBER_BYTES (tools/output.h). Returns buffer.
 */
char *gp_snapshot_moment(const gp_snapshot_t *snapshot, uint64_t time_ns, char *buffer);

/* A member of a cJSON object as text; "" if there is none. Borrowed. */
const char *gp_snapshot_text(const cJSON *object, const char *name);

/* A member as a whole number from 0 to 2^53: 1 and *ret_number, 0 if it is absent or null, -1 if it is
 * something else. */
int gp_snapshot_uint(const cJSON *object, const char *name, uint64_t *ret_number);

#endif
