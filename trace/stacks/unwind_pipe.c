#include "trace/stacks/unwind_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A size that a pipe has only on request: the usual sizes are 16, 2 and 1 pages. */
#define MARK_PAGES 4

static int ends[2] = {-1, -1}; /* written once, before any thread asks */
static int marked_bytes;

static bool is_one_pipe(const int *fds)
{
  struct stat first, second;
  return fstat(fds[0], &first) == 0 && fstat(fds[1], &second) == 0 && S_ISFIFO(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool gp_unwind_pipe_note(void (*open)(void *arg), void *arg)
{
  int fds[2]; /* the numbers that the next pipe will get */

  if (pipe2(fds, O_CLOEXEC) != 0)
    return false;
  (void)close(fds[0]); /* nothing was written */
  (void)close(fds[1]);
  open(arg);
  if (!is_one_pipe(fds))
    return false;
  marked_bytes = fcntl(fds[1], F_SETPIPE_SZ, (int)(MARK_PAGES * sysconf(_SC_PAGESIZE)));
  if (marked_bytes <= 0)
    return false;
  ends[0] = fds[0];
  ends[1] = fds[1];
  return true;
}

bool gp_unwind_pipe_is_whole(void)
{
  return fcntl(ends[0], F_GETPIPE_SZ) == marked_bytes && fcntl(ends[1], F_GETPIPE_SZ) == marked_bytes;
}
