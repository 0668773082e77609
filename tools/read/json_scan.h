/*
 * A pull tokenizer for JSON that copies nothing, for documents too large for a tree. Of an input (input.h)
 * only a window is in memory. Accepts exactly RFC 8259 with UTF-8 strings, nested at most
 * GP_JSON_SCAN_DEPTH deep.
 *
 * After an error every call fails and `at` stays, so that one check at the end suffices. All positions
 * are offsets in the whole text.
 */
#ifndef GP_TOOLS_READ_JSON_SCAN_H
#define GP_TOOLS_READ_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/input.h"

#define GP_JSON_SCAN_DEPTH  64
#define GP_JSON_SCAN_DIGITS 40 /* of one number; longer ones are errors */

/* The largest integer that a snapshot may hold. */
#define GP_JSON_SCAN_INTEGER_MAX ((INT64_C(1) << 53) - 1)

typedef struct gp_json_scan {
  gp_input_t *input; /* borrowed; NULL: the whole text is in memory */
  const char *text;  /* the window, borrowed, followed by a NUL */
  size_t base;       /* offset of the window's begin, */
  size_t length;     /* and of its end */
  size_t at;
  size_t keep; /* the window keeps the input from this offset on, to read it again; SIZE_MAX: none */
  unsigned depth;
  uint64_t is_first; /* a bit by depth: nothing has been read after the bracket */
  const char *error; /* what is wrong at error_at, a static clause; NULL: no error */
  size_t error_at;
} gp_json_scan_t;

/* A part of the text, valid until the next call except gp_json_scan_peek(). A string comes without
 * its quotes and with its escapes. */
typedef struct gp_json_slice {
  const char *text;
  size_t length;
} gp_json_slice_t;

/* The bytes of the UTF-8 character at p; 0: none. Text ends with a NUL,
 * which cannot continue a character. */
size_t gp_json_utf8_length(const unsigned char *p);

bool gp_json_slice_is(gp_json_slice_t slice, const char *text);

/* Scans text[0..length), borrowed; text[length] is NUL. */
void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length);

/* Scans an input from the beginning of its window, which must be the input's beginning. */
void gp_json_scan_init_input(gp_json_scan_t *scan, gp_input_t *input);

/* Notes an error at `at`, unless there is one already. error is static. Returns false. */
bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error);

/* The first character of the next value, '\0' at the end of the text or after an error. Skips blanks. */
char gp_json_scan_peek(gp_json_scan_t *scan);

/* Enters an object ('{') or array ('['); anything else is an error. */
bool gp_json_scan_begin(gp_json_scan_t *scan, char bracket);

/* Goes to the next element of the array. False after an error, or at the array's end, after its bracket. */
bool gp_json_scan_element(gp_json_scan_t *scan);

/* Goes to the next member of the object and past its name; false at its end or after an error. */
bool gp_json_scan_member(gp_json_scan_t *scan, gp_json_slice_t *ret_name);

/* Reads a string. */
bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string);

/* Reads an integer of at most GP_JSON_SCAN_INTEGER_MAX either way. */
bool gp_json_scan_integer(gp_json_scan_t *scan, int64_t *ret_number);

/* Skips a value of any kind and checks it. */
bool gp_json_scan_skip(gp_json_scan_t *scan);

/* Like gp_json_scan_skip; *ret_text is the value's text. */
bool gp_json_scan_value(gp_json_scan_t *scan, gp_json_slice_t *ret_text);

/* True if only blanks are left, else an error. */
bool gp_json_scan_end(gp_json_scan_t *scan);

/* Reads the next elements, at most room, of an array of integers that gp_json_scan_begin() entered. Fewer
 * than room: the array has ended, and its bracket is read. */
bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count);

#endif
