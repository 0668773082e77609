/*
 * A snapshot (trace/FORMAT.md) in memory. Every reader produces one, and all other code works on it. Small
 * parts are in a cJSON tree. Events, segments, forwarded memory and stacks are arrays, because there may be
 * millions. The reader has validated every index.
 *
 * Many threads may read a snapshot at the same time as long as no thread changes it.
 */
#ifndef GP_TOOLS_READ_SNAPSHOT_H
#define GP_TOOLS_READ_SNAPSHOT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "format/device.h"

/*
 * A column of integers, for tables with millions of rows. Values are appended at the end and can be read at
 * any index. A page contains GP_COLUMN_PAGE values, and stores each with as many bits as the page's range
 * needs (frame of reference). Times are close together, sizes and addresses are multiples of a power of two,
 * and in most columns a page has few different values. So a snapshot's columns take about 8 bits per value
 * instead of 64.
 *
 * One thread fills a column. Many threads may read a finished column.
 */

#define GP_COLUMN_PAGE 1024

/* One page of a column. Value i is `least` plus (the `width` bits from bit i * width on) << shift. */
typedef struct gp_column_page {
  int64_t least;
  uint64_t mask; /* a number whose lowest `width` bits are set */
  /* Lowest bit first. 8 bytes longer than the values need, so that an 8-byte read of a value stays inside. */
  unsigned char *bits;
  uint8_t width; /* at most 57, or exactly 64; so no value spans 9 bytes */
  uint8_t shift; /* each value minus `least` is a multiple of 1 << shift */
} gp_column_page_t;

typedef struct gp_column {
  size_t count;            /* number of values in a finished column */
  gp_column_page_t *pages; /* private */
  size_t page_count;       /* private */
  int64_t *tail;           /* private: values of the page being filled */
  size_t tail_count;       /* private */
} gp_column_t;

/* Creates an empty column, which the caller destroys. Returns NULL if memory runs out. */
gp_column_t *gp_column_create(void);
void gp_column_destroy(gp_column_t *column); /* NULL is legal */

/* Appends values to an unfinished column. Returns false if memory runs out; then only destroy the column. */
bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count);

/* Finishes the column, which is read-only from now on. Returns false if memory runs out; then the column can
 * only be destroyed. */
bool gp_column_finish(gp_column_t *column);

/* Returns value `i` of a finished column, which must have more than `i` values. */
static inline int64_t gp_column_get(const gp_column_t *column, size_t i)
{
  gp_assert_internal(!column->tail && i < column->count);
  const gp_column_page_t *page = &column->pages[i / GP_COLUMN_PAGE];
  size_t bit = i % GP_COLUMN_PAGE * page->width;
  uint64_t word;
  memcpy(&word, page->bits + bit / 8, sizeof(word));
  return (int64_t)((uint64_t)page->least + ((le64toh(word) >> bit % 8 & page->mask) << page->shift));
}

/* Returns true if the first `count` values are between `least` and `most`. Otherwise sets *ret_wrong to the
 * index of the first value that is not. */
bool gp_column_is_within(
    const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong);

#define GP_SNAPSHOT_FORMAT  "gpupool-snapshot"
#define GP_SNAPSHOT_VERSION 1 /* newest version that the tool reads */
#define GP_SNAPSHOT_DEVICES GP_MAX_DEVICES
#define GP_SNAPSHOT_NOTES   16
#define GP_SNAPSHOT_NAMES   256 /* maximum number of actions, and of details; the library has a few dozen */

/* The columns of events. */
typedef enum gp_snapshot_column {
#define COLUMN(enumerator, name, least, member) GP_COLUMN_##enumerator,
#include "format/columns.def"
  GP_COLUMN_COUNT
} gp_snapshot_column_t;

/* The kinds of events. */
typedef enum gp_event_kind {
#define ACTION(enumerator, ...) GP_EVENT_##enumerator,
#include "format/actions.def"
  GP_EVENT_SEGMENT_MAP, /* an event of PyTorch's expandable segments */
  GP_EVENT_SEGMENT_UNMAP,
  GP_EVENT_OTHER, /* an action unknown to this version */
} gp_event_kind_t;

/* The names that the values of a column stand for: value i means names[i]. */
typedef struct gp_snapshot_names {
  char **names;
  size_t count;
} gp_snapshot_names_t;

