#include "tools/recover/recover_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/run_id.h"
#include "base/size.h"
#include "tools/array.h"
#include "tools/tool.h"
#include "trace/record/description.h"
#include "format/layout.h"
#include "format/record.h"

const char *gp_left_root(void)
{
  const char *root = getenv(gp_option_table[GP_OPTION_record].variable);
  return root && root[0] ? root : gp_option_table[GP_OPTION_record].default_text;
}

static int compare_newest_first(const void *a, const void *b)
{
  uint64_t first = ((const gp_left_t *)a)->start_time_us;
  uint64_t second = ((const gp_left_t *)b)->start_time_us;
  return first < second ? 1 : first > second ? -1 : 0;
}

static bool is_listed(const gp_left_list_t *list, const gp_left_t *left)
{
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].pid == left->pid && list->items[i].start_time_us == left->start_time_us)
      return true; /* two names of the same folder */
  }
  return false;
}

static bool look_at(int folder, const char *folder_path, const char *name, gp_left_t *ret_left)
{
  struct stat status;
  if (!gp_record_file_parse(name, &ret_left->pid, &ret_left->start_time_us))
    return false;
  int length = snprintf(ret_left->path, sizeof(ret_left->path), "%s/%s", folder_path, name);
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return false;
  bool is_file =
      fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (size_t)length < sizeof(ret_left->path);
  ret_left->bytes = is_file ? (uint64_t)status.st_blocks * 512 : 0;
  ret_left->is_running = is_file && gp_record_file_is_in_use(fd, ret_left->pid);
  close(fd);
  return is_file;
}

static int read_folder(int folder, const char *path, gp_left_list_t *list)
{
  DIR *stream = fdopendir(folder);
  const struct dirent *entry;
  if (!stream) {
    close(folder);
    gp_message("%s: %s", path, strerror(errno));
    return GP_EXIT_INPUT;
  }
  while ((entry = readdir(stream))) {
    gp_left_t left;
    if (!look_at(dirfd(stream), path, entry->d_name, &left) || is_listed(list, &left))
      continue;
    gp_left_t *item = GP_ARRAY_ADD(list->items, list->count);
    if (!item) {
      closedir(stream);
      gp_message("out of memory");
      return GP_EXIT_INPUT;
    }
    *item = left;
  }
  closedir(stream);
  return 0;
}

int gp_left_list_read(gp_left_list_t *list)
{
  char path[GP_RECORD_FILE_PATH_BYTES], session[64];
  const char *problem = NULL, *first_problem = NULL;
  int status = 0, error = 0;

  memset(list, 0, sizeof(*list));
  if (strcmp(gp_left_root(), "none") == 0)
    return 0;
  snprintf(session, sizeof(session), "/run/user/%u", (unsigned)geteuid());
  const char *const roots[] = {gp_left_root(), gp_record_second_root(), session};
  for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]) && !status; i++) {
    int folder = roots[i] ? gp_record_folder_open(roots[i], false, &problem) : -1;
    if (folder >= 0 && gp_record_folder(roots[i], path, sizeof(path))) {
      status = read_folder(folder, path, list);
      error = 0;
    } else if (folder >= 0) {
      close(folder);
    } else if (i == 0 && errno != ENOENT) {
      error = errno;
      first_problem = problem;
    }
  }
  if (error && !status) {
    gp_message("records in %s cannot be read: %s: %s", gp_left_root(), first_problem, strerror(error));
    status = GP_EXIT_INPUT;
  }
  if (list->count > 1)
    qsort(list->items, list->count, sizeof(list->items[0]), compare_newest_first);
  return status;
}

void gp_left_list_fini(gp_left_list_t *list)
{
  free(list->items);
  memset(list, 0, sizeof(*list));
}

/* A text of the description in a record; "?" for a record of another build, or without it. Reads only the
 * record's beginning. */
static void read_text(const char *path, const char *name, char *buffer, size_t capacity)
{
  struct {
    gp_record_header_t header;
    char text[4096 + 16];
  } first;
  snprintf(buffer, capacity, "?");
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return;
  ssize_t got = pread(fd, &first.header, sizeof(first.header), 0);
  uint64_t offset = first.header.sections[GP_SECTION_DESCRIPTION].offset;
  if (got == (ssize_t)sizeof(first.header) && memcmp(first.header.magic, GP_RECORD_MAGIC, 8) == 0 &&
      first.header.layout_hash == gp_layout_hash() && offset <= INT32_MAX &&
      (got = pread(fd, first.text, sizeof(first.text) - 1, (off_t)offset)) > 8) {
    first.text[got] = '\0';
    const gp_description_t description = {first.text + 8, (size_t)got - 8};
    const char *text = gp_description_find(&description, name);
    if (text)
      snprintf(buffer, capacity, "%s", text);
  }
  close(fd);
}

void gp_left_list_print(const gp_left_list_t *list)
{
  if (list->count == 0) {
    char root[GP_RECORD_FILE_PATH_BYTES];
    printf("No records in %s.\n", gp_printable(gp_left_root(), root, sizeof(root)));
    return;
  }
  printf("%10s  %-19s  %10s  %-8s  %s\n", "pid", "began", "size", "", "program");
  for (size_t i = 0; i < list->count; i++) {
    const gp_left_t *left = &list->items[i];
    char when[32] = "";
    char size[GP_SIZE_TEXT_BYTES];
    char program[4096];
    char shown[4096];
    struct tm local;
    time_t seconds = (time_t)(left->start_time_us / 1000000);
    if (localtime_r(&seconds, &local))
      strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    read_text(left->path, "program", program, sizeof(program));
    printf("%10d  %-19s  %10s  %-8s  %s\n", (int)left->pid, when, gp_size_format(left->bytes, size),
        left->is_running ? "running" : "ended", gp_printable(program, shown, sizeof(shown)));
  }
}

const gp_left_t *gp_left_list_find(const gp_left_list_t *list, pid_t pid)
{
  for (size_t i = 0; i < list->count; i++) {
    if (pid ? list->items[i].pid == pid : !list->items[i].is_running)
      return &list->items[i];
  }
  return NULL;
}

bool gp_left_is_of_run(const gp_left_t *left, const char *run)
{
  char runs[2 * GP_RUN_BYTES];
  read_text(left->path, "run", runs, sizeof(runs));
  return gp_run_id_is_valid(runs) && gp_run_id_holds(runs, run);
}
