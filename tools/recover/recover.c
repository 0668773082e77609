/*
 * gpupool recover: makes snapshots from the records that killed processes left behind.
 */
#include "tools/recover/recover.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/options.h"
#include "base/path.h"
#include "tools/html/page.h"
#include "tools/machine/machine.h"
#include "tools/output_file.h"
#include "tools/parameters.h"
#include "tools/read/record/record_reader.h"
#include "tools/tool.h"
#include "base/run_id.h"
#include "tools/array.h"
#include "tools/output.h"

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

/* Copies the text `name` of the record's description to `buffer`. Writes "?" if the record is from another
 * build or lacks the text. */
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

/* Prints one line on stdout for each record. */
static void gp_left_list_print(const gp_left_list_t *list)
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

#define BUFFER_BYTES ((size_t)64 * 1024)
#define NAME_TRIES   100000
#define SUFFIX_BYTES 8

typedef struct request {
  bool all;
  bool list;
  bool force;
  bool remove;
  bool strict;
  bool html;
  const char *output;
  const char *pattern; /* GPUPOOL_OUTPUT if it applies and `output` is NULL, else NULL */
  const char *what;    /* FILE or PID; NULL: the newest */
} request_t;

static void print_help(void)
{
  printf("usage: gpupool recover [FILE | PID] [options]\n"
         "\n"
         "Makes a snapshot of a program that wrote none at its end: it was killed, it\n"
         "crashed, or it called _exit. While a program runs, gpupool keeps its record in\n"
         "shared memory (GPUPOOL_RECORD). The records of the last four such programs stay\n"
         "until the machine restarts. Without FILE or PID the newest one is recovered. A\n"
         "record whose program still runs is left alone.\n"
         "\n"
         "      --list      list the records, and recover none\n"
         "      --all       recover every record\n"
         "  -o, --output F  write to F (- is stdout) instead of a file named as the\n"
         "                  library would, in this folder; an existing file is kept\n"
         "      --force     overwrite the file of -o\n"
         "      --remove    remove a record once its snapshot is written\n"
         "      --html      make a page for a browser from the snapshot, next to it\n"
         "                  (gpupool html)\n"
         "      --strict    exit status 4 if something in a record was damaged or missing\n"
         "\n"
         "Exit status: 0 done; 2 usage, or the file exists; 3 no record, or one that\n"
         "cannot be read, or an output that cannot be written; 4 with --strict.\n");
}

static const gp_parameter_t parameters[] = {
    {"all", .offset = offsetof(request_t, all)},
    {"list", .offset = offsetof(request_t, list)},
    {"output", .letter = 'o', .kind = GP_PARAMETER_TEXT, .offset = offsetof(request_t, output)},
    {"force", .offset = offsetof(request_t, force)},
    {"remove", .offset = offsetof(request_t, remove)},
    {"strict", .offset = offsetof(request_t, strict)},
    {"html", .offset = offsetof(request_t, html)},
};

static const gp_words_form_t form = {
    "recover", parameters, sizeof(parameters) / sizeof(parameters[0]), INT_MAX, print_help};

/* Validates the request. `words` contains FILE or PID. Returns 0 or, after a message, the exit status. */
static int check(const request_t *request, char **words, int count)
{
  if (count > 1)
    return gp_message_usage("recover", "recover: %s and %s: one at a time, or --all", words[0], words[1]);
  if (request->all && count)
    return gp_message_usage("recover", "recover: --all and %s: use one of them", words[0]);
  if (request->html && request->output && strcmp(request->output, "-") == 0)
    return gp_message_usage(
        "recover", "recover: --html makes a page next to the snapshot file, and -o - writes none");
  if (request->all && request->output)
    return gp_message_usage("recover", "recover: --all and -o: each record has a snapshot of its own");
  return 0;
}

