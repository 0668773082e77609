#include "tools/control/control_client.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "tools/machine/processes.h"

#define ANSWER_BYTES   (1 << 20) /* ten times what the answer for 64 devices needs */
#define ANSWER_SECONDS 60        /* enough for a snapshot of a large program on a slow disk */
#define RETRY_MS       500       /* between attempts while the process's connection queue is full */

static void __attribute__((format(printf, 2, 3))) say(char *problem, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(problem, GP_CONTROL_PROBLEM_BYTES, format, arguments); /* truncates */
  va_end(arguments);
}

uint64_t gp_control_number(const cJSON *object, const char *name)
{
  const cJSON *item = cJSON_GetObjectItem(object, name);
  return cJSON_IsNumber(item) && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

const char *gp_control_text(const cJSON *object, const char *name)
{
  const cJSON *item = cJSON_GetObjectItem(object, name);
  return cJSON_IsString(item) ? item->valuestring : "";
}

bool gp_control_client_is_gone(const gp_control_client_t *client)
{
  return gp_process_start(client->pid) != client->start;
}

bool gp_control_client_is_number(const char *text)
{
  char *end;
  errno = 0;
  unsigned long number = strtoul(text, &end, 10);
  return isdigit((unsigned char)text[0]) && !*end && !errno && number >= 1 && number <= INT_MAX;
}

/* Removes the sockets of ended processes from this user's folders. Keeps the sockets of running processes. */
static void remove_stale_sockets(void)
{
  const char *const places[] = {getenv("XDG_RUNTIME_DIR"), NULL};
  char folder[GP_CONTROL_PATH_BYTES];
  struct stat status;

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    gp_control_folder("", places[i], geteuid(), folder);
    if (lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid())
      (void)gp_control_remove_stale(folder); /* on failure, leftover sockets do no harm */
  }
}

/* Returns the child of `pid` if `pid` is a `gpupool run`, else `pid`. In a shell, $! after `gpupool run ...
 * &` is the runner, but the user means the program, which is the runner's only child. */
static pid_t follow_runner(pid_t pid)
{
  char name[64];
  struct stat own, other;

  (void)snprintf(name, sizeof(name), "/proc/%d/exe", (int)pid);
  if (stat(name, &other) != 0 || stat("/proc/self/exe", &own) != 0 || own.st_dev != other.st_dev ||
      own.st_ino != other.st_ino)
    return pid;
  (void)snprintf(name, sizeof(name), "task/%d/children", (int)pid);
  char *children = gp_target_read(pid, name); /* NULL: the kernel does not list children */
  long child = children ? strtol(children, NULL, 10) : 0;
  free(children);
  return child > 0 ? (pid_t)child : pid;
}

bool gp_control_client_init(gp_control_client_t *client, const char *text, char *problem)
{
  unsigned long number = strtoul(text, NULL, 10);

  gp_assert(gp_control_client_is_number(text));
  remove_stale_sockets();
  pid_t pid = follow_runner((pid_t)number);
  *client = (gp_control_client_t){.pid = pid, .start = gp_process_start(pid)};
  if (!client->start) {
    say(problem, "there is no process %lu", number);
    return false;
  }
  return true;
}

bool gp_control_client_is_stopped(const gp_control_client_t *client)
{
  char *status = gp_target_read(client->pid, "status");
  const char *state = status ? strstr(status, "\nState:\t") : NULL;
  bool is_stopped = state && (state[8] == 'T' || state[8] == 't'); /* the process's state; see proc(5) */
  free(status);
  return is_stopped;
}

static uint64_t now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waits at most `wait_ms` until `fd` is ready; with fd -1, only waits. Returns false with errno set if
 * client->wait returned false. */
