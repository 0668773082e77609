#include "tools/request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/array.h"
#include "tools/output.h"
#include "tools/tool.h"

/* Returns true if `path` is a folder, for example with the snapshots of a job's ranks. */

static bool is_folder(const char *path)
{
  struct stat status;
  return strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_snapshots_name(const char *name)
{
  static const char *const ends[] = {".json", ".pickle", ".json.gz"};
  size_t length = strlen(name);
  bool is_one = false;
  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
    is_one |= length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0;
  return is_one && name[0] != '.';
}

static int compare_paths(const void *a, const void *b)
{
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Appends FOLDER/NAME to the found files, or FOLDER if `name` is "". Returns false if memory runs out. */
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

/* Appends a folder's snapshots to the found files. Returns 0, ENOENT if it has none, or another errno. */
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

/* Replaces each folder on the command line by the .json, .json.gz and .pickle files in it. Sorts them by
 * name, with numbers in numeric order. Returns 0 or, after a message, the exit status: a folder has no such
 * file or cannot be read, or memory ran out. folders_fini frees the list. */
static int folders_expand(gp_request_t *request)
{
  bool has_folders = false;

  for (int i = 0; i < request->file_count; i++)
    has_folders = has_folders || is_folder(request->files[i]);
  for (int i = 0; has_folders && i < request->file_count; i++) {
    const char *path = request->files[i];
    int error = is_folder(path) ? add_folder(request, path) : add(request, path, "") ? 0 : ENOMEM;
    if (!error)
      continue;
    gp_message("%s: %s", path,
        error == ENOENT ? "the folder has no .json, .json.gz or .pickle file" : strerror(error));
    return GP_EXIT_INPUT;
  }
  if (has_folders) {
    request->files = request->found;
    request->file_count = (int)request->found_count;
  }
  return 0;
}

static void folders_fini(gp_request_t *request)
{
  for (size_t i = 0; i < request->found_count; i++)
    free(request->found[i]);
  free(request->found);
}

#define COMMON(member) offsetof(gp_request_t, member)

static const gp_parameter_t common[] = {
    {"device", 0, "N", GP_PARAMETER_DEVICE, COMMON(device), NULL, 0, 0, "only this device"},
    {"stream", 0, "S", GP_PARAMETER_TEXT, COMMON(stream), NULL, 0, 0,
        "only requests on this stream: its number in the snapshot, or its handle, 0x..."},
    {"thread", 0, "T", GP_PARAMETER_TEXT, COMMON(thread), NULL, 0, 0,
        "only requests of this thread: its id or its name"},
    {"since", 0, "TIME", GP_PARAMETER_TIME, COMMON(since_ns), NULL, 0, 0,
        "only from this time on, counted from the beginning of recording: 1.5s, 20ms, 2min"},
    {"until", 0, "TIME", GP_PARAMETER_TIME, COMMON(until_ns), NULL, 0, 0, "only up to this time"},
    {"at", 0, "WHEN", GP_PARAMETER_MOMENT, COMMON(at), NULL, 0, 0,
        "what was allocated at a moment: oom (when memory ran out; oom=N: the Nth time), peak, exit, a time, 1.5s, or the number of an event, 1234"},
    {"json", 0, NULL, GP_PARAMETER_FLAG, COMMON(json), NULL, 0, 0, "one JSON document with the same facts"},
    {"output", 'o', "F", GP_PARAMETER_TEXT, COMMON(output), NULL, 0, 0,
        "write to F (- is stdout); an existing file is kept"},
    {"force", 0, NULL, GP_PARAMETER_FLAG, COMMON(force), NULL, 0, 0, "overwrite the file of -o"},
    {"strict", 0, NULL, GP_PARAMETER_FLAG, COMMON(strict), NULL, 0, 0,
        "exit status 4 if something is missing in a snapshot"},
    {"wide", 0, NULL, GP_PARAMETER_FLAG, COMMON(wide), NULL, 0, 0, "do not cut long names"},
    {"ascii", 0, NULL, GP_PARAMETER_FLAG, COMMON(ascii), NULL, 0, 0, "draw with ASCII characters only"},
    {"no-symbols", 0, NULL, GP_PARAMETER_FLAG, COMMON(no_symbols), NULL, 0, 0,
        "open no file that the snapshot names: stacks have places in files instead of names"},
    {"skip", 0, "PATTERN", GP_PARAMETER_PATTERNS, COMMON(skip), NULL, 0, 0,
        "frames whose function, file or module matches own no memory: their callers do (as in a line of --suppressions; may be given several times)"},
    {"skip-file", 0, "FILE", GP_PARAMETER_TEXT, COMMON(skip_file), NULL, 0, 0,
        "the same for each line of FILE; # begins a comment"},
    {"all-frames", 0, NULL, GP_PARAMETER_FLAG, COMMON(all_frames), NULL, 0, 0,
        "name the innermost frame of each stack, whatever it is, and show stacks whole"},
    {"no-color", 0, NULL, GP_PARAMETER_FLAG, COMMON(no_color), NULL, 0, 0,
        "no colour (the default with NO_COLOR set, or if the output is not a terminal)"},
    {"help", 'h', NULL, GP_PARAMETER_FLAG, COMMON(help), NULL, 0, 0, "print this"},
};
#define COMMON_COUNT (sizeof(common) / sizeof(common[0]))

/* Returns true if the command accepts the common option. A command that is not about one moment lacks --at. A
 * command that prints no stacks or no text lacks the options about them. */
static bool is_offered(const gp_request_form_t *form, const gp_parameter_t *parameter)
{
  static const size_t of_requests[] = {
      COMMON(device), COMMON(json), COMMON(output), COMMON(force), COMMON(no_color), COMMON(help), SIZE_MAX};
  static const size_t of_files[] = {COMMON(device), COMMON(output), COMMON(force), COMMON(strict),
      COMMON(no_symbols), COMMON(skip), COMMON(skip_file), COMMON(all_frames), COMMON(help), SIZE_MAX};
  const size_t *some = form->is_of_requests ? of_requests : form->writes_file ? of_files : NULL;

  for (size_t i = 0; some; i++) {
    if (some[i] == SIZE_MAX)
      return false;
    if (some[i] == parameter->offset)
      return true;
  }
  return form->takes_moment || parameter->kind != GP_PARAMETER_MOMENT;
}

/* Makes the two tables of a command's options. The command's own options come first, in the help and in the
 * lookup. `offered` must have room for all common options. */
static void make_tables(const gp_request_form_t *form, gp_parameter_t *offered, void *own, void *request,
    gp_parameters_t *ret_tables)
{
  size_t count = 0;
  for (size_t i = 0; i < COMMON_COUNT; i++) {
    if (is_offered(form, &common[i]))
      offered[count++] = common[i];
  }
  ret_tables[0] = (gp_parameters_t){form->parameters, form->parameter_count, own};
  ret_tables[1] = (gp_parameters_t){offered, count, request};
}

static int check_files(const gp_request_form_t *form, const gp_request_t *request)
{
  if (request->file_count < form->least_files)
    return gp_message_usage(form->command, "%s: %s is missing", form->command,
        form->least_files > 1 && request->file_count > 0 ? "a second file" : "a file");
  if (form->most_files && request->file_count > form->most_files)
    return gp_message_usage(
        form->command, "%s: unexpected argument %s", form->command, request->files[form->most_files]);
  int stdins = 0;
  for (int i = 0; i < request->file_count; i++)
    stdins += strcmp(request->files[i], "-") == 0;
  if (stdins > 1)
    return gp_message_usage(form->command, "%s: stdin (-) can be read only once", form->command);
  if (request->since_ns > request->until_ns)
    return gp_message_usage(form->command, "%s: --since is after --until", form->command);
  return 0;
}

int gp_request_parse(const gp_request_form_t *form, int argc, char **argv, gp_request_t *request, void *own)
{
  gp_parameter_t offered[COMMON_COUNT];
  gp_parameters_t tables[2];

  *request = (gp_request_t){
      .command = form->command, .device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX, .files = argv + 1};
  make_tables(form, offered, own, request, tables);
  int status = gp_parameters_parse(form->command, tables, 2, argc, argv, &request->file_count);
  if (status || request->help)
    return status;
  status = check_files(form, request);
  if (!status && form->most_files == 0)
    status = folders_expand(request);
  if (!status && form->check)
    status = form->check(request, own);
  return status || !request->skip_file ? status : gp_patterns_load(&request->skip, request->skip_file);
}

void gp_request_fini(gp_request_t *request)
{
  folders_fini(request);
  gp_patterns_fini(&request->skip);
}

static bool is_selection(const gp_parameter_t *parameter)
{
  return parameter->offset == COMMON(stream) || parameter->offset == COMMON(thread) ||
         parameter->offset == COMMON(since_ns) || parameter->offset == COMMON(until_ns);
}

static void print_parameter(const gp_parameter_t *parameter)
{
  char first[64];
  char names[96], letter[8] = "";
  const char *argument = parameter->kind == GP_PARAMETER_CHOICE ? parameter->choices : parameter->argument;
  if (parameter->letter)
    snprintf(letter, sizeof(letter), "-%c, ", parameter->letter);
  bool is_optional = parameter->kind == GP_PARAMETER_OPTIONAL_COUNT;
  snprintf(names, sizeof(names), "%s--%s%s%s%s", letter, parameter->name,
      !argument     ? ""
      : is_optional ? "[="
                    : " ",
      argument ? argument : "", is_optional ? "]" : "");
  if (strlen(names) > 18) { /* too long for the column */
    printf("  %s\n", names);
    names[0] = '\0';
  }
  snprintf(first, sizeof(first), "  %-19s", names);
  gp_output_wrap(stdout, first, "                     ", parameter->help);
}

void gp_request_help(const gp_request_form_t *form)
{
  gp_parameter_t offered[COMMON_COUNT];
  gp_parameters_t tables[2];

  printf("usage: gpupool %s %s [options]\n\n%s%s\n", form->command, form->files, form->about,
      form->most_files ? "" : "A folder stands for the files .json and .pickle in it.\n");
  make_tables(form, offered, NULL, NULL, tables);
  for (size_t i = 0; i < tables[0].count; i++)
    print_parameter(&tables[0].items[i]);
  for (size_t i = 0; i < tables[1].count; i++) {
    if (!form->hides_selection || !is_selection(&offered[i]))
      print_parameter(&offered[i]);
  }
  printf("\nExit status: 0 done; %s2 usage; 3 a file that cannot be read or is corrupt%s.\n",
      form->statuses ? form->statuses : "", form->is_of_requests ? "" : ";\n4 with --strict");
}
