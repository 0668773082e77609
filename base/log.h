/*
 * Messages to the user. Every line starts with "gpupool: [pid] " and goes to stderr or to the file named by
 * GPUPOOL_LOG, never to stdout, with one write(2). Characters that could control a terminal become '?'.
 * Nothing here allocates or takes a lock, so a message can be written at any point of an allocation. After
 * GP_LOG_MAX_WARNINGS warnings and errors, further ones are only counted. Safe from any thread.
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

/* Sets which messages are shown and where they go. fd is borrowed for the life of the process; -1 is
 * stderr. */
void gp_log_init(int verbose, int fd);

/* Returns the descriptor to which messages go. */
int gp_log_fd(void);

/* Returns true if a message of this level would be shown. Callers use it to avoid computing arguments. */
int gp_log_enabled(gp_log_level_t level);

void gp_log(gp_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gp_vlog(gp_log_level_t level, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