/* Writes the record as a snapshot document to `fd`. Returns 0 or an errno. */
static int write_document(const gp_record_t *record, int fd)
{
  gp_json_t json;
  char *buffer = malloc(BUFFER_BYTES);
  if (!buffer)
    return ENOMEM;
  gp_json_init(&json, fd, buffer, BUFFER_BYTES);
  gp_document_write(&json, &record->document);
  int error = gp_json_finish(&json);
  free(buffer);
  return error;
}

/* Returns the character, or a replacement if it is not safe in a file name. The text comes from the record,
 * and users pass file names to shells. */
static char plain(char c)
{
  return isalnum((unsigned char)c) || strchr("-_.", c) ? c : '_';
}

/* Returns the text that replaces a GPUPOOL_OUTPUT placeholder for the recorded process (base/path.h). */
static const char *placeholder_text(const gp_record_t *record, char letter, char *scratch, size_t capacity)
{
  const gp_description_t *description = &record->document.description;
  const char *text = letter == 'e'   ? gp_description_find(description, "program")
                     : letter == 'h' ? gp_description_find(description, "host")
                     : letter == 'k' ? gp_description_find(description, "rank")
                                     : NULL;

  switch (letter) {
  case '%': return "%";
  case 'e':
  case 'h': return text ? gp_base_name(text) : "unknown";
  case 'k': return text ? gp_base_name(text) : "0";
  case 'p': snprintf(scratch, capacity, "%lld", (long long)record->document.pid); return scratch;
  case 't':
    snprintf(scratch, capacity, "%llu", (unsigned long long)record->document.start_time_us / 1000000);
    return scratch;
  case 'n': return "1";
  default: gp_assert(letter == 'r'); return record->document.reason; /* no other letter is valid */
  }
}

/* Makes the file name as the library would. Appends ".1", ".2" ... to a taken name. Truncates long names. */
static void choose_name(const gp_record_t *record, const char *pattern, char *buffer, size_t capacity)
{
  struct stat status;
  char scratch[32];
  size_t length = 0;

  for (const char *p = pattern; *p; p++) {
    char single[2] = {*p, '\0'};
    bool is_placeholder = *p == '%' && p[1];
    const char *text = is_placeholder ? placeholder_text(record, *++p, scratch, sizeof(scratch)) : single;
    for (; *text && length + SUFFIX_BYTES < capacity; text++)
      buffer[length++] = is_placeholder && *p != '%' ? plain(*text) : *text;
  }
  buffer[length] = '\0';
  for (int i = 1; i < NAME_TRIES && lstat(buffer, &status) == 0; i++)
    snprintf(buffer + length, SUFFIX_BYTES, ".%d", i);
}

/* Writes the snapshot. Returns the exit status. If the status is not 0, a message was printed. */
static int write_snapshot(const request_t *request, const gp_record_t *record, const char *source)
{
  gp_output_file_t file;
  char name[GP_PATH_BYTES];
  const char *path = request->output;

  if (!path) {
    choose_name(record, request->pattern ? request->pattern : gp_option_table[GP_OPTION_output].default_text,
        name, sizeof(name));
    path = name;
  }
  int status = gp_output_file_open(&file, path, request->output && request->force);
  if (status)
    return status;
  int error = write_document(record, fileno(file.stream));
  if (error) {
    gp_message("the snapshot of %s could not be written to %s: %s", source, file.path ? path : "stdout",
        strerror(error));
    gp_output_file_discard(&file);
    return GP_EXIT_INPUT;
  }
  bool is_named = file.path != NULL;
  status = gp_output_file_close(&file);
  if (status || !is_named)
    return status;
  gp_message("recovered: %s", path);
  if (request->html)
    status = gp_page_make_unsited(path);
  gp_message("next: gpupool summary %s", path);
  return status;
}

