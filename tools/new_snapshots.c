#include "tools/new_snapshots.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "base/run_id.h"
#include "tools/shorten.h"

#define HEAD_BYTES 1024 /* enough to contain a snapshot's format, version, reason and run */

/* Converts an output pattern to a pattern for glob(3). Placeholders become stars, and all other characters
 * are literal: "out/gpupool.%e.json" becomes "out/gpupool.*.json". If the result does not fit, writes "",
 * which matches nothing. */
static void make_glob(const char *folder, const char *output, char *buffer, size_t capacity)
{
  size_t used = 0;
  buffer[0] = '\0';
  for (int part = 0; part < 2; part++) {
    for (const char *p = part ? output : folder; *p; p++) {
      char text[3] = {*p, '\0', '\0'};
      if (part && *p == '%' && p[1] != '\0') {
        p++;
        text[0] = *p == '%' ? '%' : '*';
      } else if (strchr("*?[\\", *p)) {
        text[0] = '\\';
        text[1] = *p;
      }
      size_t length = strlen(text);
      if (used + length >= capacity - 8) { /* leaves room for the suffix that is added if a name is taken */
        buffer[0] = '\0';
        return;
      }
      memcpy(buffer + used, text, length + 1);
      used += length;
    }
  }
}

/* Lists the files that match `pattern`, with or without the suffix that the library adds to taken names. */
static void list(const char *pattern, bool append, glob_t *ret_list)
{
  char suffixed[2 * GP_PATH_BYTES + 16];
  if (!pattern[0])
    return;
  (void)glob(pattern, append ? GLOB_APPEND : 0, NULL, ret_list); /* on failure the list has no files */
  snprintf(suffixed, sizeof(suffixed), "%s.[0-9]*", pattern);
  (void)glob(suffixed, GLOB_APPEND, NULL, ret_list);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_all(const gp_new_snapshots_t *written, glob_t *ret_list)
{
  *ret_list = (glob_t){0};
  list(written->pattern, false, ret_list);
  list(written->fallback, ret_list->gl_pathc > 0, ret_list);
  if (ret_list->gl_pathc > 1)
    qsort(ret_list->gl_pathv, ret_list->gl_pathc, sizeof(char *), compare_names);
}

void gp_new_snapshots_begin(gp_new_snapshots_t *written, const char *output)
{
  const char *temporary = getenv("TMPDIR");
  char folder[GP_PATH_BYTES];
  char pattern[GP_PATH_BYTES];
  struct stat status;

  *written = (gp_new_snapshots_t){.count = 0};
  size_t length = strlen(output);
  bool is_folder =
      length > 0 && (output[length - 1] == '/' || (stat(output, &status) == 0 && S_ISDIR(status.st_mode)));
  snprintf(pattern, sizeof(pattern), "%s%s%s", output, is_folder ? "/" : "",
      is_folder ? gp_option_table[GP_OPTION_output].default_text : "");
  make_glob("", pattern, written->pattern, sizeof(written->pattern));
  snprintf(folder, sizeof(folder), "%s/", temporary && temporary[0] ? temporary : "/tmp");
  make_glob(folder, gp_base_name(pattern), written->fallback, sizeof(written->fallback));
  list_all(written, &written->before);
}

/* Returns true if the file name contains pid as a whole number. */
static bool holds_pid(const char *name, pid_t pid)
{
  char digits[16];
  snprintf(digits, sizeof(digits), "%d", (int)pid);
  for (const char *p = gp_base_name(name); (p = strstr(p, digits)); p++) {
    if ((p == name || !isdigit((unsigned char)p[-1])) && !isdigit((unsigned char)p[strlen(digits)]))
      return true;
  }
  return false;
}

/* Reads the beginning of a file as text. Writes "" if the file cannot be read or is not a regular file. Any
 * user can write to the fallback folder, so a FIFO there must not block this function. */
static void read_head(const char *path, char buffer[HEAD_BYTES])
{
  struct stat status;
  ssize_t length = 0;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    length = read(fd, buffer, HEAD_BYTES - 1);
  if (fd >= 0)
    (void)close(fd); /* read-only, so no data is lost */
  buffer[length > 0 ? length : 0] = '\0';
}

/* Returns true if the snapshot belongs to `run`. Searches for the key with its quotes; quotes inside strings
 * are escaped, so a match is always the key. */
static bool is_of_run(const char *path, const char *run)
{
  static const char key[] = "\"process\":{\"run\":\"";
  char head[HEAD_BYTES];
  read_head(path, head);
  char *runs = strstr(head, key);
  if (!runs)
    return false;
  runs += sizeof(key) - 1;
  runs[strcspn(runs, "\"")] = '\0';
  return gp_run_id_is_valid(runs) && gp_run_id_holds(runs, run);
}

static bool is_file(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

void gp_new_snapshots_end(gp_new_snapshots_t *written, pid_t pid, const char *run)
{
  list_all(written, &written->after);
  written->names = calloc(written->after.gl_pathc + 1, sizeof(*written->names));
  if (!written->names)
    return;
  for (int own = 1; own >= 0; own--) {
    for (size_t i = 0; i < written->after.gl_pathc; i++) {
      char **name = &written->after.gl_pathv[i];
      bool is_new = !written->before.gl_pathc || !bsearch(name, written->before.gl_pathv,
                                                     written->before.gl_pathc, sizeof(char *), compare_names);
      bool is_same = i > 0 && strcmp(*name, name[-1]) == 0; /* two patterns or folders matched it */
      if (is_new && !is_same && holds_pid(*name, pid) == (own == 1) &&
          (run ? is_of_run(*name, run) : is_file(*name)))
        written->names[written->count++] = *name;
    }
  }
}

/* Returns true if the beginning of the file contains `text`. Reads the content instead of the name for two
 * reasons: a program may be called bloom, which contains "oom", and a pattern may lack %r. */
static bool has_in_head(const char *path, const char *text)
{
  char head[HEAD_BYTES];
  read_head(path, head);
  return strstr(head, text) != NULL;
}

const char *gp_new_snapshots_best(const gp_new_snapshots_t *written, bool *ret_is_oom)
{
  static const char *const best[] = {
      "\"unreported_ooms\":", /* memory ran out, which may have ended the program */
      "\"reason\":\"oom\"",
      "\"reason\":\"host_oom\"",
  };

  for (size_t k = 0; k < sizeof(best) / sizeof(best[0]); k++) {
    for (size_t i = 0; i < written->count; i++) {
      if (!has_in_head(written->names[i], best[k]))
        continue;
      *ret_is_oom = k + 1 < sizeof(best) / sizeof(best[0]);
      return written->names[i];
    }
  }
  *ret_is_oom = false;
  return written->names[0];
}

void gp_new_snapshots_fini(gp_new_snapshots_t *written)
{
  globfree(&written->before);
  globfree(&written->after);
  free(written->names);
  written->names = NULL;
  written->count = 0;
}
