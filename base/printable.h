/*
 * Makes text from any source safe for a terminal. Only this file decides which characters could control a
 * terminal or mislead a reader: control characters (C0, DEL, and C1 in UTF-8), bytes that are not UTF-8, and
 * format characters that change the text's direction or have no width. All functions are pure and
 * thread-safe.
 */
#ifndef GP_BASE_PRINTABLE_H
#define GP_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One character of a text. */
typedef struct gp_character {
  uint32_t code;     /* Unicode code point; if is_malformed, the byte itself */
  uint8_t length;    /* length in bytes, at least 1 */
  bool is_malformed; /* not valid UTF-8: overlong, surrogate, above U+10FFFF, or truncated */
  bool is_unsafe;    /* must be replaced or escaped; includes malformed bytes, line ends and tabs */
} gp_character_t;

/* Returns the first character of text[0..length). `length` must be at least 1. */
gp_character_t gp_character_at(const char *text, size_t length);

/* Replaces each unsafe character of text[0..length) by one '?', and returns the new length. Writes no NUL. */
size_t gp_printable_in_place(char *text, size_t length);

#endif
