#include "trace/region/record_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/pages.h"

#define NAME_BYTES   64
#define LISTED_BYTES (32 * 1024)

bool gp_record_folder(const char *root, char *buffer, size_t capacity)
{
  int length = snprintf(buffer, capacity, "%s/gpupool.%u", root, (unsigned)geteuid());
  return length > 0 && (size_t)length < capacity;
}

static bool parse_number(const char **text, uint64_t *ret_number)
{
  char *end;
  if (!isdigit((unsigned char)**text))
    return false;
  errno = 0;
  *ret_number = strtoull(*text, &end, 10);
  *text = end;
  return errno == 0;
}

bool gp_record_file_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start_time_us)
{
  uint64_t pid;
  if (!parse_number(&name, &pid) || *name++ != '-' || !parse_number(&name, ret_start_time_us) || *name ||
      pid == 0 || pid > INT32_MAX)
    return false;
  *ret_pid = (pid_t)pid;
  return true;
}

/* Checks the opened descriptor instead of the path, because in a world-writable folder another user may have
 * created the name. */
int gp_record_folder_open(const char *root, bool create, const char **ret_problem)
{
  char name[NAME_BYTES];
  struct stat status;

  /* Opens the parent first, because a buffer for the whole path may not fit on a small stack. */
  (void)snprintf(name, sizeof(name), "gpupool.%u", (unsigned)geteuid());
  *ret_problem = "cannot create its folder";
  int parent = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) {
    *ret_problem = "cannot use the folder";
    return -1;
  }
  bool is_there = !create || mkdirat(parent, name, 0700) == 0 || errno == EEXIST;
  int error = errno;
  int fd = -1;
  if (is_there) {
    *ret_problem = "cannot open its folder";
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error = errno;
  }
  (void)close(parent); /* only needed to find the folder */
  errno = error;
  if (fd < 0)
    return -1;
  bool is_ours = fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0;
  if (is_ours)
    return fd;
  (void)close(fd); /* cannot lose data: it was opened for inspection */
  *ret_problem = "other users have access to its folder";
  errno = EPERM;
  return -1;
}

const char *gp_record_second_root(void)
{
  const char *folder = secure_getenv("XDG_RUNTIME_DIR");
  return folder && folder[0] == '/' ? folder : NULL;
}

bool gp_record_root_is_there(const char *root)
{
  struct stat status;
  return stat(root, &status) == 0 && S_ISDIR(status.st_mode);
}

bool gp_record_folder_is_taken(const char *root)
{
  char name[NAME_BYTES];
  struct stat status;

  (void)snprintf(name, sizeof(name), "gpupool.%u", (unsigned)geteuid());
  int parent = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0)
    return false;
  bool is_taken = fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                  (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077));
  (void)close(parent); /* only needed to find the folder */
  return is_taken;
}

int gp_record_file_create(gp_record_file_t *file, const char *root, pid_t pid, uint64_t start_time_us)
{
  char name[NAME_BYTES];
  struct stat status;
  int fd = -1;

  int folder = gp_record_folder_open(root, true, &file->problem);
  if (folder < 0)
    return -1;
  (void)snprintf(name, sizeof(name), "%d-%llu", (int)pid, (unsigned long long)start_time_us);
  size_t length = gp_record_folder(root, file->path, sizeof(file->path)) ? strlen(file->path) : 0;
  int added = snprintf(file->path + length, sizeof(file->path) - length, "/%s", name);
  file->problem = "cannot create the file";
  if (added < 0 || (size_t)added >= sizeof(file->path) - length)
    errno = ENAMETOOLONG;
  else
    fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  int error = errno;
  if (fd >= 0 && fstat(fd, &status) == 0) {
    file->device = status.st_dev;
    file->inode = status.st_ino;
  }
  (void)close(folder); /* only needed to find the file */
  errno = error;
  return fd;
}

int gp_record_file_reopen(const gp_record_file_t *file)
{
  struct stat status;
  int fd = open(file->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return -1;
  if (fstat(fd, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
    return fd;
  (void)close(fd); /* the path now names another file */
  errno = ESTALE;
  return -1;
}

void gp_record_file_remove(const gp_record_file_t *file)
{
  struct stat status;
  if (lstat(file->path, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
    (void)unlink(file->path); /* a failure cannot be handled here */
}

/* Tests for other users of the file with a read lease. The kernel refuses a lease with EAGAIN while the file
 * is open for writing anywhere (fcntl(2)), and a shared writable mapping counts as open. */
bool gp_record_file_is_in_use(int fd, pid_t pid)
{
  if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
    (void)fcntl(fd, F_SETLEASE, F_UNLCK); /* the kernel has just granted it */
    return false;
  }
  if (errno == EAGAIN)
    return true;
  return kill(pid, 0) == 0 || errno != ESRCH; /* this file system has no leases: checks the pid in the name */
}

/* A record file whose program no longer runs. */
typedef struct leftover {
  uint64_t start_time_us;
  char name[NAME_BYTES];
} leftover_t;

static bool is_left_over(int folder, const char *name, leftover_t *ret_leftover)
{
  pid_t pid;
  if (strlen(name) >= NAME_BYTES || !gp_record_file_parse(name, &pid, &ret_leftover->start_time_us))
    return false;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return false;
  bool in_use = gp_record_file_is_in_use(fd, pid);
  (void)close(fd); /* cannot lose data: it was opened for inspection */
  strcpy(ret_leftover->name, name);
  return !in_use;
}

/* Adds a leftover file to kept[0..count) and returns the new count. If `kept` is full, deletes the oldest
 * file, which may be the new one. */
static unsigned keep(int folder, leftover_t *kept, unsigned count, const leftover_t *leftover)
{
  unsigned oldest = 0;
  if (count < GP_RECORD_FILES_KEPT) {
    kept[count] = *leftover;
    return count + 1;
  }
  for (unsigned i = 1; i < count; i++) {
    if (kept[i].start_time_us < kept[oldest].start_time_us)
      oldest = i;
  }
  bool is_newer = leftover->start_time_us > kept[oldest].start_time_us;
  (void)unlinkat(folder, is_newer ? kept[oldest].name : leftover->name, 0); /* may be removed already */
  if (is_newer)
    kept[oldest] = *leftover;
  return count;
}

/* An entry of getdents64(2), which is used here because readdir() allocates. */
struct entry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[];
};

unsigned gp_record_files_prune(const char *root)
{
  leftover_t kept[GP_RECORD_FILES_KEPT];
  leftover_t leftover;
  const char *problem;
  unsigned count = 0;

  int folder = gp_record_folder_open(root, false, &problem);
  if (folder < 0)
    return 0;
  char *buffer = gp_pages_map(LISTED_BYTES, false);
  long bytes;
  while (buffer && (bytes = syscall(SYS_getdents64, folder, buffer, (size_t)LISTED_BYTES)) > 0) {
    for (long at = 0; at < bytes;) {
      const struct entry *entry = (const struct entry *)(void *)(buffer + at);
      if (is_left_over(folder, entry->name, &leftover))
        count = keep(folder, kept, count, &leftover);
      at += entry->bytes;
    }
  }
  gp_pages_unmap(buffer, LISTED_BYTES);
  (void)close(folder); /* cannot lose data: it was opened for reading */
  return count;
}
