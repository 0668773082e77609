/*
 * Reads tables of comma-separated text that begin with a heading.
 */
#ifndef GP_TOOLS_READ_LOGS_ROWS_H
#define GP_TOOLS_READ_LOGS_ROWS_H

#include "tools/read/input.h"

#include <stdint.h>

#define GP_ROW_FIELDS      6
#define GP_ROW_NUMBER_MOST ((UINT64_C(1) << 53) - 1) /* largest size */

/* A field of a row. `text` does not end with a NUL. */
typedef struct gp_field {
  const char *text;
  size_t length;
} gp_field_t;

/* Returns true if the first line of the input is `heading`. Reads no more of the input than needed. */
bool gp_rows_have_heading(gp_input_t *input, const char *heading);

bool gp_field_is(gp_field_t field, const char *text);

/* Reads a decimal number, or a hexadecimal number with 0x, from 0 to `most`. Returns false otherwise. */
bool gp_field_number(gp_field_t field, uint64_t most, uint64_t *ret_number);

/* Processes a row of `count` fields. `count` is GP_ROW_FIELDS + 1 if the row has too many. Returns NULL, or a
 * description of the error. */
typedef const char *(*gp_row_take_fn)(void *self, const gp_field_t *fields, int count);

/* Calls `take` for each row of text[0..length) after the heading. With `may_be_cut`, ignores an error in a
 * last row without a newline, because the program may have been killed while writing it. Returns NULL, or a
 * description of the error with the line number in *ret_line. */
const char *gp_rows_read(
    const char *text, size_t length, bool may_be_cut, gp_row_take_fn take, void *self, size_t *ret_line);

/* A row of the log of RMM's logging_resource_adaptor (rmm/mr/logging_resource_adaptor.hpp). */

#define GP_RMM_HEADING "Thread,Time,Action,Pointer,Size,Stream"

typedef enum gp_rmm_action {
  GP_RMM_ALLOCATE,
  GP_RMM_FAILURE,
  GP_RMM_FREE,
} gp_rmm_action_t;

typedef struct gp_rmm_row {
  uint64_t pointer;
  uint64_t size;
  uint64_t time_us; /* time of day, or time since 1970 */
  gp_rmm_action_t action;
} gp_rmm_row_t;

/* Reads a row of RMM's log. Returns NULL, or a description of the error. */
const char *gp_rmm_row(const gp_field_t *fields, int count, gp_rmm_row_t *ret_row);

#endif