static bool wait_some(gp_control_client_t *client, int fd, short events, unsigned wait_ms)
{
  struct pollfd waiting = {.fd = fd, .events = events};
  if (!client->wait) {
    (void)poll(&waiting, 1, (int)wait_ms); /* the caller checks whether fd is ready */
    return true;
  }
  if (client->wait(client->wait_self, fd, events, wait_ms))
    return true;
  client->is_left = true;
  errno = ECANCELED;
  return false;
}

/* Waits until `fd` is ready. Returns false with errno ETIMEDOUT, or ECANCELED if wait_some returned false. */
static bool wait_until(gp_control_client_t *client, int fd, short events, uint64_t until_ms)
{
  struct pollfd waiting = {.fd = fd, .events = events};
  for (;;) {
    if (poll(&waiting, 1, 0) > 0)
      return true;
    uint64_t time_ms = now_ms();
    if (time_ms >= until_ms) {
      errno = ETIMEDOUT;
      return false;
    }
    if (!wait_some(client, fd, events, (unsigned)(until_ms - time_ms)))
      return false;
  }
}

/* Connects to the socket at path. Returns a connected, non-blocking socket, or -1 with errno. */
static int connect_to(gp_control_client_t *client, const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const uint64_t until_ms = now_ms() + ANSWER_SECONDS * 1000;
  memcpy(address.sun_path, path, strlen(path) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
    int error = errno;
    if (error == EAGAIN && now_ms() >= until_ms) /* the connection queue is full */
      error = ETIMEDOUT;
    if (error == EAGAIN && !wait_some(client, -1, 0, RETRY_MS))
      error = ECANCELED;
    if (error == EAGAIN || error == EINTR)
      continue;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

/*
 * Connects to the socket at `path` if the target process listens there. SO_PEERCRED reports the pid, in this
 * namespace, of the process that called listen(2). The client sends nothing to any other process. This check
 * also protects root, who would otherwise trust an answer from another user. Returns a connected socket, or
 * -1 with errno; ENOENT if another process listens.
 */
static int connect_to_target(gp_control_client_t *client, const gp_target_t *target, const char *path)
{
  struct ucred peer;
  socklen_t bytes = sizeof(peer);
  int fd = connect_to(client, path);
  if (fd < 0)
    return -1;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
    if (peer.pid == target->pid && gp_target_has_user(target, peer.uid))
      return fd;
    if (!gp_target_has_user(target, peer.uid) && !target->intruder[0])
      say(target->intruder,
          "user %u, process %d, answers at %.120s instead of process %d of user %u; nothing was sent",
          (unsigned)peer.uid, (int)peer.pid, path, (int)target->pid, (unsigned)target->user);
  }
  close(fd);
  errno = ENOENT;
  return -1;
}

/* Opens a folder of sockets if it belongs to the target's user. Rejects other folders, because any user may
 * have put files there. Returns NULL with errno on failure. */
static DIR *open_folder(const gp_target_t *target, const char *folder)
{
  struct stat status;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ELOOP || errno == ENOTDIR) /* the library puts no socket in such a folder */
      errno = ENOENT;
    return NULL;
  }
  if (fstat(fd, &status) == 0 && gp_target_has_user(target, status.st_uid)) {
    DIR *listing = fdopendir(fd);
    if (listing)
      return listing;
  } else {
    if (!target->intruder[0])
      say(target->intruder,
          "the folder %.120s belongs to user %u, not to user %u as process %d does; nothing was sent", folder,
          (unsigned)status.st_uid, (unsigned)target->user, (int)target->pid);
    errno = ENOENT;
  }
  int error = errno;
  close(fd);
  errno = error;
  return NULL;
}

/* Connects to the target's socket in folder. A process in another PID namespace may have the same pid, so
 * connect_to_target checks who listens. Returns a socket or -1 with errno, like connect_to_target. */
