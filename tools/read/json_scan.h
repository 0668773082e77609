/*
 * A pull tokenizer for JSON that copies nothing, for documents that are too large for a tree, and for memory:
 * of an input (input.h) only a window is there. It accepts exactly RFC 8259 (strings are checked to be
 * UTF-8), nested at most GP_JSON_SCAN_DEPTH deep.
 *
 * After an error every call fails and `at` stays, so that errors have to be looked at only once. All places
 * are offsets in the whole text.
 */
#ifndef GP_TOOLS_READ_JSON_SCAN_H
#define GP_TOOLS_READ_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/read/input.h"

#define GP_JSON_SCAN_DEPTH  64
#define GP_JSON_SCAN_DIGITS 40 /* of one number; longer ones are refused */

/* The largest integer that a snapshot holds. */
#define GP_JSON_SCAN_INTEGER_MAX ((INT64_C(1) << 53) - 1)

typedef struct gp_json_scan {
  gp_input_t *input; /* borrowed; NULL: the text is all in memory */
  const char *text;  /* the window, borrowed, with a NUL behind it */
  size_t base;       /* where it begins, */
  size_t length;     /* and ends */
  size_t at;
  size_t keep; /* the window goes no further than here: the input from here on is looked at again; SIZE_MAX:
                  nothing is */
  unsigned depth;
  uint64_t is_first; /* a bit by depth: nothing was read since the bracket */
  const char *error; /* what is wrong at error_at, a static clause; NULL: nothing */
  size_t error_at;
} gp_json_scan_t;

/* Part of the text, there until the next call but gp_json_scan_peek(). A string without its quotes and with
 * its escapes as they stand. */
typedef struct gp_json_slice {
  const char *text;
  size_t length;
} gp_json_slice_t;

/* The bytes of the UTF-8 character at p, 0 if it is none. Text ends with a NUL, which is no continuation. */
size_t gp_json_utf8_length(const unsigned char *p);

bool gp_json_slice_is(gp_json_slice_t slice, const char *text);

/* Of text[0..length), which is borrowed; text[length] is NUL. */
void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length);

/* Of an input, from the beginning of its window, which has to be that of the input. */
void gp_json_scan_init_input(gp_json_scan_t *scan, gp_input_t *input);

/* Notes an error at `at`, unless there is one already. error is static. Returns false. */
bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error);

/* The first character of the next value, '\0' at the end of the text or after an error. Skips blanks. */
char gp_json_scan_peek(gp_json_scan_t *scan);

/* Goes into an object ('{') or array ('['); anything else is an error. */
bool gp_json_scan_begin(gp_json_scan_t *scan, char bracket);

/* Goes to the next element of the array; false at its end (the bracket is then read) or after an error. */
bool gp_json_scan_element(gp_json_scan_t *scan);

/* Goes to the next member of the object and past its name; false at its end or after an error. */
bool gp_json_scan_member(gp_json_scan_t *scan, gp_json_slice_t *ret_name);

/* Reads a string. */
bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string);

/* Reads an integer of at most GP_JSON_SCAN_INTEGER_MAX either way. */
bool gp_json_scan_integer(gp_json_scan_t *scan, int64_t *ret_number);

/* Reads past a value of any kind and checks it. */
bool gp_json_scan_skip(gp_json_scan_t *scan);

/* The same; *ret_text is what it read. */
bool gp_json_scan_value(gp_json_scan_t *scan, gp_json_slice_t *ret_text);

/* True if nothing but blanks is left, else an error. */
bool gp_json_scan_end(gp_json_scan_t *scan);

/*
 * Reads the next elements of an array of integers, which gp_json_scan_begin() went into, room at most. Fewer
 * than that: the array has ended, and its bracket is read.
 */
bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count);

#endif
