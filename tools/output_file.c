#include "tools/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

#define OWNER_MODE 0600
#define GROUP_MODE 0060
#define ANY_MODE   0666

/* Mode bits that all inputs allow, and the group to which all inputs gave GROUP_MODE. */
static mode_t allowed = ANY_MODE;
static gid_t allowed_group = (gid_t)-1; /* no input yet */

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

/* Returns the folder in `path`, or "." if it contains none. The caller frees the text with free(). Returns
 * NULL if memory runs out. */
static char *folder_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash)
    return strdup(".");
  return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int check_folder(const char *path)
{
  struct stat status;
  char *folder = folder_of(path);
  int error = !folder ? ENOMEM : stat(folder, &status) ? errno : S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
  if (error == ENOENT || error == ENOTDIR)
    gp_message("%s: there is no folder %s", path, folder);
  else if (error)
    gp_message("%s: %s", path, strerror(error));
  free(folder);
  return error ? GP_EXIT_INPUT : 0;
}

int gp_output_file_check(const char *path, bool force)
{
  struct stat status;
  if (lstat(path, &status))
    return errno == ENOENT || errno == ENOTDIR ? check_folder(path) : failed(path, errno);
  if (!force)
    return refuse_existing(path);
  if (stat(path, &status) == 0)
    return S_ISDIR(status.st_mode) ? failed(path, EISDIR) : 0;
  gp_message("%s is a dangling link, and --force overwrites only files", path);
  return GP_EXIT_INPUT;
}

void gp_output_file_take_input(int fd)
{
  struct stat status;
  bool is_file = fd != STDIN_FILENO && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  allowed &= OWNER_MODE | (is_file ? status.st_mode : 0);
  if (!is_file)
    return;
  if (allowed_group != (gid_t)-1 && allowed_group != status.st_gid)
    allowed &= ~(mode_t)GROUP_MODE;
  allowed_group = status.st_gid;
}

/*
 * Restricts the file's mode before anything is written, because the file's group may differ from that of the
 * inputs. `kept` is the mode of the file to be replaced, which is an upper bound. `kept` is NULL for a new
 * file, whose mode open(2) derived from `allowed`. Returns 0 or an errno.
 */
static int restrict_mode(int fd, const mode_t *kept)
{
  struct stat status;
  if (fstat(fd, &status))
    return errno;
  mode_t mode = kept ? *kept & (allowed | ~(mode_t)ANY_MODE) & 0777 : status.st_mode & 0777;
  if (allowed_group != (gid_t)-1 && status.st_gid != allowed_group)
    mode &= ~(mode_t)GROUP_MODE;
  return mode == (status.st_mode & 0777) || fchmod(fd, mode) == 0 ? 0 : errno;
}

static int open_stream(gp_output_file_t *file, const char *path, int flags)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, allowed);
  file->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
  int error = errno;
  if (fd >= 0 && !file->stream)
    (void)close(fd); /* nothing was written */
  return file->stream ? 0 : error;
}

