/*
 * The section GP_SECTION_MARKS: the program's marks from gpupool.h and NVTX. A mark is a single moment, the
 * begin or end of a scope, or the begin or end of a range of a thread.
 */
#ifndef GP_FORMAT_MARKS_H
#define GP_FORMAT_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GP_MARKS_MAX       32768 /* number of marks kept; older ones are overwritten */
#define GP_MARK_NAME_BYTES 72    /* longer names are truncated */

typedef enum gp_mark_kind {
  GP_MARK_MOMENT,
  GP_MARK_BEGIN, /* begin of a scope; scopes apply to the whole process */
  GP_MARK_END,
  GP_MARK_PUSH, /* the thread enters a range; ranges may be nested */
  GP_MARK_POP,  /* the thread leaves the innermost range */
  GP_MARK_KIND_COUNT
} gp_mark_kind_t;

/* Returns the kind's name in the snapshot; never NULL for a valid enumerator. */
const char *gp_mark_kind_name(gp_mark_kind_t kind);

/* Finds the kind with that name. Returns false if there is none. Thread-safe. */
bool gp_mark_kind_find(const char *name, gp_mark_kind_t *ret_kind);

typedef struct gp_mark_record {
  uint64_t time_ns; /* time on the engine's clock */
  uint64_t scope;   /* number of the scope, from 1; 0: none */
  uint16_t thread;  /* index of the thread */
  uint8_t kind;     /* gp_mark_kind_t */
  int8_t device;    /* -1: none */
  uint32_t reserved;
  char name[GP_MARK_NAME_BYTES]; /* any bytes, NUL-terminated */
} gp_mark_record_t;

/* The table of marks. Mark n, counted from 0, is in entry n % GP_MARKS_MAX until it is overwritten. A writer
 * stores a mark before it increments `count`. */
typedef struct gp_mark_table {
  _Atomic uint64_t count; /* number of all marks so far */
  gp_mark_record_t entries[GP_MARKS_MAX];
} gp_mark_table_t;

#endif
