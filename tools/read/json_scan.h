/*
 * A pull tokenizer for JSON that copies nothing, for documents too large for a tree. Only a window of an
 * input (input.h) is in memory. Accepts exactly RFC 8259 with UTF-8 strings, nested at most
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
#define GP_JSON_SCAN_DIGITS 40 /* most characters of one number; a longer one is an error */

/* The largest integer that a snapshot may contain. */
#define GP_JSON_SCAN_INTEGER_MAX ((INT64_C(1) << 53) - 1)

typedef struct gp_json_scan {
  gp_input_t *input; /* borrowed; NULL: the whole text is in memory */
  const char *text;  /* the window, borrowed, followed by a NUL */
  size_t base;       /* offset of the window's first byte in the whole text */
  size_t length;     /* offset of the window's end in the whole text */
  size_t at;
  size_t keep; /* the window keeps the input from this offset on, so that it can be read again; SIZE_MAX:
                  nothing */
  unsigned depth;
  uint64_t is_first; /* bit i: at depth i nothing has been read yet after the opening bracket */
  const char *error; /* a static clause that describes the error at error_at; NULL: no error */
  size_t error_at;
} gp_json_scan_t;

/* A part of the text, valid until the next call except gp_json_scan_peek(). The slice of a string has no
 * quotes, and its escapes are not resolved. */
typedef struct gp_json_slice {
  const char *text;
  size_t length;
} gp_json_slice_t;

/* Returns the length in bytes of the UTF-8 character at p, or 0 if it is not valid UTF-8. The NUL that ends
 * the text is safe, because it cannot continue a character. */
size_t gp_json_utf8_length(const unsigned char *p);

bool gp_json_slice_is(gp_json_slice_t slice, const char *text);

/* Starts a scan of text[0..length), which is borrowed; text[length] must be NUL. */
void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length);

/* Starts a scan of an input. The window must start at the beginning of the input. */
void gp_json_scan_init_input(gp_json_scan_t *scan, gp_input_t *input);

/* Records an error at `at`, unless an error is recorded already. error is a static string. Returns false. */
bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error);

/* Skips blanks and returns the first character of the next value, or '\0' at the end or after an error. */
char gp_json_scan_peek(gp_json_scan_t *scan);

/* Enters an object ('{') or array ('['); anything else is an error. */
bool gp_json_scan_begin(gp_json_scan_t *scan, char bracket);

/* Goes to the next element of the array. Returns false after an error, or at the end of the array, when its
 * bracket has been read. */
bool gp_json_scan_element(gp_json_scan_t *scan);

/* Goes to the next member of the object and reads its name. Returns false at the end or after an error. */
bool gp_json_scan_member(gp_json_scan_t *scan, gp_json_slice_t *ret_name);

/* Reads a string. */
bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string);

/* Reads an integer from -GP_JSON_SCAN_INTEGER_MAX to GP_JSON_SCAN_INTEGER_MAX. */
bool gp_json_scan_integer(gp_json_scan_t *scan, int64_t *ret_number);

/* Skips a value of any kind, but checks its syntax. */
bool gp_json_scan_skip(gp_json_scan_t *scan);

/* Like gp_json_scan_skip, and sets *ret_text to the text of the value. */
bool gp_json_scan_value(gp_json_scan_t *scan, gp_json_slice_t *ret_text);

/* Returns true if only blanks are left; anything else is an error. */
bool gp_json_scan_end(gp_json_scan_t *scan);

/* Reads up to room elements of an array of integers that gp_json_scan_begin() entered. If it reads fewer than
 * room, the array has ended, and its bracket has been read. */
bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count);

#endif
