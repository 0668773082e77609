#include "tools/export/export_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

static int refuse_existing(const char *path)
{
  gp_message("%s exists; --force overwrites it", path);
  return GP_EXIT_USAGE;
}

static int failed(const char *path, int error)
{
  gp_message("%s: %s", path ? path : "the output", strerror(error));
  return GP_EXIT_INPUT;
}

static int open_stream(gp_export_file_t *file, const char *path, int flags)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
  file->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
  int error = errno;
  if (fd >= 0 && !file->stream)
    (void)close(fd); /* nothing was written */
  return file->stream ? 0 : error;
}

/* Beside the file, so that it can take its name. Of this process; what an earlier one of its number left is replaced. */
static int open_temporary(gp_export_file_t *file)
{
  if (!file->target || asprintf(&file->temporary, "%s.%d.part", file->target, (int)getpid()) < 0) {
    file->temporary = NULL;
    return ENOMEM;
  }
  (void)unlink(file->temporary); /* usually there is none */
  return open_stream(file, file->temporary, O_CREAT | O_EXCL);
}

int gp_export_file_open(gp_export_file_t *file, const char *path, bool force, bool is_binary)
{
  struct stat status;
  *file = (gp_export_file_t){.path = path && strcmp(path, "-") != 0 ? path : NULL, .force = force};
  if (!file->path) {
    if (is_binary && isatty(STDOUT_FILENO))
      return gp_message_usage("export", "export: this format is not for a terminal; -o names a file");
    file->stream = stdout;
    return 0;
  }
  bool exists = lstat(path, &status) == 0;
  if (exists && !force)
    return refuse_existing(path);
  if (exists && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
    return failed(path, EISDIR);
  int error;
  if (exists && stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
    error = open_stream(file, path, 0);
  } else {
    file->target = exists ? realpath(path, NULL) : NULL;
    if (!file->target)
      file->target = strdup(path); /* new, or a link to nothing, which is replaced */
    error = open_temporary(file);
  }
  if (!error)
    return 0;
  gp_export_file_discard(file);
  return failed(path, error);
}

/* Not rename(), unless overwriting was asked for: somebody else may have made that file meanwhile. */
static int put_in_place(const gp_export_file_t *file)
{
  if (file->force)
    return rename(file->temporary, file->target) ? errno : 0;
  if (link(file->temporary, file->target) == 0)
    return unlink(file->temporary) ? errno : 0;
  if (errno == EEXIST || access(file->target, F_OK) == 0)
    return EEXIST;
  return rename(file->temporary, file->target) ? errno : 0; /* a file system without links */
}

int gp_export_file_close(gp_export_file_t *file)
{
  errno = 0;
  bool has_failed = fflush(file->stream) != 0 || ferror(file->stream);
  int error = has_failed ? (errno ? errno : EIO) : 0;
  if (file->path && fclose(file->stream) && !error)
    error = errno;
  file->stream = NULL;
  if (!error && file->target)
    error = put_in_place(file);
  const char *path = file->path;
  bool is_taken = error == EEXIST;
  if (!error) {
    free(file->temporary);
    file->temporary = NULL; /* it has its name */
  }
  gp_export_file_discard(file);
  return !error ? 0 : is_taken ? refuse_existing(path) : failed(path, error);
}

void gp_export_file_discard(gp_export_file_t *file)
{
  if (file->path && file->stream)
    (void)fclose(file->stream); /* it is given up */
  if (file->temporary)
    (void)unlink(file->temporary);
  free(file->target);
  free(file->temporary);
  *file = (gp_export_file_t){.stream = NULL};
}
