#include "base/objects.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#define WORD_BITS (8 * sizeof(ElfW(Addr)))

static const void *at(ElfW(Addr) base, ElfW(Addr) address)
{
  /* glibc has already added the base to most of these addresses, but not on every architecture. */
  return (const void *)(address < base ? address + base : address);
}

static void read_segments(const struct dl_phdr_info *info, gp_object_t *object)
{
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const char *begin = (const char *)(info->dlpi_addr + segment->p_vaddr);
    if (segment->p_type == PT_DYNAMIC)
      object->dynamic = (const ElfW(Dyn) *)begin;
    if (segment->p_type != PT_LOAD)
      continue;
    if (!object->begin || begin < object->begin)
      object->begin = begin;
    if (begin + segment->p_memsz > object->end)
      object->end = begin + segment->p_memsz;
  }
}

bool gp_object_read(const struct dl_phdr_info *info, gp_object_t *ret_object)
{
  gp_object_t object = {.base = info->dlpi_addr, .soname = ""};
  ElfW(Addr) soname = 0;

  read_segments(info, &object);
  for (const ElfW(Dyn) *entry = object.dynamic; entry && entry->d_tag != DT_NULL; entry++) {
    ElfW(Addr) value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
    case DT_SYMTAB: object.symbols = at(object.base, value); break;
    case DT_STRTAB: object.strings = at(object.base, value); break;
    case DT_GNU_HASH: object.gnu_hash = at(object.base, value); break;
    case DT_HASH: object.sysv_hash = at(object.base, value); break;
    case DT_VERDEF: object.has_versions = true; break;
    case DT_VERNEED: object.needs = at(object.base, value); break;
    case DT_SONAME: soname = value; break;
    case DT_FLAGS_1: object.stays = (value & DF_1_NODELETE) != 0; break;
    default: break;
    }
  }
  if (!object.symbols || !object.strings)
    return false;
  if (soname != 0)
    object.soname = object.strings + soname;
  *ret_object = object;
  return true;
}

static bool is_definition(const gp_object_t *object, uint32_t index, const char *name)
{
  const ElfW(Sym) *symbol = &object->symbols[index];
  return symbol->st_shndx != SHN_UNDEF && strcmp(object->strings + symbol->st_name, name) == 0;
}

/* Looks `name` up in the object's GNU hash table. The System V ABI ("Hash Table") and the GNU linker's
 * documentation describe the layouts of the tables. */
static const ElfW(Sym) * find_by_gnu_hash(const gp_object_t *object, const char *name)
{
  const uint32_t *table = object->gnu_hash;
  uint32_t bucket_count = table[0], first = table[1], word_count = table[2], shift = table[3];
  const ElfW(Addr) *words = (const ElfW(Addr) *)(const void *)&table[4];
  const uint32_t *buckets = (const uint32_t *)(const void *)&words[word_count];
  const uint32_t *chains = &buckets[bucket_count];
  uint32_t hash = 5381;

  for (const char *c = name; *c; c++)
    hash = hash * 33 + (unsigned char)*c;
  if (bucket_count == 0 || word_count == 0)
    return NULL;
  ElfW(Addr) word = words[hash / WORD_BITS % word_count];
  if (!(word >> hash % WORD_BITS & 1) || !(word >> (hash >> shift) % WORD_BITS & 1))
    return NULL;
  uint32_t index = buckets[hash % bucket_count];
  if (index < first)
    return NULL;
  for (;; index++) { /* the last entry of a chain has its lowest bit set */
    if ((chains[index - first] | 1) == (hash | 1) && is_definition(object, index, name))
      return &object->symbols[index];
    if (chains[index - first] & 1)
      return NULL;
  }
}

static const ElfW(Sym) * find_by_sysv_hash(const gp_object_t *object, const char *name)
{
  const uint32_t *table = object->sysv_hash;
  uint32_t bucket_count = table[0];
  const uint32_t *buckets = &table[2];
  const uint32_t *chains = &buckets[bucket_count];
  uint32_t hash = 0;

  for (const char *c = name; *c; c++) {
    hash = (hash << 4) + (unsigned char)*c;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  for (uint32_t i = bucket_count == 0 ? 0 : buckets[hash % bucket_count]; i != 0; i = chains[i])
    if (is_definition(object, i, name))
      return &object->symbols[i];
  return NULL;
}

const ElfW(Sym) * gp_object_symbol(const gp_object_t *object, const char *name)
{
  return object->gnu_hash    ? find_by_gnu_hash(object, name)
         : object->sysv_hash ? find_by_sysv_hash(object, name)
                             : NULL;
}

bool gp_object_defines(const gp_object_t *object, const char *name, void **ret_address)
{
  const ElfW(Sym) *symbol = gp_object_symbol(object, name);
  if (!symbol)
    return false;
  *ret_address =
      ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? (void *)(object->base + symbol->st_value) : NULL;
  return true;
}

bool gp_object_needs(const gp_object_t *object, const char *soname)
{
  for (const ElfW(Dyn) *entry = object->dynamic; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_NEEDED && strcmp(object->strings + entry->d_un.d_val, soname) == 0)
      return true;
  return false;
}

/* In both lists (Verneed, Vernaux), the last member of an entry is the distance to the next entry. */
const char *gp_object_needed_version(const gp_object_t *object, const char *soname)
{
  const ElfW(Verneed) *need = object->needs;

  while (need && strcmp(object->strings + need->vn_file, soname) != 0)
    need = need->vn_next != 0 ? (const void *)((const char *)need + need->vn_next) : NULL;
  if (!need || need->vn_cnt == 0)
    return NULL;
  const ElfW(Vernaux) *version = (const void *)((const char *)need + need->vn_aux);
  return object->strings + version->vna_name;
}
