/*
 * Messages to the user. Every line starts with "gpupool: [pid] " and is written with one write(2) to stderr
 * or to the file that GPUPOOL_LOG specifies, never to stdout. Characters that could control a terminal become
 * '?'. Nothing here allocates or takes a lock, so code can write a message at any point of an allocation.
 * After GP_LOG_MAX_WARNINGS warnings and errors, further ones are only counted. Thread-safe.
 */
#ifndef GP_BASE_LOG_H
#define GP_BASE_LOG_H

#include <stdarg.h>

#define GP_LOG_MAX_WARNINGS 64
#define GP_LOG_LINE_BYTES   1024 /* longer lines are truncated */

typedef enum gp_log_level {
  GP_LOG_REPORT = -1, /* output that the user requested: always shown, never counted */
  GP_LOG_ERROR = 0,   /* always shown: bad settings, out of memory, pooling stopped */
  GP_LOG_INFO = 1,    /* GPUPOOL_VERBOSE=1: effective options, notable events */
  GP_LOG_DEBUG = 2,   /* GPUPOOL_VERBOSE=2 */
} gp_log_level_t;

/* Sets the verbosity, and the descriptor to which messages go. fd is borrowed for the life of the process; -1
 * means stderr. */
void gp_log_init(int verbose, int fd);

/* Returns the descriptor to which messages go. */
int gp_log_fd(void);

/* Returns nonzero if a message of this level would be shown. Callers use it to avoid computing unused
 * arguments. */
int gp_log_enabled(gp_log_level_t level);

void gp_log(gp_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gp_vlog(gp_log_level_t level, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
