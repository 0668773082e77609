/*
 * Reads a file with settings: lines NAME=VALUE, empty lines, and comments after #. As in a shell, the value
 * may be quoted and the line may start with "export". The prefix GPUPOOL_ is optional. The text is in a
 * static buffer, so only one thread at a time may use these functions. Allocates nothing.
 */
#ifndef GP_BASE_SETTINGS_TEXT_H
#define GP_BASE_SETTINGS_TEXT_H

#include "base/options.h"

#define GP_SETTINGS_BYTES 65536 /* size of the longest file */

typedef struct gp_settings_text {
  const char *title;  /* start of each message, which specifies the file */
  const char *effect; /* end of each message about unreadable text, which states the consequence */
  gp_option_problem_fn problem;
  void *problem_arg;
  int problems;     /* number of malformed values so far */
  int unreadable;   /* the part of `problems` that are unreadable lines or files */
  int line;         /* number of the current line, from 1; 0: the whole file */
  const char *rest; /* text that gp_settings_text_next has not read yet */
} gp_settings_text_t;

/* Reports a problem. The file and the line precede the text. */
void gp_settings_text_report(gp_settings_text_t *text, bool malformed, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports a problem with a value. This is a gp_option_problem_fn; `arg` is a gp_settings_text_t. */
void gp_settings_text_report_value(void *arg, bool malformed, const char *message);

/* Reports an unreadable line or file, and appends `effect` to the message. */
void gp_settings_text_report_unreadable(gp_settings_text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads the regular file open at fd, up to most_bytes long, and closes fd. Reports any problem and returns
 * false. */
bool gp_settings_text_read(gp_settings_text_t *text, int fd, size_t most_bytes);

/* Makes gp_settings_text_next start again with the first line. */
void gp_settings_text_rewind(gp_settings_text_t *text);

/* Reads the next setting. *ret_name gets the name without GPUPOOL_, *ret_value the value without blanks or
 * quotes around it; both are valid until the next call. Reports lines that are not settings. Returns false at
 * the end. */
bool gp_settings_text_next(gp_settings_text_t *text, const char **ret_name, const char **ret_value);

#endif
