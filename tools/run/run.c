/*
 * gpupool run: checks the settings, runs the program with the library preloaded, and reports the snapshots.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "base/run_id.h"
#include "base/size.h"
#include "tools/arguments.h"
#include "tools/html/page.h"
#include "tools/machine/machine.h"
#include "tools/run/launch.h"
#include "tools/run/preload.h"
#include "tools/run/program_probe.h"
#include "tools/recover/recover.h"
#include "tools/output.h"
#include "tools/tool.h"
#include "tools/new_snapshots.h"
#include "tools/optional_library.h"

/* Default number of events in a run, which is larger than for a library that is always preloaded. */
#define RUN_TRACE_EVENTS "4194304"
#define SHOWN_SNAPSHOTS  8
#define NEIGHBOUR_BYTES  (64 * GP_MIB) /* less memory of other programs is not reported */

static void print_help(void)
{
  printf("usage: gpupool run [options] [--] PROGRAM [ARGS]\n"
         "\n"
         "Runs PROGRAM with its GPU memory pooled and recorded, and returns its exit\n"
         "status. A signal that ends PROGRAM ends gpupool as well, and one that is sent\n"
         "to gpupool is passed on. The settings are checked first. Afterwards lines on\n"
         "stderr list the snapshots that PROGRAM and its children have written, and how\n"
         "to read them.\n"
         "\n"
         "The library goes first into LD_PRELOAD; what is there stays, in its order.\n"
         "Lines on stderr name possible conflicts: another library that hooks CUDA,\n"
         "a tool that watches CUDA calls, a launcher that loses the environment.\n"
         "\n"
         "Exit status, as of env and timeout: 127 if PROGRAM was not found, 126 if it\n"
         "cannot be run, 125 if gpupool run itself fails (usage, a malformed setting),\n"
         "else that of PROGRAM.\n"
         "\n"
         "Each option sets the environment variable of that name (--max-cached sets\n"
         "GPUPOOL_MAX_CACHED) for the program and what it starts. trace-events is raised\n"
         "to " RUN_TRACE_EVENTS " where it is not set. Sizes: 8GiB, 8G or plain bytes.\n"
         "\n"
         "  --html\n"
         "      make a page for a browser from each snapshot, next to it (gpupool html)\n");
  gp_arguments_print_help();
}

/* Checks that files with the option's pattern can be created. Returns false, after a message, if they cannot.
 * Does not check a folder with placeholders, because its name is not known yet. */
static bool check_folder(const gp_options_t *options, gp_option_id_t id)
{
  char folder[GP_PATH_BYTES];
  char name[GP_ARGUMENT_NAME_BYTES];
  struct stat status;
  const char *pattern = gp_option_text(options, id);
  const char *slash = strrchr(pattern, '/');
  int length = slash ? (int)(slash - pattern) : 0;

  snprintf(folder, sizeof(folder), "%.*s", length, pattern);
  if (strchr(folder, '%'))
    return true;
  if (!slash && stat(pattern, &status) == 0 && S_ISDIR(status.st_mode))
    snprintf(folder, sizeof(folder), "%s", pattern);
  const char *where = folder[0] ? folder : slash ? "/" : ".";
  int error = 0;
  if (stat(where, &status))
    error = errno;
  else if (!S_ISDIR(status.st_mode))
    error = ENOTDIR;
  else if (access(where, W_OK | X_OK))
    error = errno;
  if (!error)
    return true;
  if (options->values[id].source == GP_OPTION_FROM_DEFAULT) {
    /* The user chose no folder, so the library uses its fallback. */
    const char *temporary = getenv("TMPDIR");
    gp_message("nothing can be written in this folder (%s): snapshots go to %s", strerror(error),
        temporary && temporary[0] ? temporary : "/tmp");
    return true;
  }
  gp_message("--%s=%s: nothing can be written in %s: %s", gp_argument_name(id, name), pattern, where,
      strerror(error));
  return false;
}

/* Returns the output pattern for the program. Makes a relative pattern absolute in `buffer`, because the
 * program may change its working directory before it writes. Returns the option's text if the pattern is
 * absolute or that fails. */
