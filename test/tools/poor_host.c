/*
 * What the C library gives the tool, with a bound: request number POOR_HOST for memory is refused (0 or
 * unset: none). Preloaded.
 *
 * A program that ends by itself must have closed its files: one that is open or mapped then and was not when
 * the program began is named, and the exit status is LEFT_OPEN. POOR_HOST_FILE gets the numbers of the
 * requests to refuse in turn: the first and the last of each place in the code that asks.
 *
 * Requests are those of the tool, of cJSON and of what decompresses. Not those of libdw, whose errors are its
 * own. One thread.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEFT_OPEN   24
#define DESCRIPTORS 256
#define PLACES      4096
#define OBJECTS     8
#define EXPORTED    __attribute__((visibility("default")))

typedef struct place {
  uintptr_t address;
  unsigned first;
  unsigned last;
} place_t;

static struct {
  uintptr_t begin;
  uintptr_t end;
} objects[OBJECTS]; /* whose requests count */
static size_t object_count;
static place_t places[PLACES];
static size_t place_count;
static unsigned asked, refused; /* the number of the last request, and of the one that is refused */
static bool was_open[DESCRIPTORS];
static size_t maps_before;

static int add_object(struct dl_phdr_info *object, size_t size, void *unused)
{
  (void)size;
  (void)unused;
  const char *slash = strrchr(object->dlpi_name, '/');
  const char *name = slash ? slash + 1 : object->dlpi_name;
  bool is_program = object_count == 0; /* the first */
  if (object_count == OBJECTS ||
      (!is_program && strncmp(name, "libcjson", 8) != 0 && strncmp(name, "libz", 4) != 0))
    return 0;
  objects[object_count].begin = UINTPTR_MAX;
  objects[object_count].end = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
    if (object->dlpi_phdr[i].p_type != PT_LOAD)
      continue;
    if (begin < objects[object_count].begin)
      objects[object_count].begin = begin;
    if (begin + object->dlpi_phdr[i].p_memsz > objects[object_count].end)
      objects[object_count].end = begin + object->dlpi_phdr[i].p_memsz;
  }
  object_count++;
  return 0;
}

/* Mappings of files that are no code: libraries come when they are needed, and stay. */
static size_t count_maps(bool print)
{
  char line[4096];
  size_t count = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof(line), file)) {
    char *path = strchr(line, '/');
    if (!path || strstr(path, ".so") || strstr(path, "/locale/") || strstr(path, "/gconv/"))
      continue;
    count++;
    if (print)
      fprintf(stderr, "poor_host: mapped: %s", line);
  }
  if (file)
    fclose(file);
  return count;
}

__attribute__((constructor)) static void begin(void)
{
  const char *number = getenv("POOR_HOST");

  for (int i = 0; i < DESCRIPTORS; i++)
    was_open[i] = fcntl(i, F_GETFD) >= 0;
  maps_before = count_maps(false);
  refused = number ? (unsigned)strtoul(number, NULL, 10) : 0;
  dl_iterate_phdr(add_object, NULL);
}

__attribute__((destructor)) static void end(void)
{
  const char *notes = getenv("POOR_HOST_FILE");
  FILE *file = notes ? fopen(notes, "w") : NULL;
  bool is_clean = true;

  for (size_t i = 0; file && i < place_count; i++)
    fprintf(file, "%u %u\n", places[i].first, places[i].last);
  if (file)
    fclose(file);
  for (int i = 0; i < DESCRIPTORS; i++) {
    char link[64], path[4096];
    if (was_open[i] || fcntl(i, F_GETFD) < 0)
      continue;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", i);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    path[length < 0 ? 0 : length] = '\0';
    if (strcmp(path, "/dev/null") == 0)
      continue; /* where the pool's messages go, until the end */
    fprintf(stderr, "poor_host: descriptor %d is open: %s\n", i, path);
    is_clean = false;
  }
  if (count_maps(false) > maps_before) {
    count_maps(true);
    is_clean = false;
  }
  if (!is_clean)
    _exit(LEFT_OPEN);
}

static bool is_refused(const void *caller)
{
  uintptr_t address = (uintptr_t)caller;
  bool counts = false;
  size_t i = 0;

  for (size_t k = 0; k < object_count; k++)
    counts = counts || (address >= objects[k].begin && address < objects[k].end);
  if (!counts)
    return false;
  asked++;
  while (i < place_count && places[i].address != address)
    i++;
  if (i == place_count && place_count < PLACES)
    places[place_count++] = (place_t){address, asked, asked};
  if (i < place_count)
    places[i].last = asked;
  if (asked != refused)
    return false;
  errno = ENOMEM;
  return true;
}

/* What one of them asks of another comes from the C library, or from here, and does not count. */
#define STAND_IN(result, name, parameters, arguments, failed)                                                \
  EXPORTED result name parameters                                                                            \
  {                                                                                                          \
    static __typeof__(&name) next;                                                                           \
    if (is_refused(__builtin_return_address(0)))                                                             \
      return failed;                                                                                         \
    if (!next)                                                                                               \
      next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                                     \
    return next arguments;                                                                                   \
  }

/* What decompresses comes when it is needed. */
EXPORTED void *dlopen(const char *path, int flags)
{
  static __typeof__(&dlopen) next;

  if (!next)
    next = (__typeof__(&dlopen))dlsym(RTLD_NEXT, "dlopen");
  void *library = next(path, flags);
  object_count = 0;
  dl_iterate_phdr(add_object, NULL);
  return library;
}

STAND_IN(void *, malloc, (size_t bytes), (bytes), (void *)NULL)
STAND_IN(void *, calloc, (size_t count, size_t bytes), (count, bytes), (void *)NULL)
STAND_IN(void *, realloc, (void *old, size_t bytes), (old, bytes), (void *)NULL)
STAND_IN(void *, reallocarray, (void *old, size_t count, size_t bytes), (old, count, bytes), (void *)NULL)
STAND_IN(char *, strdup, (const char *text), (text), (char *)NULL)
STAND_IN(char *, strndup, (const char *text, size_t length), (text, length), (char *)NULL)
STAND_IN(FILE *, fopen64, (const char *path, const char *mode), (path, mode), (FILE *)NULL)
STAND_IN(FILE *, fdopen, (int fd, const char *mode), (fd, mode), (FILE *)NULL)
STAND_IN(FILE *, open_memstream, (char **text, size_t *length), (text, length), (FILE *)NULL)
STAND_IN(DIR *, opendir, (const char *path), (path), (DIR *)NULL)
STAND_IN(int, vasprintf, (char **text, const char *format, va_list arguments), (text, format, arguments), -1)

/* Up to 2.35 glibc finds the oldest one here, which needs a buffer. */
EXPORTED char *realpath(const char *path, char *resolved)
{
  static __typeof__(&realpath) next;

  if (is_refused(__builtin_return_address(0)))
    return NULL;
  if (!next)
    next = (__typeof__(&realpath))dlsym(RTLD_NEXT, "realpath");
  char *buffer = resolved ? resolved : malloc(PATH_MAX);
  char *result = buffer ? next(path, buffer) : NULL;
  if (!result && !resolved)
    free(buffer);
  return result;
}

/* A build with _FORTIFY_SOURCE calls __asprintf_chk instead, which is not counted. */
EXPORTED int asprintf(char **text, const char *format, ...)
{
  if (is_refused(__builtin_return_address(0)))
    return -1;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}