static int find_in_folder(gp_control_client_t *client, const gp_target_t *target, const char *folder)
{
  int fd = -1;
  DIR *listing = open_folder(target, folder);
  if (!listing)
    return -1;
  int worst = ENOENT;
  for (const struct dirent *entry; fd < 0 && !client->is_left && (entry = readdir(listing));) {
    char path[GP_CONTROL_PATH_BYTES];
    pid_t pid;
    uint64_t start;
    int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= sizeof(path) || entry->d_name[0] == '.' ||
        !gp_control_name_parse(entry->d_name, &pid, &start) || (pid != target->pid && pid != target->inside))
      continue;
    fd = connect_to_target(client, target, path);
    if (fd >= 0)
      memcpy(client->path, path, sizeof(client->path));
    else if (errno != ENOENT)
      worst = errno;
  }
  (void)closedir(listing); /* read-only, so no data is lost */
  errno = worst;
  return fd;
}

/* Looks for the socket in every folder that the process could have chosen. Searches this file system and the
 * one that the process sees. Returns a socket or -1 with errno, like connect_to_target. */
static int find_and_connect(gp_control_client_t *client, const gp_target_t *target, const char *environment)
{
  char runtime_of_user[64];
  char root[64];
  snprintf(runtime_of_user, sizeof(runtime_of_user), "/run/user/%u", (unsigned)target->user);
  snprintf(root, sizeof(root), "/proc/%d/root", (int)client->pid);
  const struct {
    const char *runtime_folder;
    uid_t user;
  } places[] = {{gp_target_variable(environment, "XDG_RUNTIME_DIR"), target->user}, {NULL, target->user},
      {NULL, target->owner}, {getenv("XDG_RUNTIME_DIR"), target->user}, {runtime_of_user, target->user}};
  const char *const roots[] = {"", root};
  int worst = ENOENT;

  for (size_t i = 0; i < 2; i++) {
    for (size_t j = 0; j < sizeof(places) / sizeof(places[0]); j++) {
      char folder[GP_CONTROL_PATH_BYTES];
      gp_control_folder(roots[i], places[j].runtime_folder, places[j].user, folder);
      gp_assert(folder[0]); /* the last fallback fits below both roots */
      int fd = find_in_folder(client, target, folder);
      if (fd >= 0 || client->is_left)
        return fd;
      if (errno != ENOENT)
        worst = errno;
    }
  }
  errno = worst;
  return -1;
}

/* Writes a sentence to `problem` that says why the socket could not be reached. `error` is the errno. */
static void explain(const gp_control_client_t *client, const gp_target_t *target, const char *environment,
    int error, char *problem)
{
  const uid_t user = target->user;
  const int pid = (int)client->pid;
  const char *control = gp_target_variable(environment, "GPUPOOL_CONTROL");
  char *maps = gp_target_read(client->pid, "maps");
  bool is_loaded = !maps || strstr(maps, "libgpupool") != NULL; /* true as well if the maps cannot be read */
  free(maps);

  if (gp_control_client_is_gone(client)) {
    say(problem, "process %d has ended", pid);
  } else if (user != geteuid() && geteuid() != 0) {
    say(problem, "process %d belongs to user %u: only that user and root may control it", pid,
        (unsigned)user);
  } else if (target->intruder[0]) {
    say(problem, "%s", target->intruder);
  } else if (error == ECONNREFUSED) {
    say(problem, "process %d no longer serves its control socket", pid);
  } else if (environment && (!control || strcmp(control, "1") != 0)) {
    say(problem, "process %d was not started with GPUPOOL_CONTROL=1 (gpupool run --control -- PROGRAM)", pid);
  } else if (!is_loaded) {
    say(problem, "process %d does not run under libgpupool.so", pid);
  } else if (error == EACCES || error == EPERM) {
    say(problem,
        "process %d has no control socket that this user can see: it was not started with GPUPOOL_CONTROL=1 (gpupool run --control -- PROGRAM), or only root may see it",
        pid);
  } else if (error != ENOENT) {
    say(problem, "the control socket of process %d cannot be reached: %s", pid, strerror(error));
  } else {
    say(problem,
        "process %d has no control socket: it has not requested GPU memory yet, or it could not create one and printed a message",
        pid);
  }
}

