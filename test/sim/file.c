/*
 * Files without a name that stand behind memory: the processes that have a descriptor of one map it.
 */
#include "file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A write behind RLIMIT_FSIZE would end the program by a signal. */
bool sim_file_new(sim_file_t *ret, const char *name, uint64_t size)
{
  struct rlimit limit;
  *ret = (sim_file_t){0};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
    return false;
  int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0)
    return false;
  if (ftruncate(descriptor, (off_t)size) == 0 && sim_file_look_at(ret, descriptor))
    return true;
  close(descriptor);
  return false;
}

bool sim_file_look_at(sim_file_t *ret, int descriptor)
{
  struct stat stat;
  if (fstat(descriptor, &stat) != 0 || !S_ISREG(stat.st_mode))
    return false;
  *ret = (sim_file_t){.system = stat.st_dev, .inode = stat.st_ino, .descriptor = descriptor};
  return true;
}

bool sim_file_is_same(const sim_file_t *a, const sim_file_t *b)
{
  return a->inode == b->inode && a->system == b->system;
}

bool sim_file_is_there(const sim_file_t *file)
{
  sim_file_t now;
  return file->inode && sim_file_look_at(&now, file->descriptor) && sim_file_is_same(&now, file);
}

int sim_file_copy(const sim_file_t *file)
{
  return sim_file_is_there(file) ? fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0) : -1;
}

/* A lock goes with what was opened, whatever process has a descriptor of that. */
int sim_file_share(const sim_file_t *file)
{
  char path[64];
  if (!sim_file_is_there(file))
    return -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file->descriptor);
  int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_SH) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

bool sim_file_is_shared(const sim_file_t *file)
{
  if (!sim_file_is_there(file))
    return false;
  bool is_shared = flock(file->descriptor, LOCK_EX | LOCK_NB) != 0;
  if (!is_shared)
    (void)flock(file->descriptor, LOCK_UN);
  return is_shared;
}

void sim_file_close(const sim_file_t *file)
{
  if (sim_file_is_there(file))
    close(file->descriptor);
}
