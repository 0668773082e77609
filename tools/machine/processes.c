#include "tools/machine/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tools/array.h"

#define FILE_BYTES (1 << 20)

char *gp_target_read(pid_t pid, const char *name)
{
  char path[64];
  char *text = malloc(FILE_BYTES + 1);
  size_t used = 0;
  snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
  int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) {
    free(text);
    return NULL;
  }
  for (ssize_t got; used < FILE_BYTES && (got = read(fd, text + used, FILE_BYTES - used)) > 0;)
    used += (size_t)got;
  close(fd);
  text[used] = '\0';
  if (used == 0) { /* the kernel denies access, so nothing was read */
    free(text);
    return NULL;
  }
  return text;
}

const char *gp_target_variable(const char *environment, const char *name)
{
  size_t length = strlen(name);
  for (const char *p = environment; p && *p; p += strlen(p) + 1) {
    if (strncmp(p, name, length) == 0 && p[length] == '=')
      return p + length + 1;
  }
  return NULL;
}

/* Returns the last number in the line that begins with `name` in `status` (/proc/PID/status), or the line's
 * second number if `second`. Returns `fallback` if there is no such line. */
static unsigned long number_in_status(
    const char *status, const char *name, bool second, unsigned long fallback)
{
  const char *line = status ? strstr(status, name) : NULL;
  if (!line)
    return fallback;
  line += strlen(name);
  if (second) {
    char *end;
    (void)strtoul(line, &end, 10);
    return strtoul(end, NULL, 10);
  }
  const char *last = line + strcspn(line, "\n");
  while (last > line && isdigit((unsigned char)last[-1]))
    last--;
  return strtoul(last, NULL, 10);
}

void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target)
{
  char *status = gp_target_read(pid, "status");
  intruder[0] = '\0';
  *ret_target = (gp_target_t){.pid = pid,
      .inside = (pid_t)number_in_status(status, "\nNSpid:", false, (unsigned long)pid),
      .user = (uid_t)number_in_status(status, "\nUid:", true, owner),
      .owner = owner,
      .intruder = intruder};
  free(status);
}

bool gp_target_has_user(const gp_target_t *target, uid_t user)
{
  return user == target->user || user == target->owner;
}

#define ID_DIGITS  64 /* length of a container id in all runtimes that use control groups */
#define ID_SHOWN   12 /* number of characters of the id that `docker ps` shows */
#define UID_LENGTH 36 /* length of a pod's UID */

/* Calls stat(2) for /proc/PID/NAME, and follows links. */
static bool stat_of(const char *pid, const char *name, struct stat *ret_status)
{
  char path[64];
  snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
  return stat(path, ret_status) == 0;
}

static bool read_place(const char *pid, gp_place_t *ret_place)
{
  struct stat mounts, root;
  if (!stat_of(pid, "ns/mnt", &mounts) || !stat_of(pid, "root", &root))
    return false;
  *ret_place = (gp_place_t){mounts.st_ino, root.st_dev, root.st_ino, (pid_t)atoi(pid)};
  return true;
}

/* Returns the index of `place`, and adds it if it is new. Returns SIZE_MAX if memory runs out. */
static size_t index_of(gp_processes_t *processes, const gp_place_t *place)
{
  for (size_t i = processes->place_count; i-- > 0;) {
    const gp_place_t *known = &processes->places[i];
    if (known->mounts == place->mounts && known->root_device == place->root_device &&
        known->root_inode == place->root_inode)
      return i;
  }
  gp_place_t *added = GP_ARRAY_ADD(processes->places, processes->place_count);
  if (!added)
    return SIZE_MAX;
  *added = *place;
  return processes->place_count - 1;
}

static int add(gp_processes_t *processes, const char *name, ino_t own_numbers)
{
  gp_place_t place;
  struct stat numbers, folder;
  gp_target_t target = {.inside = (pid_t)atoi(name)};
  char intruder[4096];

  if (!read_place(name, &place) || !stat_of(name, "", &folder))
    return 0; /* the process belongs to another user, or has ended */
  if (stat_of(name, "ns/pid", &numbers) && numbers.st_ino != own_numbers)
    gp_target_find(place.pid, 0, intruder, &target);
  size_t index = index_of(processes, &place);
  gp_process_t *added = index == SIZE_MAX ? NULL : GP_ARRAY_ADD(processes->items, processes->count);
  if (!added)
    return ENOMEM;
  *added = (gp_process_t){place.pid, target.inside, folder.st_uid, index};
  return 0;
}