/* Connects to the target. On failure returns -1 and writes a sentence to `problem`. Ignores the start time in
 * a socket's name, because it may differ between namespaces. Instead checks which process listens. */
static int open_connection(gp_control_client_t *client, char *problem)
{
  char intruder[GP_CONTROL_PROBLEM_BYTES];
  struct stat status;
  gp_target_t target;
  char path[64];

  snprintf(path, sizeof(path), "/proc/%d", (int)client->pid);
  if (gp_control_client_is_gone(client) || stat(path, &status) != 0) {
    say(problem, "process %d has ended", (int)client->pid);
    return -1;
  }
  gp_target_find(client->pid, status.st_uid, intruder, &target);
  int fd = client->path[0] ? connect_to_target(client, &target, client->path) : -1;
  if (fd >= 0)
    return fd;
  if (client->is_left)
    return -1;
  client->path[0] = '\0';
  char *environment = gp_target_read(client->pid, "environ");
  fd = find_and_connect(client, &target, environment);
  if (fd < 0 && !client->is_left)
    explain(client, &target, environment, errno, problem);
  free(environment);
  return fd;
}

static bool send_all(gp_control_client_t *client, int fd, const char *text, size_t length, uint64_t until_ms)
{
  while (length > 0) {
    ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN && wait_until(client, fd, POLLOUT, until_ms))
      continue;
    if (sent <= 0)
      return false;
    text += sent;
    length -= (size_t)sent;
  }
  return true;
}

/* Receives until the other end closes the connection. Returns the text, which the caller frees, or NULL
 * with errno; errno 0 means that the text is too long. */
static char *receive_all(gp_control_client_t *client, int fd, uint64_t until_ms)
{
  char *text = malloc(ANSWER_BYTES);
  size_t used = 0;
  while (text && used < ANSWER_BYTES - 1) {
    ssize_t got = recv(fd, text + used, ANSWER_BYTES - 1 - used, 0);
    if (got < 0 && (errno == EINTR || (errno == EAGAIN && wait_until(client, fd, POLLIN, until_ms))))
      continue;
    if (got < 0)
      break;
    if (got == 0) {
      text[used] = '\0';
      return text;
    }
    used += (size_t)got;
    errno = 0;
  }
  int error = errno;
  free(text);
  errno = error;
  return NULL;
}

cJSON *gp_control_client_ask(gp_control_client_t *client, const char *request, char *problem)
{
  const int pid = (int)client->pid;
  problem[0] = '\0';
  int fd = open_connection(client, problem);
  if (fd < 0)
    return NULL;
  const uint64_t until_ms = now_ms() + ANSWER_SECONDS * 1000;
  /* If the process refuses before it has read the request, sending fails, but an answer still arrives. */
  if (send_all(client, fd, request, strlen(request), until_ms))
    (void)send_all(client, fd, "\n", 1, until_ms);
  char *text = client->is_left ? NULL : receive_all(client, fd, until_ms);
  int error = errno;
  close(fd);
  if (client->is_left)
    return NULL;
  cJSON *answer = text && text[0] ? cJSON_Parse(text) : NULL;
  if (!answer) {
    if (gp_control_client_is_gone(client))
      say(problem, "process %d has ended", pid);
    else if (!text)
      say(problem, "process %d does not answer: %s", pid, error ? strerror(error) : "the answer is too long");
    else
      say(problem, "process %d sent an answer that is not JSON", pid);
  } else if (!cJSON_IsTrue(cJSON_GetObjectItem(answer, "ok"))) {
    const cJSON *sentence = cJSON_GetObjectItem(answer, "error");
    say(problem, "process %d refuses: %s", pid,
        cJSON_IsString(sentence) ? sentence->valuestring : "it gave no reason");
    cJSON_Delete(answer);
    answer = NULL;
  }
  free(text);
  return answer;
}
