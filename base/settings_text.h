/*
 * A file with settings: lines NAME=VALUE, empty lines, and comments after #. As in a shell, the value may be
 * quoted and the line may start with "export". The prefix GPUPOOL_ is optional. The file is read into a
 * static buffer: one thread at a time. Allocates nothing.
 */
#ifndef GP_BASE_SETTINGS_TEXT_H
#define GP_BASE_SETTINGS_TEXT_H

#include "base/options.h"

#define GP_SETTINGS_BYTES 65536 /* of the longest file */

typedef struct gp_settings_text {
  const char *title;  /* begins each message: which file it is */
  const char *effect; /* ends each message about text that cannot be read: what this leads to */
  gp_option_problem_fn problem;
  void *problem_arg;
  int problems;     /* malformed ones so far */
  int unreadable;   /* of these, lines or files that cannot be read */
  int line;         /* the current one, from 1; 0: the file as a whole */
  const char *rest; /* what gp_settings_text_next has not read yet */
} gp_settings_text_t;

/* Reports a problem, with the file and the line before the text. */
void gp_settings_text_report(gp_settings_text_t *text, bool malformed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for values, as a gp_option_problem_fn: arg is a gp_settings_text_t. */
void gp_settings_text_report_value(void *arg, bool malformed, const char *message);

/* The same for a line or a file that cannot be read: appends the effect. */
void gp_settings_text_report_unreadable(gp_settings_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the regular file open at fd, of up to most_bytes, and closes fd. False: a problem, which was
 * reported. */
bool gp_settings_text_read(gp_settings_text_t *text, int fd, size_t most_bytes);

/* Goes back to the first line. */
void gp_settings_text_rewind(gp_settings_text_t *text);

/* The next setting: *ret_name without GPUPOOL_, *ret_value without blanks or quotes around it; both live
 * until the next call. Reports lines that are none. False: the end. */
bool gp_settings_text_next(gp_settings_text_t *text, const char **ret_name, const char **ret_value);

#endif
