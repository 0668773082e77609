#include "tools/machine/record_walk.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "tools/array.h"
#include "trace/region/record_file.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PREFIX       "gpupool."

typedef struct folder_id {
  dev_t device;
  ino_t inode;
} folder_id_t;

typedef struct walk {
  gp_record_visit_fn visit;
  void *self;
  bool is_of_all;      /* users */
  folder_id_t *walked; /* one folder may have several names */
  size_t walked_count;
} walk_t;

const char *gp_record_root(void)
{
  const char *root = getenv(gp_option_table[GP_OPTION_record].variable);
  return root && root[0] ? root : gp_option_table[GP_OPTION_record].default_text;
}

static bool parse_user(const char *name, uid_t *ret_user)
{
  char *end;
  if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || !isdigit((unsigned char)name[strlen(PREFIX)]))
    return false;
  errno = 0;
  unsigned long user = strtoul(name + strlen(PREFIX), &end, 10);
  *ret_user = (uid_t)user;
  return *end == '\0' && errno == 0 && user <= UINT32_MAX;
}

static int visit_file(const walk_t *walk, int folder, gp_found_record_t *found)
{
  struct stat status;
  int error = 0;

  if (!gp_record_file_parse(found->name, &found->pid, &found->start_time_us))
    return 0;
  found->fd = openat(folder, found->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (found->fd < 0)
    return 0;
  if (fstat(found->fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == found->user) {
    found->inode = status.st_ino;
    found->device = status.st_dev;
    found->bytes = (uint64_t)status.st_blocks * 512;
    error = walk->visit(walk->self, found);
  }
  close(found->fd);
  return error;
}

/* Returns 0 if the folder is to be walked, or EEXIST or ENOMEM. */
static int note_folder(walk_t *walk, const struct stat *status)
{
  for (size_t i = 0; i < walk->walked_count; i++) {
    if (walk->walked[i].device == status->st_dev && walk->walked[i].inode == status->st_ino)
      return EEXIST;
  }
  folder_id_t *added = GP_ARRAY_ADD(walk->walked, walk->walked_count);
  if (!added)
    return ENOMEM;
  *added = (folder_id_t){status->st_dev, status->st_ino};
  return 0;
}

/* The folder of one user's records. Only its owner may be able to enter it. */
static int walk_user(walk_t *walk, int root, const char *root_path, const char *name, const gp_place_t *place)
{
  char path[GP_RECORD_FILE_PATH_BYTES];
  struct stat status;
  gp_found_record_t found = {.folder = path, .place = place};
  int error = 0;

  if (!parse_user(name, &found.user) || (!walk->is_of_all && found.user != geteuid()))
    return 0;
  int folder = openat(root, name, FOLDER_FLAGS);
  bool is_theirs = folder >= 0 && fstat(folder, &status) == 0 && status.st_uid == found.user &&
                   (status.st_mode & 077) == 0;
  if (is_theirs)
    error = note_folder(walk, &status);
  DIR *stream = is_theirs && !error ? fdopendir(folder) : NULL;
  if (!stream) {
    if (folder >= 0)
      close(folder);
    return error == ENOMEM ? ENOMEM : 0;
  }
  int length = snprintf(path, sizeof(path), "%s/%s", root_path, name);
  for (const struct dirent *entry; !error && (size_t)length < sizeof(path) && (entry = readdir(stream));) {
    found.name = entry->d_name;
    error = visit_file(walk, folder, &found);
  }
  closedir(stream);
  return error;
}

/* A folder that has one for each user. Takes root, a descriptor; -1: nothing to walk. */
static int walk_root(walk_t *walk, int root, const char *path, const gp_place_t *place)
{
  char own[32];
  int error = 0;
  if (root < 0)
    return 0;
  if (!walk->is_of_all) {
    snprintf(own, sizeof(own), PREFIX "%u", (unsigned)geteuid());
    error = walk_user(walk, root, path, own, place);
    close(root);
    return error;
  }
  DIR *stream = fdopendir(root);
  if (!stream) {
    close(root);
    return 0;
  }
  for (const struct dirent *entry; !error && (entry = readdir(stream));)
    error = walk_user(walk, dirfd(stream), path, entry->d_name, place);
  closedir(stream);
  return error;
}

static int open_root(const char *path)
{
  return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* /run/user/UID of this user, or of all. */
static int walk_sessions(walk_t *walk)
{
  char path[300];
  int error = 0;
  if (!walk->is_of_all) {
    snprintf(path, sizeof(path), "/run/user/%u", (unsigned)geteuid());
    return walk_root(walk, open_root(path), path, NULL);
  }
  DIR *stream = opendir("/run/user");
  for (const struct dirent *entry; stream && !error && (entry = readdir(stream));) {
    if (!isdigit((unsigned char)entry->d_name[0]))
      continue;
    snprintf(path, sizeof(path), "/run/user/%s", entry->d_name);
    error = walk_root(walk, open_root(path), path, NULL);
  }
  if (stream)
    closedir(stream);
  return error;
}

/* /dev/shm of another place, step by step: a link there would lead somewhere in our own. */
static int walk_place(walk_t *walk, const gp_place_t *place)
{
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/root", (int)place->pid);
  int root = open_root(path);
  int devices = root < 0 ? -1 : openat(root, "dev", FOLDER_FLAGS);
  int shared = devices < 0 ? -1 : openat(devices, "shm", FOLDER_FLAGS);
  if (devices >= 0)
    close(devices);
  if (root >= 0)
    close(root);
  strcat(path, "/dev/shm");
  return walk_root(walk, shared, path, place);
}

int gp_records_walk(const gp_processes_t *processes, gp_record_visit_fn visit, void *self)
{
  walk_t walk = {visit, self, processes && geteuid() == 0, NULL, 0};
  const char *root = gp_record_root(), *second = gp_record_second_root();
  int error = 0;

  if (strcmp(root, "none") != 0)
    error = walk_root(&walk, open_root(root), root, NULL);
  if (!error && second)
    error = walk_root(&walk, open_root(second), second, NULL);
  if (!error)
    error = walk_sessions(&walk);
  for (size_t i = 1; processes && !error && i < processes->place_count; i++)
    error = walk_place(&walk, &processes->places[i]);
  free(walk.walked);
  return error;
}
