#include "trace/control/control.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "trace/control/helper_thread.h"
#include "base/pages.h"

#define BACKLOG 64 /* clients that may wait while the server handles a request */

static int report(const char *what, const char *path, int error)
{
  char text[128];
  gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: cannot %s %s: %s; the process cannot be controlled", what, path,
      strerror_r(error, text, sizeof(text)));
  return -1;
}

/* Returns 0 if the folder can be used, otherwise an errno. EPERM means that another user owns the folder or
 * has access to it. */
static int check_folder(const char *folder)
{
  struct stat status;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno;
  int error = fstat(fd, &status) ? errno : 0;
  if (!error && (status.st_uid != geteuid() || (status.st_mode & 077)))
    error = EPERM;
  (void)close(fd); /* cannot lose data: it was opened for inspection */
  return error;
}

/*
 * Finds a usable folder for the socket. Returns false if there is none. Tries several folders:
 * XDG_RUNTIME_DIR may belong to another user (sudo), be missing, or be unset although the user has a runtime
 * folder; and any user can create the folder in /tmp first. Logs one line for a folder that another user has
 * taken.
 */
static bool choose_folder(char *folder)
{
  char session[64], taken[GP_CONTROL_PATH_BYTES] = "";
  (void)snprintf(session, sizeof(session), "/run/user/%u", (unsigned)geteuid());
  const char *const places[] = {secure_getenv("XDG_RUNTIME_DIR"), NULL, session};
  int error = 0;

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    gp_control_folder("", places[i], geteuid(), folder);
    int problem = mkdir(folder, 0700) && errno != EEXIST ? errno : check_folder(folder);
    if (!problem && taken[0])
      gp_log(GP_LOG_ERROR,
          "GPUPOOL_CONTROL: another user owns %s, or other users may write to it; the socket is in %s", taken,
          folder);
    if (!problem)
      return true;
    if (problem == EPERM)
      strcpy(taken, folder);
    error = error == EPERM ? error : problem;
  }
  if (taken[0])
    strcpy(folder, taken);
  if (error == EPERM)
    gp_log(GP_LOG_ERROR,
        "GPUPOOL_CONTROL: another user owns %s, or other users may write to it; the process cannot be controlled",
        folder);
  else
    (void)report("use the folder", folder, error);
  return false;
}

/*
 * Creates the user's folder if necessary, removes the sockets of ended processes, and listens on a new
 * socket. Writes the socket's path to `path` (GP_CONTROL_PATH_BYTES). The folder must belong to this user and
 * be closed to others, because otherwise another user could replace the socket. Returns the descriptor, or
 * logs one line and returns -1.
 */
static int gp_control_listen(char *path)
{
  char folder[GP_CONTROL_PATH_BYTES];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const uint64_t start = gp_process_start(0), space = gp_process_space();

  if (!choose_folder(folder))
    return -1;
  (void)gp_control_remove_stale(folder); /* stale sockets that remain do no harm */
  (void)gp_control_path(folder, ".", getpid(), start, space, address.sun_path);
  (void)gp_control_path(folder, "", getpid(), start, space, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return report("create the socket", path, errno);
  /* A socket gets its final name only when it is served, so a socket that refuses connections is stale. A
   * stale socket with this process's name belongs to the program that the process ran before exec(). */
  if (gp_control_is_served(path)) {
    (void)report("create the socket", path, errno);
    goto close_socket;
  }
  (void)unlink(address.sun_path);
  if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
    (void)report("create the socket", path, errno);
    goto close_socket;
  }
  if (chmod(address.sun_path, 0600) != 0 || listen(fd, BACKLOG) != 0 || rename(address.sun_path, path) != 0) {
    (void)report("create the socket", path, errno);
    (void)unlink(address.sun_path); /* a failure cannot be handled here */
    goto close_socket;
  }
  return fd;

close_socket:
  (void)close(fd); /* no other thread uses it */
  return -1;
}

/* Returns true if the peer of the connection is the same user or root. */
static bool gp_control_peer_may(int fd)
{
  struct ucred peer;
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

#define PAUSE_MS 1000

void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void))
{
  server->listening = listening;
  server->answer = answer;
  server->self = self;
  server->now_ms = now_ms;
  server->refused_until_ms = 0;
  server->count = 0;
}

static void answer_and_close(gp_control_server_t *server, unsigned index, ssize_t length)
{
  struct gp_control_peer *peer = &server->peers[index];
  gp_assert(index < server->count);
  server->answer(server->self, peer->fd, peer->request, length);
  (void)close(peer->fd); /* unsent data is lost */
  *peer = server->peers[--server->count];
}

/* Reads from a client. Returns true when the request is complete: at a line end, at the end of the client's
 * data, or at the end of the buffer. Sets *ret_gone if the connection failed. */
static bool read_more(struct gp_control_peer *peer, bool *ret_gone)
{
  size_t room = sizeof(peer->request) - peer->used;
  gp_assert(room > 0); /* a full buffer has been answered at once */
  ssize_t got = recv(peer->fd, peer->request + peer->used, room, MSG_DONTWAIT);
  *ret_gone = got < 0 && errno != EINTR && errno != EAGAIN;
  if (got <= 0)
    return got == 0;
  peer->used += (size_t)got;
  return (size_t)got == room || memchr(peer->request + peer->used - got, '\n', (size_t)got) != NULL;
}

