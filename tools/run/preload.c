#include "tools/run/preload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/run_id.h"
#include "base/path.h"
#include "tools/run/program_probe.h"
#include "tools/shorten.h"
#include "tools/tool.h"
#include "tools/parameters.h"

/*
 * gpupool path: prints the path of the library, for LD_PRELOAD="$(gpupool path)" ./app.
 */

static void print_help(void)
{
  printf("usage: gpupool path\n\n"
         "Prints the path of the library that this tool preloads:\n\n"
         "    LD_PRELOAD=\"$(gpupool path)\" ./app\n");
}

int gp_command_path(int argc, char **argv)
{
  static const gp_words_form_t form = {.command = "path", .print_help = print_help};
  char library[GP_PATH_BYTES];
  int words, status;

  if (!gp_words_parse(&form, argc, argv, NULL, &words, &status))
    return status;
  return gp_preload_find(library, sizeof(library)) && puts(library) >= 0 ? GP_EXIT_DONE : GP_EXIT_INPUT;
}

#define ONE_OF_BOTH "use one of the two: take the other out of LD_PRELOAD, or run without gpupool"
#define BEHIND                                                                                               \
  "name libgpupool.so before it in LD_PRELOAD, as gpupool run does: then it sees what the pool allocates from the driver. If the program misbehaves, use one of the two"
#define NOT_POOLED                                                                                           \
  "measure or check without gpupool; under such a tool it limits and records, but pools nothing"

/* Known conflicting libraries. `prefix` is the beginning of the file name that the library's project uses. */
static const struct {
  const char *prefix;
  const char *what;
  const char *remedy;
} known[] = {
    {"libvgpu.so", "HAMi-core, which limits GPU memory itself and hooks the same functions", BEHIND},
    {"libvgpu-control.so", "vgpu-controller, which limits GPU memory itself and hooks the same functions",
        ONE_OF_BOTH},
    {"libcuda-control.so", "vcuda-controller, which limits GPU memory itself and hooks the same functions",
        ONE_OF_BOTH},
    {"libnvshare.so", "nvshare, which replaces device memory by managed memory", ONE_OF_BOTH},
    {"libsanitizer-", "compute-sanitizer, which sees no free that the pool keeps", NOT_POOLED},
    {"libInterceptorInjection", "the launcher of an NVIDIA tool, which watches CUDA calls", NOT_POOLED},
    {"libTreeLauncherTargetInjection", "Nsight Systems, which watches CUDA calls", NOT_POOLED},
    {"libToolsInjection", "Nsight Systems, which watches CUDA calls", NOT_POOLED},
    {"libcuda-injection", "Nsight Compute, which watches CUDA calls", NOT_POOLED},
};

/* Functions that a library defines only if it hooks the driver. */
static const char *const hooked[] = {"cuMemAlloc_v2", "cuGetProcAddress_v2", "cudaMalloc", "dlsym", NULL};

bool gp_conflict_comes_first(const char *file)
{
  const char *name = gp_base_name(file);
  return strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libclang_rt.asan", 16) == 0;
}

static void check_library(const char *path, const char *where, gp_conflict_fn report, void *arg)
{
  char what[GP_PATH_BYTES + 256];
  const char *name = gp_base_name(path);

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) != 0)
      continue;
    snprintf(what, sizeof(what), "%s has %s: %s", where, path, known[i].what);
    report(arg, what, known[i].remedy);
    return;
  }
  if (strcmp(name, "libgpupool.so") == 0 || gp_conflict_comes_first(path))
    return;
  const char *function = strchr(path, '/') ? gp_elf_defines(path, hooked) : NULL;
  if (function) {
    snprintf(what, sizeof(what), "%s has %s, which defines %s as gpupool does", where, path, function);
    report(arg, what, BEHIND);
  }
}

static void check_list(
    const char *list, const char *where, const char *separators, gp_conflict_fn report, void *arg)
{
  char path[GP_PATH_BYTES];

  for (list += strspn(list, separators); *list; list += strspn(list, separators)) {
    size_t length = strcspn(list, separators);
    if (length < sizeof(path)) {
      memcpy(path, list, length);
      path[length] = '\0';
      check_library(path, where, report, arg);
    }
    list += length;
  }
}

void gp_conflicts_find(const char *list, const char *ld_so_preload, gp_conflict_fn report, void *arg)
{
  static const char injecting[] = "CUDA_INJECTION64_PATH";
  char text[4096], what[GP_PATH_BYTES + 256];

  if (list)
    check_list(list, "LD_PRELOAD", GP_PRELOAD_SEPARATORS, report, arg);
  FILE *file = fopen(ld_so_preload, "re");
  while (file && fgets(text, sizeof(text), file)) {
    text[strcspn(text, "#\n")] = '\0';
    check_list(text, ld_so_preload, GP_PRELOAD_SEPARATORS "\t", report, arg);
  }
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
  const char *path = getenv(injecting);
  if (path && path[0]) {
    snprintf(what, sizeof(what), "%s=%s: the driver loads a tool that watches CUDA calls", injecting, path);
    report(arg, what, NOT_POOLED);
  }
}

#define LIBRARY "libgpupool.so"

/* Finds the folder of this executable, with links resolved and a final slash. If /proc is missing, as in a
 * chroot, uses the path by which the executable was started. Returns false on failure. */
