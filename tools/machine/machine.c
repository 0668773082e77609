#include "tools/machine/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/array.h"
#include "tools/saturated.h"
#include "tools/tool.h"
#include "trace/region/record_file.h"
#include "format/heap_counts.h"
#include "format/layout.h"

#define HEAPS_PLACE  (offsetof(gp_record_header_t, sections) + GP_SECTION_HEAPS * sizeof(gp_section_place_t))
#define LENGTH_BYTES 8 /* length field in front of the description's text */
#define READS        8 /* one read may coincide with an operation, eight almost never do */

static size_t read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
  ssize_t got;
  if (offset > INT64_MAX - bytes)
    return 0;
  do
    got = pread(fd, buffer, bytes, (off_t)offset);
  while (got < 0 && errno == EINTR);
  return got < 0 ? 0 : (size_t)got;
}

static void read_description(int fd, gp_record_look_t *look)
{
  uint64_t length = 0, offset = look->header.sections[GP_SECTION_DESCRIPTION].offset;
  size_t got = 0;
  if (offset && read_at(fd, &length, sizeof(length), offset) == LENGTH_BYTES &&
      length <= GP_DESCRIPTION_BYTES)
    got = read_at(
        fd, look->text, length < sizeof(look->text) ? length : sizeof(look->text) - 1, offset + LENGTH_BYTES);
  look->text[got] = '\0';
  look->description = (gp_description_t){look->text, got};
}

gp_look_result_t gp_record_look(int fd, gp_record_look_t *ret_look)
{
  gp_record_header_t *header = &ret_look->header;
  ret_look->text[0] = '\0';
  ret_look->description = (gp_description_t){ret_look->text, 0};
  ret_look->device_bytes = 0;
  if (read_at(fd, header, sizeof(*header), 0) != sizeof(*header) ||
      memcmp(header->magic, GP_RECORD_MAGIC, sizeof(header->magic)) != 0 ||
      header->byte_order != GP_RECORD_BYTE_ORDER)
    return GP_LOOK_NOTHING;
  header->library_version[sizeof(header->library_version) - 1] = '\0';
  if (header->layout_hash != gp_layout_hash())
    return GP_LOOK_OTHER_BUILD;
  read_description(fd, ret_look);
  uint64_t used = header->sections[GP_SECTION_DEVICES].used;
  ret_look->device_bytes = used < GP_MAX_DEVICES * sizeof(gp_device_record_t)
                               ? (size_t)used
                               : GP_MAX_DEVICES * sizeof(gp_device_record_t);
  return GP_LOOK_DONE;
}

/* Returns true if `stats` satisfies the invariants that hold for a device unless an operation is in progress
 * (format/stats.h, pool/check.c). */
static bool is_settled(const gp_stats_t *stats)
{
  bool good = stats->active_bytes.current == stats->allocated_bytes.current + stats->deferred_bytes.current &&
              stats->allocation.allocated == stats->cache_hits + stats->cache_misses;
#define GAUGE(name, ...)                                                                                     \
  good &= stats->name.current == stats->name.allocated - stats->name.freed &&                                \
          stats->name.current <= stats->name.peak && stats->name.current <= INT64_MAX;
#include "format/stats.def"
  return good;
}

static bool read_device(int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device)
{
  uint64_t place = (uint64_t)ordinal * sizeof(*ret_device);
  return place + sizeof(*ret_device) <= look->device_bytes &&
         read_at(fd, ret_device, sizeof(*ret_device),
             look->header.sections[GP_SECTION_DEVICES].offset + place) == sizeof(*ret_device) &&
         ret_device->is_known == 1;
}

/* Adds the counts of the threads' heaps to `stats`. Returns false if a heap was adding its counts to the
 * device's statistics at that moment. */
static bool add_heaps(int fd, int ordinal, gp_stats_t *stats)
{
  gp_section_place_t heaps;
  gp_heap_counts_t counts;
  bool is_settled = true;

  if (read_at(fd, &heaps, sizeof(heaps), HEAPS_PLACE) != sizeof(heaps))
    return true;
  for (uint64_t i = 0; i < GP_HEAPS_MAX && (i + 1) * sizeof(counts) <= heaps.used; i++) {
    if (read_at(fd, &counts, sizeof(counts), heaps.offset + i * sizeof(counts)) != sizeof(counts))
      break;
    if (counts.device != (uint32_t)ordinal + 1)
      continue;
    is_settled &= atomic_load_explicit(&counts.fold, memory_order_relaxed) == GP_HEAP_FOLD_NONE;
    gp_stats_add_heap(stats, &counts);
  }
  return is_settled;
}

/* A heap adds its counts to the device's statistics only while these change. So this reads the statistics
 * before and after it reads the heaps' counts, and retries if they differ. */
bool gp_record_look_device(
    int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device, bool *ret_is_settled)
{
  gp_device_record_t after;
  gp_stats_t own;
  *ret_is_settled = false;
  for (int i = 0; i < READS && !*ret_is_settled; i++) {
    if (!read_device(fd, look, ordinal, ret_device))
      return false;
    own = ret_device->stats;
    *ret_is_settled = add_heaps(fd, ordinal, &ret_device->stats);
    if (!read_device(fd, look, ordinal, &after))
      return false;
    *ret_is_settled &= memcmp(&own, &after.stats, sizeof(own)) == 0 && is_settled(&ret_device->stats);
  }
  if (!*ret_is_settled)
    ret_device->stats = own; /* no heaps' counts: sums of different moments could be negative */
  gp_stats_join_peaks(&ret_device->stats);
  return true;
}

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PREFIX       "gpupool."

typedef struct folder_id {
  dev_t device;
  ino_t inode;
} folder_id_t;

