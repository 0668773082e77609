#include "trace/control/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control_path.h"
#include "base/log.h"

#define BACKLOG 64 /* clients waiting while the server works on a request */

static int report(const char *what, const char *path, int error)
{
  char text[128];
  gp_log(GP_LOG_ERROR, "GPUPOOL_CONTROL: cannot %s %s: %s; the process cannot be controlled", what, path,
      strerror_r(error, text, sizeof(text)));
  return -1;
}

/* 0, or the reason why the folder cannot be used. */
static int check_folder(const char *folder)
{
  struct stat status;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno;
  int error = fstat(fd, &status) ? errno : 0;
  if (!error && (status.st_uid != geteuid() || (status.st_mode & 077)))
    error = EPERM;
  (void)close(fd); /* opened for a look only */
  return error;
}

/*
 * Finds a usable folder. XDG_RUNTIME_DIR may be another user's (sudo), missing, or unset
 * although the user has one, and any user can make the folder in /tmp first. Logs a line for a
 * folder that another user has taken.
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

int gp_control_listen(char *path)
{
  char folder[GP_CONTROL_PATH_BYTES];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const uint64_t start = gp_process_start(0), space = gp_process_space();

  if (!choose_folder(folder))
    return -1;
  (void)gp_control_remove_stale(folder); /* remaining ones do no harm */
  (void)gp_control_path(folder, ".", getpid(), start, space, address.sun_path);
  (void)gp_control_path(folder, "", getpid(), start, space, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return report("make the socket", path, errno);
  /* A socket gets its name only when it is served, so one that refuses is stale. If a file has these names
   * and is not served, it is from the program that this process was before exec(). */
  if (gp_control_is_served(path)) {
    (void)report("make the socket", path, errno);
    goto close_socket;
  }
  (void)unlink(address.sun_path);
  if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
    (void)report("make the socket", path, errno);
    goto close_socket;
  }
  if (chmod(address.sun_path, 0600) != 0 || listen(fd, BACKLOG) != 0 || rename(address.sun_path, path) != 0) {
    (void)report("make the socket", path, errno);
    (void)unlink(address.sun_path); /* nothing more can be done about it */
    goto close_socket;
  }
  return fd;

close_socket:
  (void)close(fd); /* no other thread has got it */
  return -1;
}

bool gp_control_peer_may(int fd)
{
  struct ucred peer;
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}