static int compare(const void *a, const void *b)
{
  const gp_process_t *x = a, *y = b;
  if (x->inside != y->inside)
    return (x->inside > y->inside) - (x->inside < y->inside);
  return (x->pid > y->pid) - (x->pid < y->pid);
}

int gp_processes_read(gp_processes_t *processes)
{
  struct stat own = {0};
  gp_place_t place;
  int error = 0;

  *processes = (gp_processes_t){0};
  DIR *folder = opendir("/proc");
  if (!folder || !read_place("self", &place) || !stat_of("self", "ns/pid", &own)) {
    if (folder)
      closedir(folder);
    return 0; /* returns no processes, because they cannot be distinguished without /proc */
  }
  place.pid = getpid();
  error = index_of(processes, &place) == SIZE_MAX ? ENOMEM : 0;
  for (const struct dirent *entry; !error && (entry = readdir(folder));) {
    if (isdigit((unsigned char)entry->d_name[0]))
      error = add(processes, entry->d_name, own.st_ino);
  }
  closedir(folder);
  if (processes->count > 1)
    qsort(processes->items, processes->count, sizeof(processes->items[0]), compare);
  return error;
}

void gp_processes_fini(gp_processes_t *processes)
{
  free(processes->items);
  free(processes->places);
  *processes = (gp_processes_t){0};
}

/* Returns true if /proc/PID/maps lists the file. */
static bool has_mapped(pid_t pid, dev_t device, uint64_t inode)
{
  char path[64], line[512];
  snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "re");
  bool found = false;
  while (maps && !found && fgets(line, sizeof(line), maps)) {
    unsigned major_number, minor_number;
    unsigned long long file;
    found = sscanf(line, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &file) == 3 &&
            file == inode && makedev(major_number, minor_number) == device;
  }
  if (maps)
    fclose(maps);
  return found;
}

/* Returns the index of the first process with pid `inside`, or the index where it would be. */
static size_t first_of(const gp_processes_t *processes, pid_t inside)
{
  size_t low = 0, high = processes->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (processes->items[middle].inside < inside)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

pid_t gp_processes_find(const gp_processes_t *processes, pid_t inside, const gp_place_t *place, uid_t user,
    dev_t device, uint64_t inode)
{
  size_t first = first_of(processes, inside), end = first;
  size_t index = place ? (size_t)(place - processes->places) : 0;

  while (end < processes->count && processes->items[end].inside == inside)
    end++;
  if (end - first == 1 && processes->items[first].place == index && processes->items[first].user == user)
    return processes->items[first].pid;
  for (size_t i = first; i < end; i++) {
    if (has_mapped(processes->items[i].pid, device, inode))
      return processes->items[i].pid;
  }
  return -1;
}

static size_t hex_digits(const char *text)
{
  return strspn(text, "0123456789abcdef");
}

static void find_container(const char *groups, char *container)
{
  for (const char *at = groups; *at; at++) {
    size_t digits = hex_digits(at);
    if (digits == ID_DIGITS)
      snprintf(container, GP_CONTAINER_BYTES, "%.*s", ID_SHOWN, at); /* the last id is the innermost */
    at += digits;
    if (!*at)
      return;
  }
}

/* Finds "pod" followed by a UID. systemd replaces the dashes of the UID by underscores. */
static void find_pod(const char *groups, char *pod)
{
  for (const char *at = groups; (at = strstr(at, "pod")); at++) {
    const char *uid = at + strlen("pod");
    if (strspn(uid, "0123456789abcdef-_") != UID_LENGTH)
      continue;
    snprintf(pod, GP_POD_BYTES, "%.*s", UID_LENGTH, uid);
    for (char *p = pod; *p; p++)
      *p = *p == '_' ? '-' : *p;
  }
}

void gp_container_of_groups(const char *groups, char *container, char *pod)
{
  container[0] = pod[0] = '\0';
  find_container(groups, container);
  find_pod(groups, pod);
}

void gp_process_container(pid_t pid, char *container, char *pod)
{
  char *groups = gp_target_read(pid, "cgroup");
  gp_container_of_groups(groups ? groups : "", container, pod);
  free(groups);
}
