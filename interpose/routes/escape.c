#include "interpose/routes/escape.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/routes/classes.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "pool/reuse/known_streams.h"
#include "base/assert.h"
#include "base/loader_walk.h"
#include "base/log.h"

#if defined(__x86_64__)
#define IS_ADDRESS(type)                                                                                     \
  ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#else
#define IS_ADDRESS(type)                                                                                     \
  ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

/* Returns the number of driver libraries in the process. Counts the mappings that begin at offset 0: each
 * mapped file has one. Only /proc/self/maps shows other linker namespaces; no loader call does. */
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
    (void)fclose(maps); /* opened only for reading */
  return count;
}

typedef struct object {
  ElfW(Addr) base;
  const ElfW(Sym) * symbols;
  const char *strings;
  const ElfW(Rela) * tables[2];
  size_t bytes[2];
} object_t;

/* Returns true if the object may look up the driver's functions with dlsym: its strings then contain these
 * names. An object that bypasses this library's dlsym matters only if it looks up such functions. */
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

/* Returns the function that callers of `name` would reach without this library: the driver's function, or the
 * C library's dlsym. Returns NULL for other names. */
static const void *behind(const char *name)
{
  if (strcmp(name, "dlsym") == 0)
    return gp_real_dlsym_address();
  int function = gp_real_is_driver_name(name) ? gp_real_find(name, GP_HOOK_COUNT) : -1;
  return function >= 0 ? gp_real_get((gp_function_t)function) : NULL;
}

/* Returns true if the loader bound this object to the driver's function, or to the C library's dlsym, instead
 * of to this library's. A slot that is not bound yet points into the object itself, and proves nothing. */
static bool bypasses(
    const struct dl_phdr_info *info, const object_t *object, const ElfW(Rela) * relocations, size_t bytes)
{
  for (size_t i = 0; i < bytes / sizeof(*relocations); i++) {
    const ElfW(Rela) *relocation = &relocations[i];
    if (!IS_ADDRESS(ELF64_R_TYPE(relocation->r_info)))
      continue;
    const char *name = object->strings + object->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
    const void *real = behind(name);
    if (!real)
      continue;
    void *found;
    memcpy(&found, (const void *)(object->base + relocation->r_offset), sizeof(found));
    if (found == real && (name[0] == 'c' || mentions_driver(info)))
      return true;
  }
  return false;
}

static const void *at(const object_t *object, ElfW(Addr) address)
{
  /* glibc has already added the base to most of these addresses, but not on every architecture. */
  return (const void *)(address < object->base ? address + object->base : address);
}

/* Reads an object's dynamic section. Returns false for the driver, for objects without symbols, and for this
 * library, which has to reach the driver itself. */
static bool read_object(const struct dl_phdr_info *info, object_t *object)
{
  const ElfW(Dyn) *dynamic = NULL;

  *object = (object_t){.base = info->dlpi_addr};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    ElfW(Addr) begin = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_DYNAMIC)
      dynamic = (const ElfW(Dyn) *)begin;
    if (segment->p_type == PT_LOAD && (ElfW(Addr))gp_escape_check - begin < segment->p_memsz)
      return false;
  }
  if (!dynamic || gp_real_is_driver_file(info->dlpi_name))
    return false;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    ElfW(Addr) value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
    case DT_SYMTAB: object->symbols = at(object, value); break;
    case DT_STRTAB: object->strings = at(object, value); break;
    case DT_JMPREL: object->tables[0] = at(object, value); break;
    case DT_PLTRELSZ: object->bytes[0] = value; break;
    case DT_RELA: object->tables[1] = at(object, value); break;
    case DT_RELASZ: object->bytes[1] = value; break;
    default: break;
    }
  }
  return object->symbols && object->strings;
}

static int look_for_bypass(struct dl_phdr_info *info, size_t size, void *arg)
{
  const char **ret_name = arg; /* name of a library that bypasses this one */
  object_t object;

  (void)size;
  if (!read_object(info, &object))
    return 0;
  for (int i = 0; i < 2; i++)
    if (object.tables[i] && bypasses(info, &object, object.tables[i], object.bytes[i])) {
      *ret_name = info->dlpi_name;
      return 1;
    }
  return 0;
}

/* Returns the file of a library that precedes this one and whose dlsym does not call this library's; NULL if
 * there is none. */
static const char *find_before_us(Dl_info *info)
{
  void *(*before)(void *, const char *) = gp_real_is_glibc() ? gp_real_dlsym_before() : NULL;
  const void *function = before ? before(gp_real_driver_handle(), "cuMemAlloc_v2") : NULL;

  (void)dlerror(); /* clears an error that is not the program's */
  if (!function || gp_real_is_own(function) || dladdr((const void *)before, info) == 0)
    return NULL;
  return info->dli_fname;
}

