#include "tools/recover/recover_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/run_id.h"
#include "tools/array.h"
#include "tools/machine/record_look.h"
#include "tools/machine/record_walk.h"
#include "tools/output.h"
#include "tools/tool.h"

static int compare_newest_first(const void *a, const void *b)
{
  uint64_t first = ((const gp_left_t *)a)->start_time_us;
  uint64_t second = ((const gp_left_t *)b)->start_time_us;
  return first < second ? 1 : first > second ? -1 : 0;
}

static int add_record(void *self, const gp_found_record_t *found)
{
  gp_left_list_t *list = self;
  gp_left_t left = {.pid = found->pid, .start_time_us = found->start_time_us, .bytes = found->bytes};
  int length = snprintf(left.path, sizeof(left.path), "%s/%s", found->folder, found->name);
  if ((size_t)length >= sizeof(left.path))
    return 0;
  left.is_running = gp_record_file_is_in_use(found->fd, found->pid);
  gp_left_t *item = GP_ARRAY_ADD(list->items, list->count);
  if (!item)
    return ENOMEM;
  *item = left;
  return 0;
}

int gp_left_list_read(gp_left_list_t *list)
{
  const char *root = gp_record_root(), *problem = NULL;

  memset(list, 0, sizeof(*list));
  if (strcmp(root, "none") == 0)
    return 0;
  if (gp_records_walk(NULL, add_record, list)) {
    gp_message("out of memory");
    return GP_EXIT_INPUT;
  }
  if (list->count > 1)
    qsort(list->items, list->count, sizeof(list->items[0]), compare_newest_first);
  int folder = list->count ? -1 : gp_record_folder_open(root, false, &problem);
  if (folder >= 0) {
    close(folder);
  } else if (!list->count && errno != ENOENT) {
    gp_message("records in %s cannot be read: %s: %s", root, problem, strerror(errno));
    return GP_EXIT_INPUT;
  }
  return 0;
}

void gp_left_list_fini(gp_left_list_t *list)
{
  free(list->items);
  memset(list, 0, sizeof(*list));
}

/* A text of the description in a record; "?" for a record of another build, or without it. */
static void read_text(const char *path, const char *name, char *buffer, size_t capacity)
{
  gp_record_look_t look;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  const char *text = fd >= 0 && gp_record_look(fd, &look) == GP_LOOK_DONE
                         ? gp_description_find(&look.description, name)
                         : NULL;
  snprintf(buffer, capacity, "%s", text ? text : "?");
  if (fd >= 0)
    close(fd);
}

void gp_left_list_print(const gp_left_list_t *list)
{
  if (list->count == 0) {
    char root[GP_RECORD_FILE_PATH_BYTES];
    printf("No records in %s.\n", gp_printable(gp_record_root(), root, sizeof(root)));
    return;
  }
  printf("%10s  %-19s  %10s  %-8s  %s\n", "pid", "began", "size", "", "program");
  for (size_t i = 0; i < list->count; i++) {
    const gp_left_t *left = &list->items[i];
    char when[32] = "";
    char program[4096];
    char shown[4096];
    struct tm local;
    time_t seconds = (time_t)(left->start_time_us / 1000000);
    if (localtime_r(&seconds, &local))
      strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    read_text(left->path, "program", program, sizeof(program));
    printf("%10d  %-19s  %10s  %-8s  %s\n", (int)left->pid, when, GP_AS_SIZE(left->bytes),
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
