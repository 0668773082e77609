/*
 * SIMCUDA_LOG: one line per call received. Two runs of a single-threaded program give the same text, so
 * values that vary (addresses of the program's own memory, handles) are written as "host" or as small
 * numbers.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sim_log_on;
static int log_fd = -1;

/* Expands %p to the process id. */
static void expand(const char *pattern, char *path, size_t room)
{
  size_t n = 0;
  for (const char *p = pattern; *p && n + 24 < room; p++) {
    if (p[0] == '%' && p[1] == 'p') {
      n += (size_t)snprintf(path + n, room - n, "%ld", (long)getpid());
      p++;
    } else {
      path[n++] = *p;
    }
  }
  path[n] = '\0';
}

void sim_log_open(void)
{
  if (!sim_knobs.log || !*sim_knobs.log)
    return;
  char path[4096];
  expand(sim_knobs.log, path, sizeof path);
  log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0)
    fprintf(stderr, "simcuda: SIMCUDA_LOG=%s cannot be opened: %m; no log is written\n", path);
  sim_log_on = log_fd >= 0;
}

/* Unbuffered, so that the log of a program that dies is complete. */
void sim_log_line(const char *text, size_t length)
{
  ssize_t written = write(log_fd, text, length);
  (void)written; /* a full disk must not disturb the program under test */
}

void sim_log_complain(const char *format, ...)
{
  static unsigned count;
  if (count++ >= 10)
    return;
  va_list args;
  va_start(args, format);
  fputs("simcuda: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
}

/* Results stay valid for the one log line they are made for. */
static char *slot(void)
{
  static char slots[16][40];
  static unsigned next;
  return slots[next++ % 16];
}

const char *sim_str_ptr(uint64_t address)
{
  if (!sim_log_on)
    return "";
  if (!address)
    return "0";
  if (!sim_arena_of(address))
    return "host";
  char *text = slot();
  snprintf(text, 40, "%llx", (unsigned long long)address);
  return text;
}

const char *sim_str_stream(CUstream stream)
{
  if (!sim_log_on)
    return "";
  char *text = slot();
  if ((uintptr_t)stream <= 2)
    snprintf(text, 40, "s%u", (unsigned)(uintptr_t)stream);
  else
    snprintf(text, 40, "s%llu", (unsigned long long)stream->number + 2);
  return text;
}

const char *sim_str_event(CUevent event)
{
  if (!sim_log_on)
    return "";
  char *text = slot();
  snprintf(text, 40, "e%llu", event ? (unsigned long long)event->number : 0);
  return text;
}

const char *sim_str_ctx(CUcontext ctx)
{
  if (!sim_log_on)
    return "";
  char *text = slot();
  snprintf(text, 40, "c%llu", ctx ? (unsigned long long)ctx->id : 0);
  return text;
}
