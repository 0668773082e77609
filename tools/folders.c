#include "tools/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/array.h"
#include "tools/tool.h"

static bool is_folder(const char *path)
{
  struct stat status;
  return strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_snapshots_name(const char *name)
{
  const char *dot = strrchr(name, '.');
  return name[0] != '.' && dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".pickle") == 0);
}

static int compare_paths(const void *a, const void *b)
{
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Appends FOLDER/NAME, or only what is there of it. False: no memory. */
static bool add(gp_request_t *request, const char *folder, const char *name)
{
  char *path;
  char **item = GP_ARRAY_ADD(request->found, request->found_count);
  size_t length = strlen(folder);
  const char *slash = name[0] && length > 0 && folder[length - 1] != '/' ? "/" : "";
  if (!item || asprintf(&path, "%s%s%s", folder, slash, name) < 0)
    return false;
  *item = path;
  return true;
}

/* Returns 0, ENOENT without a snapshot in it, or another errno. */
static int add_folder(gp_request_t *request, const char *path)
{
  size_t before = request->found_count;
  const struct dirent *entry;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
  int error = stream ? 0 : errno;

  if (!stream && fd >= 0)
    (void)close(fd);
  while (stream && !error && (entry = readdir(stream))) {
    if (is_snapshots_name(entry->d_name) && !add(request, path, entry->d_name))
      error = ENOMEM;
  }
  if (stream)
    (void)closedir(stream);
  size_t count = request->found_count - before;
  if (count > 0)
    qsort(request->found + before, count, sizeof(*request->found), compare_paths);
  return error || count > 0 ? error : ENOENT;
}

int gp_folders_expand(gp_request_t *request)
{
  bool has_folders = false;

  for (int i = 0; i < request->file_count; i++)
    has_folders = has_folders || is_folder(request->files[i]);
  for (int i = 0; has_folders && i < request->file_count; i++) {
    const char *path = request->files[i];
    int error = is_folder(path) ? add_folder(request, path) : add(request, path, "") ? 0 : ENOMEM;
    if (!error)
      continue;
    gp_message("%s: %s", path, error == ENOENT ? "the folder has no file .json or .pickle" : strerror(error));
    return GP_EXIT_INPUT;
  }
  if (has_folders) {
    request->files = request->found;
    request->file_count = (int)request->found_count;
  }
  return 0;
}

void gp_folders_fini(gp_request_t *request)
{
  for (size_t i = 0; i < request->found_count; i++)
    free(request->found[i]);
  free(request->found);
}
