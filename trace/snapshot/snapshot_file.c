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

/* Returns the length of the path's folder, including the slash, or 0 if there is no folder. */
static size_t folder_length(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

static int open_temporary(gp_snapshot_file_t *file)
{
  size_t folder = folder_length(file->path);
  for (int i = 0; i < TEMPORARY_TRIES; i++) {
    /* Does not use the file's name, which with a suffix could be too long. */
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

/* Renames `temporary` to `name`. Returns 0, or an errno: EEXIST if `name` already exists. */
static int rename_new(const char *temporary, const char *name)
{
  if (syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  /* Some file systems, such as NFS, do not support RENAME_NOREPLACE. */
  if (link(temporary, name))
    return errno;
  (void)unlink(temporary); /* on failure the file has two names, which is harmless */
  return 0;
}

int gp_snapshot_file_publish(gp_snapshot_file_t *file)
{
  int error = close(file->fd) ? errno : 0;
  file->fd = -1;
  if (error && error != EINTR) {   /* a network file system reports lost data here */
    (void)unlink(file->temporary); /* a failure cannot be handled here */
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
    (void)unlink(file->temporary); /* a failure cannot be handled here */
  return error;
}

void gp_snapshot_file_discard(gp_snapshot_file_t *file)
{
  if (file->fd >= 0)
    (void)close(file->fd); /* the content is not needed */
  file->fd = -1;
  (void)unlink(file->temporary); /* a failure cannot be handled here */
}
