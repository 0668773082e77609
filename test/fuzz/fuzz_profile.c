/*
 * A file that GPUPOOL_PROFILE names: whatever is in it, each setting keeps a value that the library can work
 * with.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/options.h"
#include "base/settings_files.h"

static char path[32];

static const char *lookup(void *arg, const char *variable)
{
  (void)arg;
  return strcmp(variable, "GPUPOOL_PROFILE") == 0 ? path : NULL;
}

static void problem(void *arg, bool malformed, const char *message)
{
  int *problems = arg;
  FUZZ_CHECK(message[0]);
  *problems += malformed;
}

static const char *look_up_nothing(void *arg, const char *variable)
{
  return NULL;
}

/* The same text as the file of the machine, whose limit is a ceiling. */
static void read_as_settings(int file)
{
  static gp_options_t options;
  static gp_settings_files_t files;
  int problems = 0;

  FUZZ_CHECK(fchmod(file, 0600) == 0);
  snprintf(files.system, sizeof(files.system), "%s", path);
  FUZZ_CHECK(gp_settings_read(&options, look_up_nothing, NULL, &files, problem, &problems) == problems);
  for (int i = 0; i < GP_OPTION_DEVICES; i++)
    FUZZ_CHECK(
        gp_amount_resolve(&options.limits[i], GP_GIB) <= gp_amount_resolve(&options.ceilings[i], GP_GIB));
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    FUZZ_CHECK(memchr(options.values[id].text, '\0', sizeof(options.values[id].text)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static gp_options_t options, before; /* too large for a stack */
  static int file = -1;
  int problems = 0;

  if (file < 0)
    file = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  FUZZ_CHECK(gp_options_parse(&options, lookup, NULL, problem, &problems) == 0);
  before = options;
  FUZZ_CHECK(gp_profile_apply(&options, problem, &problems) == problems);
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const gp_option_t *option = &gp_option_table[id];
    const gp_option_value_t *value = &options.values[id];
    FUZZ_CHECK(memchr(value->text, '\0', sizeof(value->text)) != NULL);
    if (!gp_profile_has((gp_option_id_t)id))
      FUZZ_CHECK(
          strcmp(value->text, before.values[id].text) == 0 && value->number == before.values[id].number);
    if (option->type == GP_OPTION_INTEGER && value->number != UINT64_MAX)
      FUZZ_CHECK(value->number >= option->minimum && (!option->maximum || value->number <= option->maximum));
  }
  read_as_settings(file);
  return 0;
}