static const int signals[] = {
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

/* Path of the partial file, which has no final name yet. A signal that ends the process removes the file. */
static char part[8192];
static volatile sig_atomic_t has_part;
static struct sigaction before[SIGNAL_COUNT];

/* Signal handler that removes the partial file. Calls only functions that signal-safety(7) allows. Raises
 * the signal again, which ends the process when the handler returns. */
static void remove_part(int number)
{
  if (has_part)
    (void)unlink(part); /* ignores errors, because nothing else can be done */
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

/* Registers `path` as the partial file. Until end_part, a signal that would end the process first removes
 * this file. Such a signal may come from a user, a closed terminal or pipe, or a limit. Ignored signals stay
 * ignored. There is one partial file at a time. Returns 0 or ENAMETOOLONG. */
static int begin_part(const char *path)
{
  struct sigaction action = {.sa_handler = remove_part};
  size_t length = strlen(path);
  if (length >= sizeof(part))
    return ENAMETOOLONG;
  memcpy(part, path, length + 1);
  has_part = 1;
  for (size_t i = 0; i < SIGNAL_COUNT; i++) {
    (void)sigaction(signals[i], NULL, &before[i]); /* cannot fail, because the numbers are valid */
    if (before[i].sa_handler == SIG_DFL)
      (void)sigaction(signals[i], &action, NULL);
  }
  return 0;
}

/* Unregisters the partial file after it was renamed or removed, and restores the previous signal handlers. */
static void end_part(void)
{
  if (!has_part)
    return;
  has_part = 0;
  for (size_t i = 0; i < SIGNAL_COUNT; i++)
    (void)sigaction(signals[i], &before[i], NULL);
}

void gp_part_file_remove(void)
{
  if (has_part)
    (void)unlink(part); /* ignores errors, because nothing else can be done */
  end_part();
}

/* Opens a temporary file in the target's folder, so that it can be renamed. Its name contains this process's
 * pid. Replaces a file that an earlier process with the same pid left behind. Returns 0 or an errno. */
static int open_temporary(gp_output_file_t *file)
{
  if (!file->target || asprintf(&file->temporary, "%s.%d.part", file->target, (int)getpid()) < 0) {
    file->temporary = NULL;
    return ENOMEM;
  }
  (void)unlink(file->temporary); /* usually there is no such file */
  int error = begin_part(file->temporary);
  return error ? error : open_stream(file, file->temporary, O_CREAT | O_EXCL);
}

int gp_output_file_open(gp_output_file_t *file, const char *path, bool force)
{
  struct stat status;
  *file = (gp_output_file_t){.path = path && strcmp(path, "-") != 0 ? path : NULL, .force = force};
  if (!file->path) {
    file->stream = stdout;
    return 0;
  }
  int refused = gp_output_file_check(path, force);
  if (refused)
    return refused;
  bool exists = stat(path, &status) == 0;
  int error;
  if (exists && !S_ISREG(status.st_mode)) {
    error = open_stream(file, path, 0);
  } else {
    file->target = exists ? realpath(path, NULL) : strdup(path);
    error = open_temporary(file);
    if (!error)
      error = restrict_mode(fileno(file->stream), exists ? &status.st_mode : NULL);
  }
  if (!error)
    return 0;
  gp_output_file_discard(file);
  return failed(path, error);
}

/* Gives the temporary file its final name. Calls rename() only with `force`, because it would overwrite a
 * target that another program has created meanwhile. Returns 0 or an errno. */
static int put_in_place(const gp_output_file_t *file)
{
  struct stat status;
  if (file->force && lstat(file->target, &status) == 0 && !S_ISREG(status.st_mode))
    return EEXIST; /* the target is now not a regular file, which --force never replaces */
  if (file->force)
    return rename(file->temporary, file->target) ? errno : 0;
  if (link(file->temporary, file->target) == 0)
    return unlink(file->temporary) ? errno : 0;
  if (errno == EEXIST || access(file->target, F_OK) == 0)
    return EEXIST;
  return rename(file->temporary, file->target) ? errno : 0; /* the file system has no hard links */
}

int gp_output_file_close(gp_output_file_t *file)
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
  bool force = file->force;
  bool is_taken = error == EEXIST;
  if (!error) {
    free(file->temporary);
    file->temporary = NULL; /* the temporary file was renamed */
  }
  gp_output_file_discard(file);
  return !error ? 0 : is_taken && !force ? refuse_existing(path) : failed(path, error);
}

void gp_output_file_discard(gp_output_file_t *file)
{
  if (file->path && file->stream)
    (void)fclose(file->stream); /* the content is discarded, so errors do not matter */
  if (file->temporary)
    (void)unlink(file->temporary);
  end_part();
  free(file->target);
  free(file->temporary);
  *file = (gp_output_file_t){.stream = NULL};
}
