#include "trace/snapshot/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEMPORARY_TRIES 100
#define NAME_TRIES      100000

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* The length of the folder in path, with its slash; 0: none. */
static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

static int open_temporary(gp_snapshot_file_t *file)
{
  size_t folder = folder_length(file->path);
  for (int i = 0; i < TEMPORARY_TRIES; i++) {
    /* A name of its own, because the file's name plus a suffix could be too long. */
    int length = snprintf(file->temporary, sizeof(file->temporary), "%.*s.gpupool-%d-%u.tmp", (int)folder,
        file->path, (int)getpid(), ++file->temporaries);
    if (length < 0 || (size_t)length >= sizeof(file->temporary))
      return ENAMETOOLONG;
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd >= 0)
      return 0;
    if (errno != EEXIST)
      return errno;
  }
  return EEXIST;
}

int gp_snapshot_file_open(gp_snapshot_file_t *file, const char *path, bool may_fall_back)
{
  file->fell_back = false;
  if (strlen(path) >= sizeof(file->path))
    return ENAMETOOLONG;
  strcpy(file->path, path);
  int error = open_temporary(file);
  if (!error || !may_fall_back)
    return error;

  const char *folder = secure_getenv("TMPDIR");
  if (!folder || !folder[0])
    folder = "/tmp";
  int length = snprintf(file->path, sizeof(file->path), "%s/%s", folder, path + folder_length(path));
  if (length < 0 || (size_t)length >= sizeof(file->path) || open_temporary(file))
    return error;
  file->fell_back = true;
  return 0;
}

/* Renames unless `name` exists: then EEXIST. */
static int rename_new(const char *temporary, const char *name)
{
  if (syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  /* The file system cannot do that: NFS, and others. */
  if (link(temporary, name))
    return errno;
  (void)unlink(temporary); /* both names are right; the caller removes a remaining one */
  return 0;
}

int gp_snapshot_file_publish(gp_snapshot_file_t *file)
{
  int error = close(file->fd) ? errno : 0;
  file->fd = -1;
  if (error && error != EINTR) {   /* here a network file system reports data that it could not store */
    (void)unlink(file->temporary); /* nothing more can be done about it */
    return error;
  }
  error = EEXIST;
  for (int i = 0; i < NAME_TRIES && error == EEXIST; i++) {
    int length = i == 0 ? snprintf(file->published, sizeof(file->published), "%s", file->path)
                        : snprintf(file->published, sizeof(file->published), "%s.%d", file->path, i);
    error = length < 0 || (size_t)length >= sizeof(file->published)
                ? ENAMETOOLONG
                : rename_new(file->temporary, file->published);
  }
  if (error)
    (void)unlink(file->temporary); /* nothing more can be done about it */
  return error;
}

void gp_snapshot_file_discard(gp_snapshot_file_t *file)
{
  if (file->fd >= 0)
    (void)close(file->fd); /* gives up its content */
  file->fd = -1;
  (void)unlink(file->temporary); /* nothing more can be done about it */
}
