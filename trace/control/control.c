#include "trace/control/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/control_path.h"
#include "base/lock.h"
#include "base/log.h"
#include "trace/control/control_request.h"
#include "trace/control/control_server.h"
#include "trace/control/control_socket.h"
#include "trace/control/helper_thread.h"
#include "base/pages.h"

#define START_SECONDS       5
#define STOP_SECONDS        5
#define ANSWER_SECONDS      1 /* for which a client may leave its answer unread */
#define ANSWER_BUFFER_BYTES (64 * 1024)

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

typedef struct control {
  gp_control_target_t target;
  pid_t pid;
  sem_t ready;                      /* posted once the socket is there, or never will be */
  gp_lock_t serving;                /* the thread that works on a request holds it */
  bool stopped;                     /* under serving */
  char path[GP_CONTROL_PATH_BYTES]; /* "": there is no socket; set before ready */
  gp_control_server_t server;
  char answer[ANSWER_BUFFER_BYTES];
} control_t;

static control_t *_Atomic the_control; /* one in a process */

/* Closes all of this thread's descriptors from 3 on, but one. */
static bool close_others(int kept)
{
  DIR *listing = opendir("/proc/thread-self/fd");
  if (!listing)
    return false;
  for (const struct dirent *entry; (entry = readdir(listing));) {
    int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO && fd != kept && fd != dirfd(listing))
      (void)close(fd); /* the program still has it */
  }
  (void)closedir(listing); /* opened for reading only */
  return true;
}

/*
 * Gives this thread its own table of open files, with none of the program's but the file for messages.
 * Files that the program closes must really be closed, or the reader of a pipe waits for the end for ever.
 */
static bool own_files(void)
{
  const unsigned kept = (unsigned)gp_log_fd();
  bool alone = kept > STDERR_FILENO + 1
                   ? syscall(SYS_close_range, STDERR_FILENO + 1, kept - 1, CLOSE_RANGE_UNSHARE) == 0 &&
                         syscall(SYS_close_range, kept + 1, ~0u, 0) == 0
                   : syscall(SYS_close_range, kept + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0;
  if (!alone && (unshare(CLONE_FILES) != 0 || !close_others((int)kept)))
    return false;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0)
    return false;
  (void)dup2(null, STDIN_FILENO); /* valid: the file is open */
  (void)dup2(null, STDOUT_FILENO);
  if (null > STDERR_FILENO)
    (void)close(null);
  return true;
}

static uint64_t now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The caller holds `serving`, so the end of the process waits for the answer. */
static void answer_locked(control_t *control, const char *request, ssize_t length, gp_json_t *answer)
{
  gp_assert(gp_lock_is_held(&control->serving));
  if (length < 0)
    gp_control_refuse(answer, "no request came within a second; it is one line of text");
  else if (control->stopped)
    gp_control_refuse(answer, "the program is about to end");
  else
    gp_control_request(&control->target, request, (size_t)length, answer);
}

/* gp_control_answer_fn */
static void serve(void *self, int fd, const char *request, ssize_t length)
{
  const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
  control_t *control = self;
  gp_json_t answer;

  gp_json_init(&answer, fd, control->answer, sizeof(control->answer));
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* cannot fail on a socket */
  if (!gp_control_peer_may(fd)) {
    gp_control_refuse(&answer, "only the user of the program and root may control it");
  } else {
    gp_lock_take(&control->serving);
    answer_locked(control, request, length, &answer);
    gp_lock_release(&control->serving);
  }
  (void)gp_json_finish(&answer); /* a client that has gone misses its answer; SIGPIPE is blocked */
}

static void *serve_all(void *arg)
{
  control_t *control = arg;
  int listening = -1;

  if (own_files())
    listening = gp_control_listen(control->path);
  else
    gp_log(GP_LOG_ERROR,
        "GPUPOOL_CONTROL: the system refuses a table of open files to a thread (Linux before 5.9?); the process cannot be controlled");
  if (listening < 0)
    control->path[0] = '\0';
  (void)sem_post(&control->ready); /* only once */
  if (listening < 0)
    return NULL;
  gp_control_server_init(&control->server, listening, serve, control, now_ms);
  for (;;)
    gp_control_server_turn(&control->server);
}

static bool start(control_t *control)
{
  char text[128];
  struct timespec until;

  control->pid = getpid();
  (void)sem_init(&control->ready, 0, 0); /* cannot fail */
  gp_lock_init(&control->serving, GP_RANK_CONTROL);
  int error = gp_helper_thread_start(serve_all, control);
  if (error) {
    gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: no thread can be started (%s); the process cannot be controlled",
        strerror_r(error, text, sizeof(text)));
    return false;
  }
  /* Waits so that a user who sees the program's first memory finds the socket. On a very busy machine
   * it does not wait longer. */
  (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail */
  until.tv_sec += START_SECONDS;
  while (sem_timedwait(&control->ready, &until) != 0 && errno == EINTR) {
  }
  return true;
}

void gp_control_start(gp_recorder_t *recorder, gp_snapshot_writer_t *writer, gp_engine_t *engine)
{
  int saved_errno = errno;
  control_t *control = gp_pages_map(sizeof(*control), false);

  if (!control) {
    gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: the host has no memory for it; the process cannot be controlled");
  } else {
    control->target.recorder = recorder;
    control->target.writer = writer;
    control->target.engine = engine;
    if (start(control))
      atomic_store(&the_control, control);
    else
      gp_pages_unmap(control, sizeof(*control));
  }
  errno = saved_errno;
}

void gp_control_stop(void)
{
  control_t *control = atomic_load(&the_control);

  if (!control || control->pid != getpid())
    return;
  if (control->path[0])
    (void)unlink(control->path); /* it may be gone already */
  if (!gp_lock_take_within(&control->serving, STOP_SECONDS))
    return;
  control->stopped = true;
  gp_lock_release(&control->serving);
}