static const char *output_pattern(const gp_options_t *options, char *buffer, size_t capacity)
{
  const char *pattern = gp_option_text(options, GP_OPTION_output);
  char folder[GP_PATH_BYTES];
  size_t used = 0;

  if (pattern[0] == '/' || !getcwd(folder, sizeof(folder)))
    return pattern;
  for (const char *p = folder; *p; p++) {
    if (used + 2 >= capacity)
      return pattern;
    if (*p == '%') /* escapes the '%', which would begin a placeholder */
      buffer[used++] = '%';
    buffer[used++] = *p;
  }
  int length = snprintf(buffer + used, capacity - used, "/%s", pattern);
  return length < 0 || (size_t)length >= capacity - used ? pattern : buffer;
}

/* Makes a relative profile path from the command or the environment absolute, because the library reads the
 * profile when the program first uses the GPU. It has no placeholders. Returns false if memory runs out. */
static bool set_profile(const gp_options_t *options)
{
  const char *path = gp_option_text(options, GP_OPTION_profile);
  char folder[GP_PATH_BYTES], whole[2 * GP_PATH_BYTES];

  if (options->values[GP_OPTION_profile].source != GP_OPTION_FROM_ENVIRONMENT || strcmp(path, "none") == 0 ||
      path[0] == '/' || !getcwd(folder, sizeof(folder)))
    return true;
  snprintf(whole, sizeof(whole), "%s/%s", folder, path);
  return setenv(gp_option_table[GP_OPTION_profile].variable, whole, 1) == 0;
}

/* Sets the environment for the program. Returns false, after a message, if memory runs out. */
static bool set_environment(
    const gp_arguments_t *arguments, const gp_options_t *options, const char *output, const char *runs)
{
  int error = 0;
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    if (arguments->texts[id])
      error |= setenv(gp_option_table[id].variable, arguments->texts[id], 1);
  }
  if (options->values[GP_OPTION_trace_events].source == GP_OPTION_FROM_DEFAULT)
    error |= setenv(gp_option_table[GP_OPTION_trace_events].variable, RUN_TRACE_EVENTS, 1);
  error |= setenv(gp_option_table[GP_OPTION_output].variable, output, 1);
  error |= setenv(GP_RUN_VARIABLE, runs, 1);
  error |= !set_profile(options);
  if (error)
    gp_message("out of memory");
  return !error;
}

/* Returns the path as a user would type it: relative if it is inside the working directory, and quoted if a
 * shell needs quotes. */
