#include "base/own_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MOST 40 /* as many as the kernel follows */

/* The rest of the path. */
typedef struct way {
  char *path; /* begins with the next name; within the caller's buffer */
  char *begin;
  size_t capacity;
  int links;
} way_t;

static void close_folder(int folder)
{
  int saved_errno = errno;
  if (folder != AT_FDCWD)
    (void)close(folder); /* the walk has left it */
  errno = saved_errno;
}

/* Replaces the name of a link by its target, in front of rest. False with errno. */
static bool take_target(way_t *way, int link, const char *rest)
{
  size_t bytes = strlen(rest) + 1;
  char *kept = way->begin + way->capacity - bytes;
  memmove(kept, rest, bytes);
  ssize_t length = readlinkat(link, "", way->begin, way->capacity - bytes);
  if (length <= 0)
    return false;
  if ((size_t)length + 1 + bytes > way->capacity) {
    errno = ENAMETOOLONG;
    return false;
  }
  way->begin[length] = '/';
  memmove(way->begin + length + (bytes > 1), kept, bytes); /* the last name has no slash behind it */
  way->path = way->begin;
  return true;
}

/* Whether a link may be followed. The kernel's own links in /proc may lead to objects without a name, so
 * only the kernel can follow them. False with errno. */
static bool may_follow(way_t *way, int link, bool *ret_by_kernel)
{
  struct stat status;
  struct statfs file_system;
  if (fstat(link, &status) || fstatfs(link, &file_system))
    return false;
  *ret_by_kernel = file_system.f_type == PROC_SUPER_MAGIC;
  errno = ++way->links > LINKS_MOST ? EMLINK : ELOOP;
  return way->links <= LINKS_MOST && (status.st_uid == geteuid() || status.st_uid == 0);
}

/*
 * Opens the first name of the way in folder, and advances past it. Reads a link itself instead of
 * following it, unless only the kernel can. Returns a descriptor; -1 with errno; or -1 with errno 0: the
 * path goes on along a link.
 */
static int step(way_t *way, int folder, int flags, mode_t mode)
{
  char *name = way->path;
  char *rest = name + strcspn(name, "/");
  bool is_last = *rest == '\0';
  bool by_kernel = false;

  if (*rest)
    *rest++ = '\0';
  way->path = rest + strspn(rest, "/");
  if (is_last) {
    int fd = openat(folder, name, flags | O_NOFOLLOW, mode);
    if (fd >= 0 || errno != ELOOP)
      return fd;
  }
  int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || (!is_last && fstat(fd, &status) == 0 && !S_ISLNK(status.st_mode)))
    return fd;
  bool follows = may_follow(way, fd, &by_kernel) && (by_kernel || take_target(way, fd, way->path));
  close_folder(fd);
  if (!follows)
    return -1;
  if (by_kernel)
    return openat(folder, name, is_last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC, mode);
  errno = 0;
  return -1;
}

int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode)
{
  way_t way = {.path = path, .begin = path, .capacity = capacity};
  int folder = AT_FDCWD;

  for (;;) {
    if (way.path[0] == '/') {
      close_folder(folder);
      folder = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
      way.path += strspn(way.path, "/");
      if (folder < 0)
        return -1;
    }
    if (!way.path[0]) { /* the root, or a slash at the end */
      close_folder(folder);
      errno = EISDIR;
      return -1;
    }
    bool is_last = !strchr(way.path, '/');
    int fd = step(&way, folder, flags, mode);
    if (fd < 0 && errno == 0)
      continue;
    close_folder(folder);
    if (fd < 0 || is_last)
      return fd;
    folder = fd;
  }
}
