/*
 * A pull tokenizer for JSON that copies nothing, for documents too large for a tree. Keeps only a window of
 * the input (input.h) in memory. Accepts exactly RFC 8259 with UTF-8 strings, nested at most
 * GP_JSON_SCAN_DEPTH deep.
 *
 * After an error every call fails and `at` no longer changes, so the caller needs only one check at the end.
 * All positions are offsets in the whole text.
 */
#ifndef GP_TOOLS_READ_JSON_SCAN_H
#define GP_TOOLS_READ_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/input.h"

#define GP_JSON_SCAN_DEPTH  64
#define GP_JSON_SCAN_DIGITS 40 /* maximum length of a number; longer ones are errors */

/* The largest integer that a snapshot may contain. */
#define GP_JSON_SCAN_INTEGER_MAX ((INT64_C(1) << 53) - 1)

typedef struct gp_json_scan {
  gp_input_t *input; /* borrowed; NULL: the whole text is in memory */
  const char *text;  /* the window, which is borrowed and ends with a NUL */
  size_t base;       /* offset of the window's first byte in the whole text */
  size_t length;     /* offset of the window's end in the whole text */
  size_t at;
  /* The window keeps the input from this offset on, so that it can be read again. SIZE_MAX: keeps nothing. */
  size_t keep;
  unsigned depth;
  uint64_t is_first; /* bit i: nothing was read yet after the opening bracket at depth i */
  const char *error; /* static clause that describes the error at error_at; NULL: no error */
  size_t error_at;
} gp_json_scan_t;

/* A part of the text, valid until the next call of any function except gp_json_scan_peek(). The slice of a
 * string excludes the quotes, and still contains escapes. */
typedef struct gp_json_slice {
  const char *text;
  size_t length;
} gp_json_slice_t;

/* Returns the length in bytes of the UTF-8 character at `p`, or 0 if it is not valid UTF-8. Does not read
 * past the NUL that ends the text, because NUL cannot continue a character. */
size_t gp_json_utf8_length(const unsigned char *p);

bool gp_json_slice_is(gp_json_slice_t slice, const char *text);

/* Starts a scan of text[0..length). Borrows `text`; text[length] must be NUL. */
void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length);

/* Starts a scan of an input. The window must begin with the input's first byte. */
void gp_json_scan_init_input(gp_json_scan_t *scan, gp_input_t *input);

/* Records an error at the offset `at`, unless one is recorded. `error` is a static string. Returns false. */
bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error);

/* Skips blanks and returns the first character of the next value, or '\0' at the end or after an error. */
char gp_json_scan_peek(gp_json_scan_t *scan);

/* Enters an object ('{') or array ('['); anything else is an error. */
bool gp_json_scan_begin(gp_json_scan_t *scan, char bracket);

/* Advances to the next element of the array. Returns false after an error, or at the end of the array, after
 * reading the closing bracket. */
bool gp_json_scan_element(gp_json_scan_t *scan);

/* Advances to the next member of the object and reads its name. Returns false at the end or on an error. */
bool gp_json_scan_member(gp_json_scan_t *scan, gp_json_slice_t *ret_name);

/* Reads a string. */
bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string);

/* Reads an integer from -GP_JSON_SCAN_INTEGER_MAX to GP_JSON_SCAN_INTEGER_MAX. */
bool gp_json_scan_integer(gp_json_scan_t *scan, int64_t *ret_number);

/* Skips a value of any kind and checks its syntax. */
bool gp_json_scan_skip(gp_json_scan_t *scan);

/* Like gp_json_scan_skip, and sets *ret_text to the text of the value. */
bool gp_json_scan_value(gp_json_scan_t *scan, gp_json_slice_t *ret_text);

/* Returns true if only blanks are left; anything else is an error. */
bool gp_json_scan_end(gp_json_scan_t *scan);

/* Reads up to `room` integers of an array that gp_json_scan_begin() entered. *ret_count is below `room` if
 * the array has ended, in which case its bracket has been read. */
bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count);

#endif
