#include "interpose/escape.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/lookup.h"
#include "interpose/real.h"
#include "pool/util/log.h"

#if defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#else
#define IS_ADDRESS(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

/* Of each mapped file one mapping begins at offset 0. Other namespaces show here only: no loader call lists them. */
static int count_drivers(void)
{
  char *line = NULL;
  size_t room = 0;
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "re");

  while (maps && getline(&line, &room, maps) >= 0) {
    unsigned long long offset;
    int path = 0;
    if (sscanf(line, "%*s %*s %llx %*s %*s %n", &offset, &path) < 1 || offset != 0 || path == 0)
      continue;
    line[strcspn(line, "\n")] = '\0';
    count += gp_real_is_driver_file(line + path);
  }
  free(line);
  if (maps)
    (void)fclose(maps); /* it was only read */
  return count;
}

typedef struct object {
  ElfW(Addr) base;
  const ElfW(Sym) * symbols;
  const char *strings;
} object_t;

/*
 * Whether the library may be one that looks the driver up: others have dlsym past us, too, and that is nobody's business.
 * One that finds the driver by dlsym has these names among its strings.
 */
static bool mentions_driver(const struct dl_phdr_info *info)
{
  static const char *const names[] = {"cuGetProcAddress", "cuMemAlloc_v2"};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_W)) != PF_R)
      continue;
    const void *begin = (const void *)(info->dlpi_addr + segment->p_vaddr);
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
      if (memmem(begin, segment->p_filesz, names[k], strlen(names[k]) + 1))
        return true;
  }
  return false;
}

/*
 * True if the loader gave this object the driver's function, or the C library's dlsym, where everybody else gets ours.
 * A slot that was not used yet leads into the object itself, and shows nothing.
 */
static bool bypasses(const struct dl_phdr_info *info, const object_t *object, const ElfW(Rela) * relocations, size_t bytes)
{
  for (size_t i = 0; i < bytes / sizeof(*relocations); i++) {
    const ElfW(Rela) *relocation = &relocations[i];
    if (!IS_ADDRESS(ELF64_R_TYPE(relocation->r_info)))
      continue;
    const char *name = object->strings + object->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
    const void *behind = gp_lookup_behind(name);
    if (!behind)
      continue;
    void *found;
    memcpy(&found, (const void *)(object->base + relocation->r_offset), sizeof(found));
    if (found == behind && (name[0] == 'c' || mentions_driver(info)))
      return true;
  }
  return false;
}

static const void *at(const object_t *object, ElfW(Addr) address)
{
  /* glibc has added the base to most of these already, but not on every architecture. */
  return (const void *)(address < object->base ? address + object->base : address);
}

typedef struct finding {
  const char *name; /* of a library that goes past us, or NULL */
  const void *own;
} finding_t;

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
  finding_t *finding = arg;
  object_t object = {.base = info->dlpi_addr};
  const ElfW(Dyn) *dynamic = NULL;
  const ElfW(Rela) *tables[2] = {NULL, NULL};
  size_t bytes[2] = {0, 0};

  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    ElfW(Addr) begin = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn) *)begin;
    if (segment->p_type == PT_LOAD && (ElfW(Addr))finding->own - begin < segment->p_memsz)
      return 0; /* this library, whose way to the driver is the real one */
  }
  if (!dynamic || gp_real_is_driver_file(info->dlpi_name))
    return 0;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    ElfW(Addr) value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
    case DT_SYMTAB: object.symbols = at(&object, value); break;
    case DT_STRTAB: object.strings = at(&object, value); break;
    case DT_JMPREL: tables[0] = at(&object, value); break;
    case DT_PLTRELSZ: bytes[0] = value; break;
    case DT_RELA: tables[1] = at(&object, value); break;
    case DT_RELASZ: bytes[1] = value; break;
    default: break;
    }
  }
  for (int i = 0; i < 2; i++)
    if (tables[i] && object.symbols && object.strings && bypasses(info, &object, tables[i], bytes[i])) {
      finding->name = info->dlpi_name;
      return 1;
    }
  return 0;
}

bool gp_escape_check(void)
{
  static atomic_flag told = ATOMIC_FLAG_INIT;
  finding_t finding = {NULL, (const void *)gp_escape_check};
  int drivers = count_drivers();

  if (drivers <= 1)
    (void)dl_iterate_phdr(look_at_object, &finding);
  if (drivers <= 1 && !finding.name)
    return false;
  if (atomic_flag_test_and_set(&told))
    return true;
  if (drivers > 1)
    gp_log(GP_LOG_ERROR,
        "the process has %d copies of the CUDA driver library (dlmopen?); what goes through the others is not seen, so "
        "nothing is pooled",
        drivers);
  else
    gp_log(GP_LOG_ERROR,
        "%s calls the CUDA driver past gpupool (RTLD_DEEPBIND?); its work is not seen, so nothing is pooled",
        finding.name[0] ? finding.name : "the program");
  return true;
}