typedef struct gp_snapshot_events {
  size_t count;                          /* number of rows, and length of each column that exists */
  gp_column_t *columns[GP_COLUMN_COUNT]; /* NULL: not requested, or not in the file */
  /* PyTorch only: free bytes of the device when memory ran out (gp_snapshot_device_free). -1: unknown; NULL:
   * all unknown. */
  gp_column_t *device_free;
  /* PyTorch only: pool of the segment (gp_snapshot_event_pool). -1: unknown; NULL: all unknown. */
  gp_column_t *pool;
  gp_snapshot_names_t actions; /* at most GP_SNAPSHOT_NAMES, as are details */
  gp_snapshot_names_t details;
  uint8_t kinds[GP_SNAPSHOT_NAMES]; /* gp_event_kind_t of each action, indexed by action */
} gp_snapshot_events_t;

/* Returns the value of an event in a column, or `otherwise` if the snapshot does not contain the column. */
static inline int64_t gp_snapshot_event(
    const gp_snapshot_events_t *events, gp_snapshot_column_t column, size_t event, int64_t otherwise)
{
  const gp_column_t *values = events->columns[column];
  return values ? gp_column_get(values, event) : otherwise;
}

/* Like gp_snapshot_event, for a column without negative values. Returns 0 if the snapshot does not contain
 * the column. */
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

/* Sets *ret_bytes to the free memory of the device when an allocation failed with out of memory. Only
 * PyTorch's snapshots record it. Returns false if the event does not. */
static inline bool gp_snapshot_device_free(
    const gp_snapshot_events_t *events, size_t event, uint64_t *ret_bytes)
{
  int64_t bytes = events->device_free ? gp_column_get(events->device_free, event) : -1;
  if (bytes >= 0)
    *ret_bytes = (uint64_t)bytes;
  return bytes >= 0;
}

/* Returns the pool of a segment event or failed request. PyTorch records the pool since 2026. If it is
 * missing, returns the default pool, 0. */
static inline int gp_snapshot_event_pool(const gp_snapshot_events_t *events, size_t event)
{
  int64_t pool = events->pool ? gp_column_get(events->pool, event) : 0;
  return pool > 0 ? (int)pool : 0;
}

/* The state of a block. */
typedef enum gp_snapshot_state {
#define BLOCK_STATE(enumerator, name) GP_SNAPSHOT_##enumerator,
#include "format/states.def"
  GP_SNAPSHOT_OTHER, /* a state unknown to this version */
} gp_snapshot_state_t;

/* A block in a segment. Sizes are in bytes. `stack` and `stream` are indexes, or -1 for none. */
typedef struct gp_snapshot_block {
  uint64_t address;
  uint64_t size;
  uint64_t requested;
  uint64_t block; /* block number, which is new for each allocation */
  uint64_t time_ns;
  size_t segment; /* index of the segment */
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
  /* The segment's blocks are blocks[first_block .. first_block + block_count) of the snapshot. */
  size_t first_block;
  size_t block_count;
  int device;
  int stream;
  /* PyTorch only: 0 is the default pool; others are private pools of graphs and MemPools. */
  int pool;
  bool is_expandable; /* PyTorch only: the mapped part of an expandable segment */
} gp_snapshot_segment_t;

/* A range of memory that the driver supplied, and the time during which it existed. Only devices whose
 * segments grew or shrank have extents. Extents are unsorted, and no two of them overlap at the same moment.
 * Moment n is the time after n events, as in tools/model/lifetimes.h. */
typedef struct gp_snapshot_extent {
  uint64_t address;
  uint64_t size;
  size_t begin; /* moment; 0: before the first event */
  size_t end;   /* moment; SIZE_MAX: the range exists at the end */
  int device;
  int stream;
  int pool;
  bool is_expandable; /* adjacent expandable extents form one segment */
} gp_snapshot_extent_t;

/* An allocation that was forwarded to the driver and is in use at the end. */
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

/* Reports show this function as the owner of memory that was in use before the first event of a log. */
#define GP_SNAPSHOT_BEFORE "(in use before the log began)"