bool gp_escape_is_possible(void)
{
  return gp_real_is_glibc() && gp_real_dlsym_before();
}

bool gp_escape_check(void)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;
  const char *library = NULL;
  Dl_info info;
  int drivers = count_drivers();
  const char *before = drivers <= 1 ? find_before_us(&info) : NULL;

  if (drivers <= 1 && !before)
    (void)gp_loader_walk(look_for_bypass, &library);
  if (drivers <= 1 && !before && !library)
    return false;
  if (atomic_flag_test_and_set(&has_reported))
    return true;
  if (drivers > 1)
    gp_log(GP_LOG_ERROR,
        "the process has %d copies of the CUDA driver library (dlmopen?) and gpupool sees calls of one only; nothing is pooled",
        drivers);
  else if (before)
    gp_log(GP_LOG_ERROR,
        "%s comes before libgpupool.so and resolves CUDA functions itself, so nothing is pooled; put libgpupool.so first in LD_PRELOAD",
        before);
  else
    gp_log(GP_LOG_ERROR,
        "%s bypasses gpupool when it calls the CUDA driver (RTLD_DEEPBIND?); nothing is pooled",
        library[0] ? library : "the program");
  return true;
}

/*
 * References to names that look like driver functions and are missing from the tables. The walk through the
 * loader's list collects the references. They are looked up in the driver after the walk, because a look-up
 * within the walk could wait for a thread that loads a library.
 */
#define MOST_REFERENCES 16

typedef struct reference {
  char name[64];
  char library[64]; /* "": the program itself */
} reference_t;

typedef struct references {
  unsigned long long loads; /* number of loads so far */
  unsigned count;
  reference_t found[MOST_REFERENCES];
} references_t;

static _Atomic unsigned long long seen_loads; /* number of loads at the last look */

static void collect(references_t *references, const char *library, const char *name)
{
  for (unsigned i = 0; i < references->count; i++)
    if (strcmp(references->found[i].name, name) == 0)
      return;
  if (references->count == MOST_REFERENCES)
    return; /* one name that the driver has is enough; libraries refer to few such names */
  gp_assert(references->count < MOST_REFERENCES);
  reference_t *reference = &references->found[references->count++];
  (void)snprintf(reference->name, sizeof(reference->name), "%s", name);
  (void)snprintf(reference->library, sizeof(reference->library), "%s", library);
}

static int look_for_unknown(struct dl_phdr_info *info, size_t size, void *arg)
{
  references_t *references = arg;
  object_t object;

  (void)size;
  references->loads = info->dlpi_adds;
  if (references->loads == atomic_load_explicit(&seen_loads, memory_order_relaxed))
    return 1;
  if (!read_object(info, &object))
    return 0;
  for (int i = 0; i < 2; i++)
    for (size_t k = 0; object.tables[i] && k < object.bytes[i] / sizeof(*object.tables[i]); k++) {
      const ElfW(Rela) *relocation = &object.tables[i][k];
      const ElfW(Sym) *symbol = &object.symbols[ELF64_R_SYM(relocation->r_info)];
      const char *name = object.strings + symbol->st_name;
      if (IS_ADDRESS(ELF64_R_TYPE(relocation->r_info)) && symbol->st_shndx == SHN_UNDEF &&
          gp_real_is_driver_name(name) && !gp_class_is_known(name) && gp_class_effect(name) != GP_EFFECT_NONE)
        collect(references, info->dlpi_name, name);
    }
  return 0;
}

/*
 * Handles a library that can call `name`, a function that the tables lack, without a trampoline. Treats the
 * calls as already made, and ends pooling if they might free pooled memory, or begin a capture whose end no
 * hook would see. `who` is the calling library's name for the message; "" is the program.
 */
static void note_unseen(gp_engine_t *engine, const char *name, const char *who)
{
  static atomic_flag has_reported = ATOMIC_FLAG_INIT;
  gp_effect_t effect = gp_class_effect(name);

  if (effect == GP_EFFECT_NONE)
    return;
  if (!gp_effect_ends_pooling_unseen(effect)) {
    gp_known_streams_miss(engine);
  } else if (!atomic_flag_test_and_set(&has_reported)) {
    gp_log(GP_LOG_ERROR,
        "%s is linked to %s, which this version of gpupool does not know and cannot intercept; nothing is pooled",
        who[0] ? who : "the program", name);
    gp_engine_stop_pooling(engine);
  }
}

void gp_escape_look_for_unknown(gp_engine_t *engine)
{
  references_t references = {.count = 0};

  (void)gp_loader_walk(look_for_unknown, &references);
  for (unsigned i = 0; i < references.count; i++)
    if (gp_real_driver_has(references.found[i].name))
      note_unseen(engine, references.found[i].name, references.found[i].library);
  atomic_store_explicit(&seen_loads, references.loads, memory_order_relaxed);
}