static bool own_folder(char *buffer, size_t capacity)
{
  const char *started = (const char *)getauxval(AT_EXECFN); /* NULL: unknown */
  char *path = realpath("/proc/self/exe", NULL);
  if (!path && started)
    path = realpath(started, NULL);
  int length = path ? snprintf(buffer, capacity, "%s", path) : -1;
  free(path);
  if (length < 0 || (size_t)length >= capacity)
    return false;
  char *slash = strrchr(buffer, '/');
  if (!slash)
    return false;
  slash[1] = '\0';
  return true;
}

/* Returns true if `path` is a library that programs of this tool's architecture can load, and writes the
 * resolved path to `buffer`. The check is needed because the folders below may contain libraries of other
 * architectures. If /proc is not mounted, accepts any ELF file. */
static bool is_library(const char *path, char *buffer, size_t capacity)
{
  gp_elf_facts_t facts, own;
  char *resolved = realpath(path, NULL);
  bool good = resolved && access(resolved, R_OK) == 0 && strlen(resolved) < capacity;

  if (good) {
    gp_elf_read_file(resolved, &facts);
    gp_elf_read_file("/proc/self/exe", &own);
    good = facts.is_elf && (!own.is_elf || gp_elf_is_alike(&facts, &own));
  }
  if (good)
    strcpy(buffer, resolved);
  free(resolved);
  return good;
}

bool gp_preload_find(char *buffer, size_t capacity)
{
  /*
   * Paths relative to the executable's folder. The installed layouts come first, and work wherever the tree
   * was moved. The build's layouts follow. The configured path is tried last, because it may contain another
   * version.
   */
  static const char *const places[] = {
      "../" GP_LIBDIR_NAME "/" LIBRARY,
      "../lib/" LIBRARY, /* also for a wheel: gpupool/bin and gpupool/lib */
      "../lib/" GP_MULTIARCH "/" LIBRARY,
      "../lib64/" LIBRARY,
      "../interpose/" LIBRARY,
      LIBRARY,
  };
  char folder[GP_PATH_BYTES];
  char path[GP_PATH_BYTES + 256];

  if (own_folder(folder, sizeof(folder))) {
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
      int length = snprintf(path, sizeof(path), "%s%s", folder, places[i]);
      if (length > 0 && (size_t)length < sizeof(path) && is_library(path, buffer, capacity))
        return true;
    }
  }
  if (is_library(GP_LIBDIR "/" LIBRARY, buffer, capacity))
    return true;
  gp_message("%s was not found, neither next to this tool nor in %s: the installation is not complete",
      LIBRARY, GP_LIBDIR);
  return false;
}

static bool is_library_name(const char *entry)
{
  return strcmp(gp_base_name(entry), LIBRARY) == 0;
}

/* Prints a message if `entry` is another copy of the library, which is dropped: the user may have meant
 * it. */
static void drop_copy(const char *entry, const char *library)
{
  char *resolved = strchr(entry, '/') ? realpath(entry, NULL) : NULL;
  if (resolved && strcmp(resolved, library) != 0)
    gp_message("LD_PRELOAD has another copy of the library, %s; %s is used", entry, library);
  free(resolved);
}

/* Appends `entry` to the list in `text`, which must have enough room. */
static void append(char *text, const char *entry)
{
  if (text[0])
    strcat(text, ":");
  strcat(text, entry);
}

/* Returns true if `list`, whose entries are separated by colons, contains `entry`. */
static bool holds(const char *list, const char *entry)
{
  size_t length = strlen(entry);
  for (const char *at = list; *at; at += strcspn(at, ":"), at += *at == ':')
    if (strcspn(at, ":") == length && strncmp(at, entry, length) == 0)
      return true;
  return false;
}

/* Appends entries of LD_PRELOAD (`before`) to `text`: with `are_first` those that must precede the library,
 * otherwise all others. */
static void take(const char *before, bool are_first, const char *library, char *text)
{
  char *copy = strdup(before), *save;

  for (char *entry = copy ? strtok_r(copy, GP_PRELOAD_SEPARATORS, &save) : NULL; entry;
       entry = strtok_r(NULL, GP_PRELOAD_SEPARATORS, &save)) {
    if (is_library_name(entry)) {
      if (!are_first)
        drop_copy(entry, library);
    } else if (gp_conflict_comes_first(entry) == are_first && !holds(text, entry)) {
      append(text, entry);
    }
  }
  free(copy);
}

bool gp_preload_set(const char *library)
{
  const char *before = getenv("LD_PRELOAD");

  if (strpbrk(library, GP_PRELOAD_SEPARATORS)) {
    gp_message("%s cannot be preloaded: the loader accepts no path with a space or a colon", library);
    return false;
  }
  before = before ? before : "";
  char *text = calloc(1, strlen(before) + strlen(library) + 3);
  if (text) {
    take(before, true, library, text);
    append(text, library);
    take(before, false, library, text);
  }
  bool good = text && setenv("LD_PRELOAD", text, 1) == 0;
  if (!good)
    gp_message("out of memory");
  free(text);
  return good;
}

bool gp_preload_set_nvtx(const char *library)
{
  static const char variable[] = "NVTX_INJECTION64_PATH";
  const char *tool = getenv(variable);
  int error = 0;

  if (tool && tool[0] && strcmp(tool, library) != 0)
    error |= setenv(GP_NVTX_NEXT_VARIABLE, tool, 1);
  error |= setenv(variable, library, 1);
  if (error)
    gp_message("out of memory");
  return !error;
}
