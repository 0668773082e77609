/*
 * Where a command's result goes, stdout or the file of -o, and how it looks there.
 */
#ifndef GP_TOOLS_OUTPUT_H
#define GP_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/size.h"
#include "tools/shorten.h"

#define GP_OUTPUT_COLUMNS 79 /* of 80: some terminals wrap a full line */

typedef enum gp_style {
  GP_STYLE_PLAIN,
  GP_STYLE_HEADING,
  GP_STYLE_FAINT,
  GP_STYLE_GOOD,
  GP_STYLE_WARNING,
  GP_STYLE_ERROR,
} gp_style_t;

/* Collects the result in memory first, so that an error leaves no half of it behind. */
typedef struct gp_output {
  FILE *stream; /* write here */
  bool colour;
  bool utf8;        /* characters beyond ASCII can be drawn */
  bool has_failed;  /* a part is missing for want of memory: gp_output_close says so and writes nothing */
  size_t columns;   /* width of a line: the terminal's, else GP_OUTPUT_COLUMNS */
  const char *path; /* NULL: stdout */
  bool force;
  char *text;
  size_t length;
} gp_output_t;

/*
 * path: NULL or "-" for stdout; borrowed. Refuses an existing file unless force. Uses colour on a terminal
 * only, unless no_color or NO_COLOR forbids it, and UTF-8 if the locale (LC_CTYPE) has it. Returns 0 or,
 * after a message, the exit status.
 */
int gp_output_open(gp_output_t *output, const char *path, bool force, bool no_color);

/* Moves the text written so far to text[0..length) and makes it fit for a terminal: replaces what could
 * steer one, except our styles. Nothing may be written afterwards. False: no memory. */
bool gp_output_settle(gp_output_t *output);

/* Writes everything out, with what could steer a terminal replaced, and frees the memory. Returns 0 or,
 * after a message, the exit status. */
int gp_output_close(gp_output_t *output);

/* Frees the memory and writes nothing. */
void gp_output_discard(gp_output_t *output);

/* The escape sequence that begins a style; "" without colour. GP_STYLE_PLAIN ends all styles. Static. */
const char *gp_output_style(const gp_output_t *output, gp_style_t style);

/* Writes text in lines of at most GP_OUTPUT_COLUMNS, or of the terminal's width if the last output opened
 * is a narrower one. `first` begins the first line, `rest` each later line. */
void gp_output_wrap(FILE *stream, const char *first, const char *rest, const char *text);

/* Formats text, and writes it in lines that all begin with indent. */
void gp_output_say(gp_output_t *output, const char *indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a line in the style of headings, below an empty line if it is not the first. */
void gp_output_heading(gp_output_t *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A text that is composed of parts; what does not fit is cut. A zeroed one is empty. */
typedef struct gp_sentence {
  char text[1536];
  size_t used;
} gp_sentence_t;

void gp_sentence_add(gp_sentence_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number of columns that text takes, or that its first `length` bytes take. Counts each character as one:
 * wide ones are rare in our output. */
size_t gp_text_columns(const char *text);
size_t gp_columns_of(const char *text, size_t length);

/* Writes it all to fd, whatever signals come. Returns 0 or errno. */
int gp_write_all(int fd, const char *text, size_t length);

/* Format numbers for people. Each returns buffer, which holds at least GP_NUMBER_BYTES. */
#define GP_NUMBER_BYTES 40
char *gp_number_count(uint64_t count, char *buffer);          /* "8,255" */
char *gp_number_duration(uint64_t duration_ns, char *buffer); /* "1.23 ms", "3 min 4 s" */
char *gp_number_percent(double ratio, char *buffer);          /* 0..1: "99.2%", never rounded to 0%, 100% */
char *gp_number_plural(uint64_t count, const char *noun, char *buffer); /* "1 block", "8,255 blocks" */

/* The same, and gp_size_format, for an argument of a call: the text has no name, and is there to the end of
 * the block. */
#define GP_AS_SIZE(bytes)         gp_size_format(bytes, (char[GP_SIZE_TEXT_BYTES]){0})
#define GP_AS_COUNT(count)        gp_number_count(count, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_DURATION(ns)        gp_number_duration(ns, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_PERCENT(ratio)      gp_number_percent(ratio, (char[GP_NUMBER_BYTES]){0})
#define GP_AS_PLURAL(count, noun) gp_number_plural(count, noun, (char[GP_NUMBER_BYTES]){0})

#endif
