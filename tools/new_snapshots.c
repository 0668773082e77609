#include "tools/new_snapshots.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pool/util/options.h"

/*
 * "out/gpupool.%e.json" becomes "out/gpupool.*.json": a star for a placeholder, everything else literally. A
 * length that does not fit gives "", which matches nothing.
 */
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
      if (used + length >= capacity - 8) { /* the suffix of a taken name must fit as well */
        buffer[0] = '\0';
        return;
      }
      memcpy(buffer + used, text, length + 1);
      used += length;
    }
  }
}

/* The files that match pattern, or pattern with the suffix that the library gives to a name that is taken. */
static void list(const char *pattern, bool append, glob_t *ret_list)
{
  char suffixed[2 * GP_PATH_BYTES + 16];
  if (!pattern[0])
    return;
  (void)glob(pattern, append ? GLOB_APPEND : 0, NULL, ret_list); /* no match and no access: no files */
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
  const char *slash = strrchr(pattern, '/');
  snprintf(folder, sizeof(folder), "%s/", temporary && temporary[0] ? temporary : "/tmp");
  make_glob(folder, slash ? slash + 1 : pattern, written->fallback, sizeof(written->fallback));
  list_all(written, &written->before);
}

/* True if name holds pid as a whole number. */
static bool holds_pid(const char *name, pid_t pid)
{
  char digits[16];
  snprintf(digits, sizeof(digits), "%d", (int)pid);
  const char *slash = strrchr(name, '/');
  for (const char *p = slash ? slash + 1 : name; (p = strstr(p, digits)); p++) {
    if ((p == name || !isdigit((unsigned char)p[-1])) && !isdigit((unsigned char)p[strlen(digits)]))
      return true;
  }
  return false;
}

void gp_new_snapshots_end(gp_new_snapshots_t *written, pid_t pid)
{
  list_all(written, &written->after);
  written->names = calloc(written->after.gl_pathc + 1, sizeof(*written->names));
  if (!written->names)
    return;
  for (int own = 1; own >= 0; own--) {
    for (size_t i = 0; i < written->after.gl_pathc; i++) {
      char **name = &written->after.gl_pathv[i];
      struct stat status;
      bool is_new = !written->before.gl_pathc || !bsearch(name, written->before.gl_pathv,
                                                     written->before.gl_pathc, sizeof(char *), compare_names);
      bool is_same =
          i > 0 && strcmp(*name, name[-1]) == 0; /* both patterns matched, or both folders are one */
      if (is_new && !is_same && holds_pid(*name, pid) == (own == 1) && stat(*name, &status) == 0 &&
          S_ISREG(status.st_mode))
        written->names[written->count++] = *name;
    }
  }
}

/* Of what the file says, not of its name: a program may be called bloom, and a pattern without %r. */
static bool is_of_oom(const char *path)
{
  char begin[128]; /* the reason is the third key */
  FILE *file = fopen(path, "re");
  size_t length = file ? fread(begin, 1, sizeof(begin) - 1, file) : 0;
  if (file)
    (void)fclose(file); /* only read */
  begin[length] = '\0';
  return strstr(begin, "\"reason\":\"oom\"") != NULL;
}

const char *gp_new_snapshots_best(const gp_new_snapshots_t *written)
{
  for (size_t i = 0; i < written->count; i++) {
    if (is_of_oom(written->names[i]))
      return written->names[i];
  }
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
