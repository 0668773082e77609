/*
 * Performs the driver look-ups of a CUDA runtime, as listed in a file of rows "GPA NAME VERSION FLAGS ..."
 * (the name may be empty; what follows the flags is ignored), in the way the runtime does: dlopen, one dlsym,
 * then cuGetProcAddress_v2 with a NULL status. Prints for each the result and the object that holds the
 * function, so that runs with and without a preloaded library can be compared.
 *
 * lookups FILE
 */
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static PFN_cuGetProcAddress_v11030 find_v1;
static PFN_cuGetProcAddress_v12000 find_v2;

static const char *object_of(void *function)
{
  Dl_info info;
  if (!function)
    return "NULL";
  if (!dladdr(function, &info) || !info.dli_fname)
    return "?";
  const char *slash = strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

static void look_up(const char *name, int version, unsigned long flags)
{
  void *function = NULL;
  CUresult result =
      find_v2 ? find_v2(name, &function, version, flags, NULL) : find_v1(name, &function, version, flags);
  printf("%s %d %lu -> %d %s\n", *name ? name : "\"\"", version, flags, (int)result, object_of(function));
}

/* Returns false if the row has another form. */
static int parse_row(char *text)
{
  char *name = text + 4, *end;
  if (strncmp(text, "GPA ", 4) != 0)
    return 0;
  char *space = strchr(name, ' '); /* at once for the empty name */
  if (!space)
    return 0;
  *space = '\0';
  long version = strtol(space + 1, &end, 10);
  if (end == space + 1 || *end != ' ')
    return 0;
  char *flags_text = end + 1;
  unsigned long flags = strtoul(flags_text, &end, 10);
  if (end == flags_text || (*end && !strchr(" \r\n", *end)))
    return 0;
  look_up(name, (int)version, flags);
  return 1;
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    fprintf(stderr, "usage: lookups FILE\n");
    return 2;
  }
  FILE *file = fopen(argv[1], "r");
  if (!file) {
    fprintf(stderr, "lookups: %s: %s\n", argv[1], strerror(errno));
    return 2;
  }
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "lookups: %s\n", dlerror());
    fclose(file);
    return 1;
  }
  void *symbol = dlsym(driver, "cuGetProcAddress_v2");
  memcpy(&find_v2, &symbol, sizeof(symbol));
  printf("cuGetProcAddress_v2: %s\n", object_of(symbol));
  if (!symbol) { /* before driver 12.0 */
    symbol = dlsym(driver, "cuGetProcAddress");
    memcpy(&find_v1, &symbol, sizeof(symbol));
    printf("cuGetProcAddress: %s\n", object_of(symbol));
  }

  char *text = NULL;
  size_t room = 0;
  int status = symbol ? 0 : 1;
  for (unsigned line = 1; status == 0 && getline(&text, &room, file) >= 0; line++)
    if (!parse_row(text)) {
      fprintf(stderr, "lookups: %s:%u: expected \"GPA NAME VERSION FLAGS\"\n", argv[1], line);
      status = 2;
    }
  free(text);
  fclose(file);
  return status;
}