/* One frame of a stack. Unknown texts are "". */
typedef struct gp_snapshot_frame {
  uint64_t address; /* 0: none */
  char *function;
  char *file;
  int module;
  int line; /* 0: unknown */
  bool is_inline;
} gp_snapshot_frame_t;

typedef struct gp_snapshot_module {
  char *path;
  char *build_id; /* hexadecimal */
  uint64_t bias;
  uint64_t start;
  uint64_t end;
  /* The file on disk is from another build, so gp_symbols_resolve does not resolve names of its frames. */
  bool is_rebuilt;
} gp_snapshot_module_t;

/* The recorded stacks. The frames of stack i are frame_indexes[first[i] .. first[i + 1]), innermost first. */
typedef struct gp_snapshot_stacks {
  size_t count;
  size_t *first; /* has count + 1 items; NULL if count is 0 */
  int *frame_indexes;
} gp_snapshot_stacks_t;

/* The role of a frame in an allocation (tools/symbols/frame_parts.h). */
typedef struct gp_snapshot_frame_kind {
  uint8_t part;   /* gp_frame_part_t */
  uint8_t group;  /* gp_frame_group_t */
  uint8_t form;   /* gp_frame_form_t */
  bool is_python; /* true if the frame is a line of Python */
  bool is_root;   /* true if the frame is main or the top of a script */
  bool is_common; /* true if the name is too common for an owner, so that each line is an owner of its own */
} gp_snapshot_frame_kind_t;

/* The owner of a stack (tools/symbols/stack_owners.h). The integers are positions in the stack: 0 is the
 * innermost frame, and -1 means none. */
typedef struct gp_snapshot_owner {
  int place;     /* position of the owner; -1: the stack is empty */
  int through;   /* function that the owner called, of the user or of a library */
  int operation; /* framework operator that the owner called */
  /* The owner is a script. Its frames were not recorded, so `place` is the script's interpreter. */
  bool is_program;
} gp_snapshot_owner_t;

typedef struct gp_snapshot_device {
  int device;
  uint64_t limit; /* bytes; 0: none */
  uint64_t total; /* total bytes of the device; 0: unknown, and so are the next four members */
  uint64_t free;
  uint64_t in_pools;    /* idle bytes in the driver's own memory pools; also 0 in older snapshots */
  uint64_t unaccounted; /* bytes in use that belong to no request of the process */
  uint64_t use_ns;      /* time at which the driver reported these figures */
  bool has_extents;     /* the snapshot's extents, not its segments, describe the driver's memory */
  /* Bit i: the file does not contain row i of format/stats.def. Older versions wrote fewer rows. */
  uint64_t lacked_stats;
  bool lacks_reserved; /* reserved memory before the end is unknown, because events contradict each other */
  gp_stats_t stats;
  double cache_hit_rate;
  double efficiency;
  double fragmentation;
} gp_snapshot_device_t;

typedef struct gp_snapshot {
  cJSON *root; /* format, version, reason, process, settings, streams, threads, oom */
  gp_snapshot_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
  gp_snapshot_segment_t *segments; /* in the order of the file: by device, then by address */
  size_t segment_count;
  gp_snapshot_extent_t *extents;
  size_t extent_count;
  gp_snapshot_block_t *blocks;
  size_t block_count;
  gp_snapshot_forwarded_t *forwarded;
  size_t forwarded_count;
  gp_snapshot_stacks_t stacks;
  gp_snapshot_frame_t *frames;
  size_t frame_count;
  gp_snapshot_module_t *modules;
  size_t module_count;
  gp_snapshot_owner_t *owners;           /* indexed by stack; NULL: not computed yet */
  gp_snapshot_frame_kind_t *frame_kinds; /* indexed by frame; NULL: not computed yet */
  /* Indexed by frame; NULL: not computed yet. Private to tools/model/component.c. */
  uint8_t *components;
  gp_snapshot_events_t events;
  uint64_t recorded_since_ns; /* events before this time are missing; 0: no events are missing */
  uint64_t dropped_events;
  /* The input should contain events but does not, so only the state at the end is known. */
  bool lacks_history;
  /* The input is a log without reserved memory. Each block in use has its own segment. */
  bool lacks_segments;
  bool is_pytorch; /* the segments belong to PyTorch's allocator, not to gpupool */
  /* PyTorch only: there are no counters, so statistics come from segments and events; see gp_stats_known. */
  bool lacks_counters;
  bool times_are_numbers;                /* events have no times; time_ns is the index of the event */
  char *notes[GP_SNAPSHOT_NOTES];        /* what is missing in the file, one sentence each */
  bool note_is_usual[GP_SNAPSHOT_NOTES]; /* the same is missing in intact files of this kind */
  size_t note_count;
  uint64_t input_bytes; /* size of the uncompressed file; 0: the snapshot was in memory */
} gp_snapshot_t;