static int recover_fd(const request_t *request, const char *path, int fd)
{
  static gp_record_t record; /* too large for a stack */
  int status = GP_EXIT_INPUT;
  gp_output_file_take_input(-1); /* the strictest mode, as for the library's snapshots */
  if (!gp_record_read(fd, &record)) {
    gp_message("%s: %s", path, record.problem);
  } else {
    for (size_t i = 0; i < record.document.note_count; i++)
      gp_message("%s: %s", path, record.notes[i]);
    status = write_snapshot(request, &record, path);
    if (!status && request->remove && unlink(path)) {
      gp_message("%s: cannot be removed: %s", path, strerror(errno));
      status = GP_EXIT_INPUT;
    }
    if (!status && request->strict && record.is_partial)
      status = GP_EXIT_PARTIAL;
  }
  gp_record_fini(&record);
  return status;
}

static int recover_file(const request_t *request, const char *path)
{
  pid_t pid;
  uint64_t start_time_us;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    gp_message("%s: %s", path, strerror(errno));
    return GP_EXIT_INPUT;
  }
  int status = GP_EXIT_INPUT;
  if (gp_record_file_parse(gp_base_name(path), &pid, &start_time_us) && gp_record_file_is_in_use(fd, pid))
    gp_message("%s: its program still runs (pid %d); it writes a snapshot when it ends", path, (int)pid);
  else
    status = recover_fd(request, path, fd);
  close(fd);
  return status;
}

int gp_recover_left(const gp_left_t *left, const char *output, bool has_page)
{
  char pattern[GP_PATH_BYTES];
  struct stat status;
  size_t length = strlen(output);
  bool is_folder =
      length == 0 || output[length - 1] == '/' || (stat(output, &status) == 0 && S_ISDIR(status.st_mode));
  const char *slash = length > 0 && output[length - 1] == '/' ? "" : "/";

  if (is_folder)
    snprintf(pattern, sizeof(pattern), "%s%s%s", output, length > 0 ? slash : "",
        gp_option_table[GP_OPTION_output].default_text);
  else
    snprintf(pattern, sizeof(pattern), "%s", output);
  const request_t request = {.pattern = pattern, .remove = true, .html = has_page};
  return recover_file(&request, left->path);
}

static int recover_all(const request_t *request, const gp_left_list_t *list)
{
  int status = 0;
  bool any = false;
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].is_running)
      continue;
    any = true;
    int one = recover_file(request, list->items[i].path);
    if (one && status != GP_EXIT_INPUT)
      status = one;
  }
  if (any)
    return status;
  gp_message("no program has left a record in %s", gp_record_root());
  return GP_EXIT_INPUT;
}

static int recover_newest(const request_t *request, const gp_left_list_t *list, pid_t pid)
{
  size_t left = 0;
  for (size_t i = 0; i < list->count; i++)
    left += !list->items[i].is_running;
  const gp_left_t *chosen = gp_left_list_find(list, pid);
  if (!chosen && pid)
    gp_message("process %d has left no record in %s; gpupool recover --list shows what there is", (int)pid,
        gp_record_root());
  else if (!chosen)
    gp_message("no program has left a record in %s", gp_record_root());
  if (!chosen)
    return GP_EXIT_INPUT;
  if (!pid && left > 1)
    gp_message("%zu records are left; this is the newest, gpupool recover --list shows all", left);
  return recover_file(request, chosen->path);
}

static bool is_number(const char *text)
{
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits <= 9 && !text[digits];
}

int gp_command_recover(int argc, char **argv)
{
  request_t request = {0};
  gp_left_list_t list;
  int words, status;

  if (!gp_words_parse(&form, argc, argv, &request, &words, &status))
    return status;
  status = check(&request, argv + 1, words);
  if (status)
    return status;
  request.what = words ? argv[1] : NULL;
  if (request.what && !is_number(request.what))
    return recover_file(&request, request.what);
  status = gp_left_list_read(&list);
  if (status) {
    /* gp_left_list_read has printed a message */
  } else if (request.list) {
    gp_left_list_print(&list);
  } else if (request.all) {
    status = recover_all(&request, &list);
  } else {
    status = recover_newest(&request, &list, request.what ? (pid_t)strtol(request.what, NULL, 10) : 0);
  }
  gp_left_list_fini(&list);
  return status;
}
