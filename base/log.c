#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"

#include "base/cancel.h"

static atomic_int log_verbose;
static atomic_int log_fd = -1;
static atomic_int warnings_shown;

void gp_log_init(int verbose, int fd)
{
  atomic_store(&log_verbose, verbose);
  atomic_store(&log_fd, fd);
}

int gp_log_fd(void)
{
  int fd = atomic_load(&log_fd);
  return fd < 0 ? STDERR_FILENO : fd;
}

int gp_log_enabled(gp_log_level_t level)
{
  return (int)level <= atomic_load_explicit(&log_verbose, memory_order_relaxed);
}

static void write_all(const char *text, size_t length)
{
  int fd = gp_log_fd();
  while (length > 0) {
    ssize_t written = write(fd, text, length);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return; /* gives up: a closed or full stderr must not disturb the program */
    text += written;
    length -= (size_t)written;
  }
}

/* Writes the text. If it goes to a pipe without a reader, the program must not end, so the function blocks
 * and discards the SIGPIPE of the write. */
static void write_without_signal(const char *text, size_t length)
{
  sigset_t pipe_only, mask, pending;
  const struct timespec no_time = {0};

  (void)sigemptyset(&pipe_only); /* these four calls cannot fail */
  (void)sigaddset(&pipe_only, SIGPIPE);
  (void)sigpending(&pending);
  (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &mask);
  write_all(text, length);
  if (sigismember(&pending, SIGPIPE) != 1)
    (void)sigtimedwait(&pipe_only, NULL, &no_time); /* usually no signal is pending */
  (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void gp_vlog(gp_log_level_t level, const char *format, va_list arguments)
{
  char text[GP_LOG_LINE_BYTES];
  int saved_errno = errno;
  const char *last = "";

  if (!gp_log_enabled(level))
    return;
  if (level == GP_LOG_ERROR) {
    int shown = atomic_fetch_add(&warnings_shown, 1);
    if (shown >= GP_LOG_MAX_WARNINGS)
      return;
    if (shown == GP_LOG_MAX_WARNINGS - 1)
      last = " (further messages of this kind are not shown)";
  }
  int prefix = snprintf(text, sizeof(text), "gpupool: [%d] ", (int)getpid());
  int body = vsnprintf(text + prefix, sizeof(text) - (size_t)prefix, format, arguments);
  if (body < 0 || prefix + body >= (int)sizeof(text))
    body = (int)sizeof(text) - 1 - prefix;
  /* Settings, paths and program names may contain any bytes. A message must be one line and must not control
   * a terminal. */
  int length = prefix + (int)gp_printable_in_place(text + prefix, (size_t)body);
  int room = (int)sizeof(text) - 1 - (int)strlen(last) - 1;
  if (length > room)
    length = room;
  length += snprintf(text + length, sizeof(text) - (size_t)length, "%s\n", last);
  int cancel_state = gp_cancel_hold(); /* callers hold locks, and write(2) is a cancellation point */
  write_without_signal(text, (size_t)length);
  gp_cancel_restore(cancel_state);
  errno = saved_errno;
}

void gp_log(gp_log_level_t level, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  gp_vlog(level, format, arguments);
  va_end(arguments);
}
