/*
 * The record of a process: a header of one page, followed by sections (sections.def). The record is in shared
 * memory and outlives the process. Readers must not trust its contents: the process may have been killed at
 * any instruction, and may have overwritten parts of the record before.
 */
#ifndef GP_FORMAT_RECORD_H
#define GP_FORMAT_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gp_section {
#define SECTION(enumerator, name) GP_SECTION_##enumerator,
#include "format/sections.def"
  GP_SECTION_COUNT
} gp_section_t;

/* Returns the section's name for messages; never NULL for a valid enumerator. */
const char *gp_section_name(gp_section_t section);

#define GP_RECORD_MAGIC         "gpupool" /* 8 bytes with its NUL */
#define GP_RECORD_BYTE_ORDER    0x01020304u
#define GP_RECORD_HEADER_BYTES  4096u
#define GP_RECORD_SECTION_ROOM  16 /* number of sections for which the header has room */
#define GP_RECORD_VERSION_BYTES 32

/* The location of a section in the file. */
typedef struct gp_section_place {
  uint64_t offset;
  uint64_t capacity;
  _Atomic uint64_t used; /* number of bytes that may contain data */
} gp_section_place_t;

/* The header of a record. The writer stores `magic` after all other members. */
typedef struct gp_record_header {
  char magic[8];
  uint32_t section_count;
  uint32_t byte_order;
  uint64_t layout_hash;   /* gp_layout_hash() of the writer */
  uint64_t base_ns;       /* start of recording on the engine's clock */
  uint64_t start_time_us; /* the same moment in microseconds since 1970 */
  int32_t pid;
  _Atomic uint32_t recording; /* gp_recording_t */
  char library_version[GP_RECORD_VERSION_BYTES];
  uint64_t bytes;                 /* size of the file */
  _Atomic int32_t driver_version; /* in the driver API's form; 0: unknown */
  _Atomic int32_t runtime_version;
  _Atomic uint32_t has_gap; /* 1: blocks that were allocated while recording was off are missing */
  _Atomic uint32_t
      missing_slots; /* number of segments and forwarded allocations for which no slot was free */
  gp_section_place_t sections[GP_RECORD_SECTION_ROOM];
} gp_record_header_t;

static_assert(sizeof(gp_record_header_t) <= GP_RECORD_HEADER_BYTES, "one page");
static_assert(GP_SECTION_COUNT <= GP_RECORD_SECTION_ROOM, "each has a place");
/* Offsets that never change: readers of all builds use them to find out which build wrote the record. */
static_assert(offsetof(gp_record_header_t, byte_order) == 12, "for readers of other builds");
static_assert(offsetof(gp_record_header_t, layout_hash) == 16, "for readers of other builds");
static_assert(offsetof(gp_record_header_t, library_version) == 48, "for readers of other builds");

/* The maximum size of the section GP_SECTION_DESCRIPTION. It has room for a command line of 64 KiB and all
 * settings. */
#define GP_DESCRIPTION_BYTES (160 * 1024)

#define GP_THREADS_MAX       4096
#define GP_THREAD_NAME_BYTES 16

typedef struct gp_thread_entry {
  int32_t tid; /* the thread's id; 0: the entry stands for all threads that got no entry */
  char name[GP_THREAD_NAME_BYTES]; /* any bytes, NUL-terminated */
} gp_thread_entry_t;

/* The section GP_SECTION_THREADS. An entry is written before `count` includes it, and never changes after
 * that. */
typedef struct gp_thread_table {
  _Atomic uint32_t count;
  gp_thread_entry_t entries[GP_THREADS_MAX];
} gp_thread_table_t;

#define GP_HANDLES_MAX 4096

/* The section GP_SECTION_STREAMS: the driver's stream handles. An entry is written before `count` includes
 * it, and never changes after that. */
typedef struct gp_handle_table {
  _Atomic uint32_t count;
  uint32_t reserved;
  uint64_t handles[GP_HANDLES_MAX];
} gp_handle_table_t;

#endif
