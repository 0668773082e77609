#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 46 /* size of "/." pid "-" start "-" space; the numbers have 10, 20 and 10 digits */

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == GP_CONTROL_PATH_BYTES, "a path fits");

static char *format(char *buffer, size_t room, const char *root, const char *runtime_folder, uid_t user)
{
  int length = runtime_folder ? snprintf(buffer, room, "%s%s/gpupool", root, runtime_folder)
                              : snprintf(buffer, room, "%s/tmp/gpupool.%u", root, (unsigned)user);
  if (length < 0 || (size_t)length >= room)
    buffer[0] = '\0';
  return buffer;
}

char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer)
{
  const size_t room = GP_CONTROL_PATH_BYTES - NAME_BYTES;
  if (runtime_folder && runtime_folder[0] == '/' && format(buffer, room, root, runtime_folder, user)[0])
    return buffer;
  return format(buffer, room, root, NULL, user);
}

char *gp_control_path(
    const char *folder, const char *prefix, pid_t pid, uint64_t start, uint64_t space, char *buffer)
{
  int length = snprintf(buffer, GP_CONTROL_PATH_BYTES, "%s/%s%d-%llu-%llu", folder, prefix, (int)pid,
      (unsigned long long)start, (unsigned long long)space);
  if (length < 0 || length >= GP_CONTROL_PATH_BYTES)
    buffer[0] = '\0';
  return buffer;
}

uint64_t gp_process_start(pid_t pid)
{
  char text[1024];
  if (pid == 0)
    strcpy(text, "/proc/self/stat");
  else
    snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
  int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t length = read(fd, text, sizeof(text) - 1);
  (void)close(fd); /* cannot lose data: it was opened for reading */
  if (length <= 0)
    return 0;
  text[length] = '\0';
  /* Field 2, the name in parentheses, may contain any characters. The start time is field 22. */
  const char *p = strrchr(text, ')');
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t gp_process_space(void)
{
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool gp_control_is_served(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return true; /* unknown: assumes that a process serves the socket */
  memcpy(address.sun_path, path, strlen(path) + 1);
  int error = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? errno : 0;
  (void)close(fd); /* cannot lose data: nothing was written */
  errno = EADDRINUSE;
  return error != ECONNREFUSED && error != ENOENT;
}

bool gp_control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start)
{
  char *end;
  if (*name == '.')
    name++;
  unsigned long pid = strtoul(name, &end, 10);
  if (end == name || *end != '-' || pid > INT32_MAX)
    return false;
  name = end + 1;
  *ret_pid = (pid_t)pid;
  *ret_start = strtoull(name, &end, 10);
  if (end == name || *end != '-')
    return end != name && *end == '\0';
  name = end + 1;
  (void)strtoull(name, &end, 10);
  return end != name && *end == '\0';
}

unsigned gp_control_remove_stale(const char *folder)
{
  unsigned removed = 0;
  DIR *listing = opendir(folder);
  if (!listing)
    return 0;
  for (const struct dirent *entry; (entry = readdir(listing));) {
    char path[GP_CONTROL_PATH_BYTES];
    pid_t pid;
    uint64_t start;
    int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if (length < 0 || (size_t)length >= sizeof(path) || !gp_control_name_parse(entry->d_name, &pid, &start) ||
        gp_process_start(pid) == start || gp_control_is_served(path))
      continue;
    removed += unlink(path) == 0;
  }
  (void)closedir(listing); /* cannot lose data: it was opened for reading */
  return removed;
}

#define LINKS_MOST 40 /* the same number as in the kernel */

/* The unread rest of the path that is being opened. */
typedef struct way {
  char *path; /* the next name and everything after it; points into the caller's buffer */
  char *begin;
  size_t capacity;
  int links;
} way_t;

static void close_folder(int folder)
{
  int saved_errno = errno;
  if (folder != AT_FDCWD)
    (void)close(folder); /* the folder is no longer needed */
  errno = saved_errno;
}

/* Replaces the link's name in the path by the link's target, followed by `rest`. Returns false with errno set
 * if that fails. */
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
  memmove(way->begin + length + (bytes > 1), kept, bytes); /* no slash if nothing follows */
  way->path = way->begin;
  return true;
}

/* Returns true if the link may be followed, otherwise false with errno set. Sets *ret_by_kernel for the
 * kernel's own links in /proc: they may lead to objects without a name, so only the kernel can follow
 * them. */
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
 * Opens the next name of the path in `folder`, and advances past the name. If the name is a link, reads its
 * target into the path instead; only the kernel's own links are followed directly. Returns a descriptor, or
 * -1 with errno set. errno is 0 if the name was a link and the path continues with its target.
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
    if (!way.path[0]) { /* the path is the root, or ends with a slash */
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

const char *gp_path_rank(void)
{
  static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK",
      "PMIX_RANK", "PALS_RANKID", "HOROVOD_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    const char *value = secure_getenv(variables[i]);
    if (value && value[0])
      return value;
  }
  return NULL;
}

/* Returns the text of the placeholder `letter`, or NULL if there is no such placeholder. `scratch` has at
 * least 256 bytes. */
static const char *placeholder_text(char letter, unsigned sequence, const char *reason, char *scratch)
{
  switch (letter) {
  case '%': return "%";
  case 'e': return program_invocation_short_name;
  case 'p': snprintf(scratch, 256, "%d", (int)getpid()); return scratch;
  case 'h':
    if (gethostname(scratch, 256) != 0)
      return "localhost";
    scratch[255] = '\0';
    return scratch;
  case 'k': return gp_path_rank() ? gp_path_rank() : "0";
  case 't': snprintf(scratch, 256, "%lld", (long long)time(NULL)); return scratch;
  case 'n': snprintf(scratch, 256, "%u", sequence); return scratch;
  case 'r': return reason ? reason : "";
  default: return NULL;
  }
}

int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity)
{
  char scratch[256];
  size_t used = 0;

  if (capacity == 0)
    return -1;
  for (const char *p = pattern; *p; p++) {
    char single[2] = {*p, '\0'};
    const char *text = single;
    bool expanded = *p == '%';
    if (expanded)
      text = *++p ? placeholder_text(*p, sequence, reason, scratch) : NULL;
    if (!text)
      goto fail;
    for (; *text; text++) {
      if (used + 1 >= capacity)
        goto fail;
      buffer[used++] = expanded && *text == '/' ? '_' : *text;
    }
  }
  buffer[used] = '\0';
  return 0;

fail:
  buffer[0] = '\0';
  return -1;
}

const char *gp_path_check(const char *pattern)
{
  for (const char *p = pattern; *p; p++) {
    if (*p != '%')
      continue;
    if (p[1] == '\0' || !strchr("%ephktnr", p[1]))
      return p;
    p++;
  }
  return NULL;
}

bool gp_path_is_special(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}
