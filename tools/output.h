/*
 * The destination of a command's result, which is stdout or the file of -o, and its styles.
 */
#ifndef GP_TOOLS_OUTPUT_H
#define GP_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/size.h"
#include "tools/shorten.h"

#define GP_OUTPUT_COLUMNS 79 /* not 80, because some terminals wrap a line that is full */

typedef enum gp_style {
  GP_STYLE_PLAIN,
  GP_STYLE_HEADING,
  GP_STYLE_FAINT,
  GP_STYLE_GOOD,
  GP_STYLE_WARNING,
  GP_STYLE_ERROR,
} gp_style_t;

/* An output. Collects the result in memory, so that an error leaves no partial result. */
typedef struct gp_output {
  FILE *stream; /* the stream to write to */
  bool colour;
  bool utf8;        /* the terminal can draw characters beyond ASCII */
  bool has_failed;  /* memory ran out for a part, so gp_output_close prints an error and writes no result */
  size_t columns;   /* width of a line: the terminal's, or else GP_OUTPUT_COLUMNS */
  const char *path; /* NULL: stdout */
  bool force;
  char *text;
  size_t length;
} gp_output_t;

/*
 * Opens an output. `path` is borrowed; NULL or "-" means stdout. If the file exists, fails unless `force` is
 * true. Uses colour only on a terminal, unless `no_color` or NO_COLOR forbids it. Uses UTF-8 if the locale
 * (LC_CTYPE) does. Returns 0 or, after a message, the exit status.
 */
int gp_output_open(gp_output_t *output, const char *path, bool force, bool no_color);

/* Ends writing, and makes the text available as text[0..length). Replaces characters that could control a
 * terminal, except in the tool's styles. Nothing may be written afterwards. Returns false if memory runs
 * out. */
bool gp_output_settle(gp_output_t *output);

/* Replaces characters that could control a terminal, writes the text to its destination, and frees the
 * memory. Returns 0 or, after a message, the exit status. */
int gp_output_close(gp_output_t *output);

/* Frees the memory without writing the text. */
void gp_output_discard(gp_output_t *output);

/* Returns the escape sequence that starts a style, or "" if the output has no colour. GP_STYLE_PLAIN ends all
 * styles. The text is static. */
const char *gp_output_style(const gp_output_t *output, gp_style_t style);

/* Writes `text` in lines of at most GP_OUTPUT_COLUMNS. If the last opened output goes to a narrower terminal,
 * the limit is that terminal's width. `first` starts the first line, `rest` each later line. */
void gp_output_wrap(FILE *stream, const char *first, const char *rest, const char *text);

/* Formats a text, and writes it in wrapped lines that each start with `indent`. */
void gp_output_say(gp_output_t *output, const char *indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a line in the heading style. Writes an empty line before it, unless it is the first line. */
void gp_output_heading(gp_output_t *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A text that is composed of parts. Parts that do not fit are truncated. A zeroed struct is an empty text. */
typedef struct gp_sentence {
  char text[1536];
  size_t used;
} gp_sentence_t;

void gp_sentence_add(gp_sentence_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return the number of columns of `text`, or of its first `length` bytes. Count one column per character,
 * because wide characters are rare in the tool's output. */
size_t gp_text_columns(const char *text);
size_t gp_columns_of(const char *text, size_t length);

/* Writes all of `text` to `fd`. If a signal interrupts a write, continues. Returns 0 or an errno. */
int gp_write_all(int fd, const char *text, size_t length);

/* Format numbers for people. Each function returns `buffer`, which must have at least GP_NUMBER_BYTES. */
#define GP_NUMBER_BYTES 40
char *gp_number_count(uint64_t count, char *buffer);          /* "8,255" */
char *gp_number_duration(uint64_t duration_ns, char *buffer); /* "1.23 ms", "3 min 4 s" */
char *gp_number_percent(double ratio, char *buffer);          /* 0..1: "99.2%"; 0%, 100% only if exact */
char *gp_number_plural(uint64_t count, const char *noun, char *buffer); /* "1 block", "8,255 blocks" */

/* Format into a temporary buffer that lives until the end of the enclosing block, for use as function
 * arguments. GP_AS_SIZE calls gp_size_format; the other macros call the functions above. */
#define GP_AS_SIZE(bytes)         gp_size_format(bytes, (char[GP_SIZE_TEXT_BYTES]){0})
#define GP_AS_COUNT(count)        gp_number_count(count, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_DURATION(ns)        gp_number_duration(ns, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_PERCENT(ratio)      gp_number_percent(ratio, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_PLURAL(count, noun) gp_number_plural(count, noun, (char[GP_NUMBER_BYTES]){0})

#endif