static const char *typed_name(const char *path, char *buffer, size_t capacity)
{
  char folder[GP_PATH_BYTES];
  size_t used = 0;
  size_t length = getcwd(folder, sizeof(folder)) ? strlen(folder) : 0;

  if (length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/')
    path += length + 1;
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_+=:,./-";
  if (strspn(path, plain) == strlen(path) && path[0] != '-')
    return path;
  if (path[0] == '-')
    used += (size_t)snprintf(buffer, capacity, "./");
  buffer[used++] = '\'';
  for (; *path; path++) {
    if (used + 8 > capacity)
      break;
    if (*path == '\'') {
      memcpy(buffer + used, "'\\''", 4);
      used += 4;
    } else {
      buffer[used++] = *path;
    }
  }
  buffer[used++] = '\'';
  buffer[used] = '\0';
  return buffer;
}

/* Reports other programs that may use the missing memory. Lists a pool only while its program runs. */
static void report_neighbours(void)
{
  gp_machine_t machine;
  size_t shown = 0;

  if (gp_machine_read(&machine) == 0) {
    for (size_t i = 0; i < machine.device_count && shown < SHOWN_SNAPSHOTS; i++) {
      const gp_machine_device_t *device = &machine.devices[i];
      const gp_machine_process_t *process = &machine.processes[device->process];
      if (device->held < NEIGHBOUR_BYTES || process->pid < 0)
        continue;
      gp_message("process %d (%s) is using %s of its device %d", (int)process->pid, process->program,
          GP_AS_SIZE(device->held), device->ordinal);
      shown++;
    }
  }
  gp_machine_fini(&machine);
}

static void report_written(const gp_new_snapshots_t *written, bool has_pages)
{
  char name[2 * GP_PATH_BYTES];
  bool is_oom;
  for (size_t i = 0; i < written->count && i < SHOWN_SNAPSHOTS; i++)
    gp_message("snapshot: %s", typed_name(written->names[i], name, sizeof(name)));
  if (written->count > SHOWN_SNAPSHOTS)
    gp_message("and %zu more", written->count - SHOWN_SNAPSHOTS);
  for (size_t i = 0; i < written->count && has_pages; i++)
    (void)gp_page_make_unsited(written->names[i]);
  /* A snapshot that was written when memory ran out is more informative than one from the exit. */
  const char *best = gp_new_snapshots_best(written, &is_oom);
  if (is_oom)
    report_neighbours();
  gp_message("next: gpupool summary %s", typed_name(best, name, sizeof(name)));
}

/* Prints the most certain reason why no snapshot was written although one was due. */
static void report_nothing(
    const gp_options_t *options, const gp_launched_t *launched, const char *path, const char *library)
{
  static const char nothing[] = "no CUDA allocation was seen";
  char reason[2 * GP_PATH_BYTES];

  if (gp_option_number(options, GP_OPTION_disable)) {
    gp_message("%s: the library is switched off (GPUPOOL_DISABLE=1)", nothing);
    return;
  }
  (void)gp_program_probe(path, library, reason, sizeof(reason)); /* only the text is needed */
  if (reason[0])
    gp_message("%s in %s: %s", nothing, path, reason);
  else if (launched->signal)
    gp_message("no snapshot was written: signal %d (%s) ended %s before its exit", launched->signal,
        strsignal(launched->signal), path);
  else if (!gp_optional_library_open("libcuda.so.1", NULL, 0))
    gp_message(
        "%s in %s: there is no CUDA driver here (libcuda.so.1 was not found). Install NVIDIA's driver, or start the container with --gpus all; next: gpupool doctor",
        nothing, path);
  else
    gp_message(
        "%s in %s: likely it does not use CUDA, or starts a program that cannot be preloaded, or without LD_PRELOAD (env -i, sudo and some wrappers clear it: put gpupool run after them), or hides what it loads (RTLD_DEEPBIND, dlmopen)",
        nothing, path);
}

/* Reads into `list` the records of this run's programs that ended without a normal exit. The program itself
 * may not be among them, because a shell or a job launcher starts others. Returns the number of records. */
static size_t find_left_records(gp_left_list_t *list, pid_t pid, const char *run, uint64_t begin_us)
{
  size_t count = 0;
  if (gp_left_list_read(list))
    return 0;
  for (size_t i = 0; i < list->count; i++) {
    const gp_left_t *left = &list->items[i];
    if (!left->is_running && left->start_time_us >= begin_us &&
        (left->pid == pid || gp_left_is_of_run(left, run)))
      list->items[count++] = *left;
  }
  list->count = count;
  return count;
}

/* Reports the records of the run's other processes, which the program started. */
static void report_others(const gp_left_list_t *left, pid_t pid)
{
  size_t shown = 0;
  for (size_t i = 0; i < left->count && shown < SHOWN_SNAPSHOTS; i++) {
    if (left->items[i].pid == pid)
      continue;
    gp_message("process %d did not exit normally; its record is left", (int)left->items[i].pid);
    gp_message("next: gpupool recover %d", (int)left->items[i].pid);
    shown++;
  }
}

/* Recovers the snapshot that was due, if the program ended without a signal, for example with _exit. If a
 * signal ended the program, only prints the command that recovers it. */
static void report_record(const gp_options_t *options, const gp_launched_t *launched, const gp_left_t *left,
    const char *output, const char *path, bool has_page)
{
  if (launched->signal) {
    gp_message(
        "signal %d (%s) ended %s; its record is left", launched->signal, strsignal(launched->signal), path);
  } else if (gp_option_number(options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_EXIT) {
    gp_message(
        "%s left no snapshot at exit (it called _exit, or the file could not be written); one is made from its record",
        path);
    if (gp_recover_left(left, output, has_page) == 0)
      return;
  } else {
    gp_message("%s did not exit normally; its record is left", path);
  }
  gp_message("next: gpupool recover %d", (int)launched->pid);
}

static uint64_t now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Returns a number that no other run has on any machine that shares the output folder. */
static uint64_t new_run_number(void)
{
  uint64_t number;
  if (getrandom(&number, sizeof(number), GRND_NONBLOCK) == (ssize_t)sizeof(number))
    return number;
  return now_us() ^ (uint64_t)getpid() << 44; /* getrandom fails early in boot, or under a seccomp filter */
}

/* Finds the program `name`, and writes its path to `path`. Returns 0 or, after a message, the exit status. */
static int find_program(const char *name, char *path, size_t capacity)
{
  int status = gp_launch_find(name, path, capacity);
  if (status)
    gp_message("%s: %s", name,
        status == GP_LAUNCH_NOT_FOUND ? "program not found" : "found, but it is not an executable file");
  return status;
}

static void report_conflict(void *arg, const char *what, const char *remedy)
{
  (void)arg;
  gp_message("%s; %s", what, remedy);
}

/* Puts the library into LD_PRELOAD, unless the program's loader cannot load it (*ret_is_foreign). Prints what
 * else may prevent the library from working. Returns false, after a message, on failure. */
static bool preload(
    const char *path, char *const argv[], const char *library, bool has_nvtx, bool *ret_is_foreign)
{
  char reason[2 * GP_PATH_BYTES], loses[GP_LAUNCHER_BYTES];

  *ret_is_foreign = gp_program_probe(path, library, reason, sizeof(reason)) == GP_PROBED_FOREIGN;
  if (*ret_is_foreign) {
    gp_message("%s runs without the library: %s", path, reason);
    return true;
  }
  gp_conflicts_find(getenv("LD_PRELOAD"), GP_LD_SO_PRELOAD, report_conflict, NULL);
  if (gp_launcher_loses(argv, library, loses))
    gp_message("%s", loses);
  return gp_preload_set(library) && (!has_nvtx || gp_preload_set_nvtx(library));
}

/* Runs the program, and reports the snapshots and records that it left. `library` is NULL if the program runs
 * without the library. Returns the exit status. */
static int run_program(const gp_options_t *options, const char *output, const char *library, const char *run,
    bool has_pages, const char *path, char **argv)
{
  gp_launched_t launched;
  static gp_new_snapshots_t written;

  gp_new_snapshots_begin(&written, output);
  uint64_t begin_us = now_us();
  gp_launch_and_wait(path, argv, &launched);
  if (launched.pid) {
    gp_new_snapshots_end(&written, launched.pid, run);
    gp_left_list_t list;
    size_t left_count = find_left_records(&list, launched.pid, run, begin_us);
    const gp_left_t *own = gp_left_list_find(&list, launched.pid);
    if (written.count)
      report_written(&written, has_pages);
    else if (library && !left_count && gp_option_number(options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_EXIT)
      report_nothing(options, &launched, path, library);
    if (own)
      report_record(options, &launched, own, output, path, has_pages);
    report_others(&list, launched.pid);
    gp_left_list_fini(&list);
  }
  gp_new_snapshots_fini(&written);
  gp_launch_end_alike(&launched);
  return launched.status;
}

int gp_command_run(int argc, char **argv)
{
  gp_arguments_t arguments;
  static gp_options_t options; /* too large for a stack */
  static char buffer[GP_OPTION_TEXT_BYTES];
  char library[GP_PATH_BYTES], path[GP_PATH_BYTES];
  bool is_foreign;
  char run[GP_RUN_DIGITS + 1], runs[GP_RUN_BYTES];

  if (gp_arguments_parse("run", "--html", argc, argv, &arguments))
    return GP_LAUNCH_FAILED;
  if (arguments.help) {
    print_help();
    return GP_EXIT_DONE;
  }
  if (arguments.next >= argc) {
    (void)gp_message_usage("run", "run: a program is missing");
    return GP_LAUNCH_FAILED;
  }
  if (gp_arguments_check(&arguments, true, &options))
    return GP_LAUNCH_FAILED;
  bool writes =
      gp_option_number(&options, GP_OPTION_snapshot_at) && !gp_option_number(&options, GP_OPTION_disable);
  if (writes && !check_folder(&options, GP_OPTION_output))
    return GP_LAUNCH_FAILED;
  if (strcmp(gp_option_text(&options, GP_OPTION_log), "stderr") != 0 &&
      !check_folder(&options, GP_OPTION_log))
    return GP_LAUNCH_FAILED;
  if (gp_path_is_special(gp_option_text(&options, GP_OPTION_output))) /* the library writes no file */
    options.values[GP_OPTION_snapshot_at].number = 0;
  const char *output = output_pattern(&options, buffer, sizeof(buffer));
  gp_run_id_append(options.runs, new_run_number(), run, runs);
  argv += arguments.next;
  if (!gp_preload_find(library, sizeof(library)))
    return GP_LAUNCH_FAILED;
  int status = find_program(argv[0], path, sizeof(path));
  if (status)
    return status;
  bool has_nvtx = gp_option_number(&options, GP_OPTION_nvtx);
  if (!preload(path, argv, library, has_nvtx, &is_foreign) ||
      !set_environment(&arguments, &options, output, runs))
    return GP_LAUNCH_FAILED;
  return run_program(&options, output, is_foreign ? NULL : library, run, arguments.flag, path, argv);
}