/* Returns the maximum number of bytes to write from a snapshot: 64 MiB plus 64 times the size of the file. A
 * small file can refer to a long name or deep stack from many places. Without a limit, the output could
 * become arbitrarily large. */
uint64_t gp_snapshot_output_most(const gp_snapshot_t *snapshot);

/* The reason why an input could not be read. */
typedef struct gp_snapshot_error {
  size_t offset; /* offset of the invalid byte */
  char text[512];
} gp_snapshot_error_t;

void gp_snapshot_destroy(gp_snapshot_t *snapshot); /* NULL is legal */

/* Sets events->kinds from the names of the actions. */
void gp_snapshot_find_kinds(gp_snapshot_events_t *events);

/* Returns the name that a snapshot uses for the action of such events (static), or "" for GP_EVENT_OTHER. */
const char *gp_event_kind_name(gp_event_kind_t kind);

/* How reports show events that do not change the memory in use: columns of format/actions.def. */
typedef struct gp_event_look {
  const char *instant; /* "": not shown as an instant */
  char letter;         /* '\0': not shown as a mark */
  const char *mark;
} gp_event_look_t;

gp_event_look_t gp_event_look(gp_event_kind_t kind);

/* Returns the state called `name`, or GP_SNAPSHOT_OTHER if unknown. `name` need not end with a NUL. */
gp_snapshot_state_t gp_snapshot_state_of(const char *name, size_t length);

/* Returns the name that a snapshot uses for the state (static), or "" for GP_SNAPSHOT_OTHER. */
const char *gp_snapshot_state_name(gp_snapshot_state_t state);

/* Adds a sentence to the notes, which say what is missing in the file. */
void gp_snapshot_note(gp_snapshot_t *snapshot, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like gp_snapshot_note, if the same is missing in intact files of this kind. */
void gp_snapshot_note_usual(gp_snapshot_t *snapshot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns true if every index is valid. Use it in asserts. */
bool gp_snapshot_is_sound(const gp_snapshot_t *snapshot);

/* Returns true if the snapshot is incomplete: events were dropped, or members are missing. */
bool gp_snapshot_is_partial(const gp_snapshot_t *snapshot);

/* Formats a time for the user: "1.23 ms", or "event 17" for a snapshot without times. buffer has
 * GP_NUMBER_BYTES bytes (tools/output.h). Returns buffer. */
char *gp_snapshot_moment(const gp_snapshot_t *snapshot, uint64_t time_ns, char *buffer);
#define GP_AS_MOMENT(snapshot, time_ns) gp_snapshot_moment(snapshot, time_ns, (char[GP_NUMBER_BYTES]){0})

/* Returns the device with this number, or NULL. */
const gp_snapshot_device_t *gp_snapshot_device(const gp_snapshot_t *snapshot, int device);

/* Tells whether a statistic of a device is known. PyTorch's snapshots contain segments and events but no
 * counters. A statistic that cannot be derived from these is unknown, and must not be printed as 0. */
typedef enum gp_known {
  GP_KNOWN_NOT,
  GP_KNOWN_AT_END, /* only the current value of a gauge is known */
  GP_KNOWN,
} gp_known_t;

/* Returns whether a statistic is known. `stat` is its offset in gp_stats_t. */
gp_known_t gp_stats_known(const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device, size_t stat);

/* Returns a text member of a cJSON object, which is borrowed, or "" if it is missing. */
const char *gp_snapshot_text(const cJSON *object, const char *name);

/* Reads a member as an integer from 0 to 2^53. Returns 1 and sets *ret_number; returns 0 if the member is
 * missing or null, and -1 for any other value. */
int gp_snapshot_uint(const cJSON *object, const char *name, uint64_t *ret_number);

#endif