static void accept_all(gp_control_server_t *server)
{
  while (server->count < GP_CONTROL_CLIENTS_MAX) {
    int fd = accept4(server->listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
      continue;
    if (fd < 0) {
      if (errno != EAGAIN) /* the process has no descriptor or no memory left */
        server->refused_until_ms = server->now_ms() + PAUSE_MS;
      return;
    }
    struct gp_control_peer *peer = &server->peers[server->count++];
    peer->fd = fd;
    peer->used = 0;
    peer->until_ms = server->now_ms() + GP_CONTROL_REQUEST_MS;
    if (!gp_control_peer_may(fd)) /* a client without permission takes no slot */
      answer_and_close(server, server->count - 1, -1);
  }
}

/* Returns the milliseconds until the next deadline, as the timeout for poll(), or -1 if there is no
 * deadline. */
static int wait_ms(const gp_control_server_t *server, uint64_t now_ms)
{
  uint64_t first_ms = server->refused_until_ms > now_ms ? server->refused_until_ms : UINT64_MAX;
  for (unsigned i = 0; i < server->count; i++) {
    if (server->peers[i].until_ms < first_ms)
      first_ms = server->peers[i].until_ms;
  }
  return first_ms == UINT64_MAX ? -1 : first_ms <= now_ms ? 0 : (int)(first_ms - now_ms);
}

void gp_control_server_turn(gp_control_server_t *server)
{
  struct pollfd waiting[GP_CONTROL_CLIENTS_MAX + 1];
  const uint64_t now_ms = server->now_ms();
  const unsigned count = server->count;
  bool accepts = count < GP_CONTROL_CLIENTS_MAX && server->refused_until_ms <= now_ms;

  waiting[count] = (struct pollfd){.fd = accepts ? server->listening : -1, .events = POLLIN};
  for (unsigned i = 0; i < count; i++)
    waiting[i] = (struct pollfd){.fd = server->peers[i].fd, .events = POLLIN};
  if (poll(waiting, count + 1, wait_ms(server, now_ms)) < 0)
    return; /* interrupted, or no memory: the next call tries again */
  /* Goes backwards, because removing a client moves the last client, which was already handled, to its place.
   * Reads a client's data before checking its deadline, because another client's long request may have used
   * up this client's time. */
  for (unsigned i = count; i-- > 0;) {
    struct gp_control_peer *peer = &server->peers[i];
    bool gone = false;
    if (waiting[i].revents && read_more(peer, &gone))
      answer_and_close(server, i, (ssize_t)peer->used);
    else if (gone || server->now_ms() >= peer->until_ms)
      answer_and_close(server, i, -1);
  }
  if (waiting[count].revents)
    accept_all(server);
}

#define START_SECONDS       5
#define STOP_SECONDS        5
#define ANSWER_SECONDS      1 /* maximum time to wait for a client that does not read the answer */
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
  sem_t ready;                      /* posted when the socket exists, or could not be created */
  gp_lock_t serving;                /* held while the thread serves a request */
  bool stopped;                     /* guarded by `serving` */
  char path[GP_CONTROL_PATH_BYTES]; /* "": there is no socket; set before `ready` is posted */
  gp_control_server_t server;
  char answer[ANSWER_BUFFER_BYTES];
} control_t;

static control_t *_Atomic the_control; /* one per process */

/* Closes all descriptors of this thread from 3 on, except `kept`. Returns false if it cannot list them. */
static bool close_others(int kept)
{
  DIR *listing = opendir("/proc/thread-self/fd");
  if (!listing)
    return false;
  for (const struct dirent *entry; (entry = readdir(listing));) {
    int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO && fd != kept && fd != dirfd(listing))
      (void)close(fd); /* the program's own table keeps the file open */
  }
  (void)closedir(listing); /* opened for reading only */
  return true;
}

/*
 * Gives this thread its own table of open files, without any file of the program except the one for messages.
 * Returns false if the kernel cannot do this. A separate table is necessary because a file that the program
 * closes must really be closed. Otherwise, for example, the reader of a pipe would wait forever.
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
  (void)dup2(null, STDIN_FILENO); /* cannot fail: the file is open */
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

/* Answers a request. The caller holds `serving`, so gp_control_stop waits until the answer is complete. */
static void answer_locked(control_t *control, const char *request, ssize_t length, gp_json_t *answer)
{
  gp_assert(gp_lock_is_held(&control->serving));
  if (length < 0)
    gp_control_refuse(answer, "no request within a second; a request is one line of text");
  else if (control->stopped)
    gp_control_refuse(answer, "the program is exiting");
  else
    gp_control_request(&control->target, request, (size_t)length, answer);
}

/* Answers the request of one client, or refuses it. This is a gp_control_answer_fn. */
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
  (void)gp_json_finish(&answer); /* may fail if the client has gone; SIGPIPE is blocked */
}

static void *serve_all(void *arg)
{
  control_t *control = arg;
  int listening = -1;

  if (own_files())
    listening = gp_control_listen(control->path);
  else
    gp_log(GP_LOG_ERROR,
        "GPUPOOL_CONTROL: the kernel cannot give a thread a file table of its own (Linux before 5.9?); the process cannot be controlled");
  if (listening < 0)
    control->path[0] = '\0';
  (void)sem_post(&control->ready); /* posted only once */
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
    gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: cannot start a thread (%s); the process cannot be controlled",
        strerror_r(error, text, sizeof(text)));
    return false;
  }
  /* Waits until the socket exists, so that the program's first allocation comes after that. Gives up after
   * START_SECONDS. */
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
    gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: out of host memory; the process cannot be controlled");
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
    (void)unlink(control->path); /* may already have been removed */
  if (!gp_lock_take_within(&control->serving, STOP_SECONDS))
    return;
  control->stopped = true;
  gp_lock_release(&control->serving);
}
