/*
 * Seconds to name 5,000 different addresses of the C library, the file in the page cache.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/read/native/snapshot_reader.h"
#include "tools/symbols/symbols.h"

#define ADDRESSES 5000

typedef struct code {
  char path[4096];
  char build_id[129];
  uint64_t bias;
  uint64_t start;
  uint64_t bytes;
} code_t;

static int find_libc(struct dl_phdr_info *info, size_t size, void *arg)
{
  code_t *code = arg;
  (void)size;
  if (!strstr(info->dlpi_name, "/libc.so"))
    return 0;
  snprintf(code->path, sizeof(code->path), "%s", info->dlpi_name);
  code->bias = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const char *at = (const char *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
    const ElfW(Nhdr) *note = (const void *)at;
    if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
      code->start = info->dlpi_addr + segment->p_vaddr;
      code->bytes = segment->p_memsz;
    } else if (segment->p_type == PT_NOTE && note->n_type == NT_GNU_BUILD_ID) {
      for (unsigned k = 0; k < note->n_descsz; k++)
        snprintf(code->build_id + 2 * k, 3, "%02x", ((const unsigned char *)(note + 1))[4 + k]);
    }
  }
  return 1;
}

int main(void)
{
  code_t code = {0};
  gp_snapshot_error_t error;
  char *text;
  size_t length;
  FILE *file = open_memstream(&text, &length);

  if (!file || !dl_iterate_phdr(find_libc, &code))
    return EXIT_FAILURE;
  fprintf(file, "{\"format\":\"gpupool-snapshot\",\"version\":1,\"stacks\":[[0]],\"frames\":[");
  for (uint64_t i = 0; i < ADDRESSES; i++)
    fprintf(file, "%s{\"address\":%llu,\"module\":0}", i ? "," : "",
        (unsigned long long)(code.start + code.bytes / ADDRESSES * i));
  fprintf(file, "],\"modules\":[{\"path\":\"%s\",\"build_id\":\"%s\",\"bias\":%llu,\"start\":1,\"end\":2}]}",
      code.path, code.build_id, (unsigned long long)code.bias);
  fclose(file);

  gp_snapshot_t *snapshot = gp_snapshot_parse(text, length, 0, &error);
  if (!snapshot)
    return EXIT_FAILURE;
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  gp_symbols_resolve(snapshot, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  size_t named = 0, with_line = 0;
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    named += snapshot->frames[i].function[0] != '\0';
    with_line += snapshot->frames[i].line > 0;
  }
  printf("%d addresses: %.3f s; %zu frames, %zu with names, %zu with lines\n", ADDRESSES,
      (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9,
      snapshot->frame_count, named, with_line);
  gp_snapshot_destroy(snapshot);
  free(text);
  return EXIT_SUCCESS;
}