typedef struct walk {
  gp_record_visit_fn visit;
  void *self;
  bool is_of_all;      /* the user is root, who reads the records of all users */
  folder_id_t *walked; /* folders already walked, because a folder may have several names */
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

/* Adds a folder to the walked ones. Returns 0 if it was not walked yet, EEXIST if it was, or ENOMEM. */
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

/* Walks the folder of one user's records, if that user owns it and no other user can enter it. */
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

/* Walks a folder that has a subfolder for each user. `root` is its descriptor, which this closes. If `root`
 * is -1, does nothing. */
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

/* Walks /run/user/UID of this user, or of all users. */
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

/* Walks /dev/shm of another process's file system. Opens each folder of the path separately, because a link
 * there would resolve in this process's file system. */
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

typedef struct reading {
  gp_machine_t *machine;
  gp_processes_t processes;
  gp_record_look_t look;
} reading_t;

/* Builds the command from the recorded arguments, but replaces the first argument by the program's name. */
void gp_machine_describe(const gp_record_look_t *look, gp_machine_process_t *process)
{
  const gp_description_t *description = &look->description;
  const char *program = gp_description_find(description, "program");
  const char *host = gp_description_find(description, "host");
  const char *slash = program ? strrchr(program, '/') : NULL;
  char command[GP_COMMAND_BYTES];
  gp_description_pair_t pair;
  bool is_first = true;

  gp_printable(slash ? slash + 1 : program ? program : "?", process->program, sizeof(process->program));
  gp_printable(host ? host : "", process->host, sizeof(process->host));
  gp_printable(look->header.library_version, process->version, sizeof(process->version));
  size_t used = (size_t)snprintf(command, sizeof(command), "%s", process->program);
  for (size_t at = 0; used < sizeof(command) && gp_description_next(description, &at, &pair);) {
    if (strcmp(pair.key, "argument") != 0)
      continue;
    if (!is_first)
      used += (size_t)snprintf(command + used, sizeof(command) - used, " %s", pair.value);
    is_first = false;
  }
  gp_printable(command, process->command, sizeof(process->command));
}

void gp_machine_figures(const gp_device_record_t *record, gp_machine_device_t *device)
{
  const gp_stats_t *stats = &record->stats;
  *device = (gp_machine_device_t){
      .held = gp_add_saturated(stats->reserved_bytes.current, stats->passthrough_bytes.current),
      .peak = gp_add_saturated(stats->reserved_bytes.peak, stats->passthrough_bytes.peak),
      .used = gp_add_saturated(stats->requested_bytes.current, stats->passthrough_bytes.current),
      .cached = stats->cached_bytes.current,
      .pinned = stats->pinned_host_bytes.current,
      .limit = record->limit,
      .hits = stats->cache_hits,
      .misses = stats->cache_misses,
      .driver_calls = gp_add_saturated(stats->driver_allocs, stats->driver_frees),
      .ooms = stats->num_ooms};
}

static int add_device(reading_t *reading, int fd, int ordinal)
{
  gp_machine_t *machine = reading->machine;
  gp_device_record_t record;
  bool is_settled;

  if (!gp_record_look_device(fd, &reading->look, ordinal, &record, &is_settled))
    return 0;
  gp_machine_device_t *device = GP_ARRAY_ADD(machine->devices, machine->device_count);
  if (!device)
    return ENOMEM;
  gp_machine_figures(&record, device);
  device->process = machine->process_count - 1;
  device->ordinal = ordinal;
  device->is_settled = is_settled;
  machine->processes[device->process].device_count++;
  return 0;
}

static int add_process(void *self, const gp_found_record_t *found)
{
  reading_t *reading = self;
  gp_machine_t *machine = reading->machine;
  int error = 0;

  if (!gp_record_file_is_in_use(found->fd, found->pid))
    return 0;
  gp_look_result_t result = gp_record_look(found->fd, &reading->look);
  if (result == GP_LOOK_NOTHING)
    return 0;
  gp_machine_process_t *process = GP_ARRAY_ADD(machine->processes, machine->process_count);
  if (!process)
    return ENOMEM;
  process->pid = gp_processes_find(
      &reading->processes, found->pid, found->place, found->user, found->device, found->inode);
  process->inside = found->pid;
  process->user = found->user;
  process->start_time_us = found->start_time_us;
  process->is_of_other_build = result == GP_LOOK_OTHER_BUILD;
  process->first_device = machine->device_count;
  gp_machine_describe(&reading->look, process);
  if (process->pid > 0)
    gp_process_container(process->pid, process->container, process->pod);
  for (int ordinal = 0; !error && !process->is_of_other_build && ordinal < GP_MAX_DEVICES; ordinal++)
    error = add_device(reading, found->fd, ordinal);
  return error;
}

int gp_machine_visit(gp_record_visit_fn visit, void *self)
{
  gp_processes_t processes;
  int error = gp_processes_read(&processes);
  if (!error)
    error = gp_records_walk(&processes, visit, self);
  gp_processes_fini(&processes);
  return error;
}

int gp_machine_read(gp_machine_t *machine)
{
  *machine = (gp_machine_t){0};
  reading_t *reading = calloc(1, sizeof(*reading));
  if (!reading)
    return ENOMEM;
  reading->machine = machine;
  int error = gp_processes_read(&reading->processes);
  if (!error)
    error = gp_records_walk(&reading->processes, add_process, reading);
  gp_processes_fini(&reading->processes);
  free(reading);
  return error;
}

void gp_machine_fini(gp_machine_t *machine)
{
  free(machine->processes);
  free(machine->devices);
  *machine = (gp_machine_t){0};
}
