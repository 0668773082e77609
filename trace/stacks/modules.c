#include "trace/stacks/modules.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loader_walk.h"
#include "base/pages.h"

gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info)
{
  gp_bounds_t bounds = {.start = UINTPTR_MAX, .end = 0};

  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD)
      continue;
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    uintptr_t end = start + segment->p_memsz;
    bounds.start = start < bounds.start ? start : bounds.start;
    bounds.end = end > bounds.end ? end : bounds.end;
  }
  return bounds;
}

#define PATH_BYTES_MAX 4096

/* A scan of the loaded objects, which are collected in `found`. */
typedef struct scan {
  gp_modules_t *modules;
  gp_sort_key_t *found;
  size_t found_count;
  uint64_t loads;
  uint64_t unloads;
  bool is_reused; /* a module is at an address where a different module was before */
  bool has_program;
} scan_t;

bool gp_modules_init(gp_modules_t *modules, gp_region_t *region)
{
  size_t log_bytes;
  gp_module_log_t *log = gp_region_section(region, GP_SECTION_MODULES, &log_bytes);
  gp_sort_key_t *loaded = gp_pages_map(GP_MODULES_MAX * sizeof(*loaded) * 2, false);
  uint32_t *offsets = gp_pages_map(GP_MODULES_MAX * sizeof(*offsets), false);

  if (!loaded || !offsets) {
    gp_pages_unmap(loaded, GP_MODULES_MAX * sizeof(*loaded) * 2);
    gp_pages_unmap(offsets, GP_MODULES_MAX * sizeof(*offsets));
    return false;
  }
  *modules = (gp_modules_t){.region = region,
      .log = log,
      .log_bytes = log_bytes,
      .loaded = loaded,
      .offsets = offsets,
      .generation = 1};
  return true;
}

void gp_modules_fini(gp_modules_t *modules)
{
  gp_pages_unmap(modules->loaded, GP_MODULES_MAX * sizeof(*modules->loaded) * 2);
  gp_pages_unmap(modules->offsets, GP_MODULES_MAX * sizeof(*modules->offsets));
  *modules = (gp_modules_t){0};
}

/* Reads the loader's counts. They are the same for all objects, so the first object suffices. */
static int read_counts(struct dl_phdr_info *info, size_t size, void *arg)
{
  gp_loader_counts_t *counts = arg;
  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
    *counts = (gp_loader_counts_t){info->dlpi_adds, info->dlpi_subs};
  return 1;
}

gp_loader_counts_t gp_loader_counts(void)
{
  gp_loader_counts_t counts = {0};
  (void)gp_loader_walk(read_counts, &counts);
  return counts;
}

static const gp_module_record_t *record_at(const gp_modules_t *modules, uint32_t module)
{
  return (const gp_module_record_t *)(modules->log->data + modules->offsets[module]);
}

/* Stores the build ID from the object's loaded notes in the record. The length is 0 if there is no build
 * ID. */
static void read_build_id(
    const struct dl_phdr_info *info, uint64_t start, uint64_t end, gp_module_record_t *record)
{
  record->build_id_length = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uint64_t at = info->dlpi_addr + segment->p_vaddr;
    uint64_t stop = at + segment->p_memsz;
    uint64_t align = segment->p_align == 8 ? 8 : 4;
    if (segment->p_type != PT_NOTE || at < start || stop > end)
      continue;
    while (stop - at >= sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const void *)(uintptr_t)at;
      uint64_t content = at + sizeof(*note) + ((note->n_namesz + align - 1) & ~(align - 1));
      if (content > stop || stop - content < note->n_descsz)
        break;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0 &&
          note->n_descsz <= GP_BUILD_ID_BYTES) {
        record->build_id_length = (uint16_t)note->n_descsz;
        memcpy(record->build_id, (const void *)(uintptr_t)content, note->n_descsz);
        return;
      }
      at = content + ((note->n_descsz + align - 1) & ~(align - 1));
      if (at > stop)
        break;
    }
  }
}

/* Writes the object's absolute path and returns its length. The path may differ from the loader's: the loader
 * does not report the program's own name, and may report a path relative to the current folder at dlopen. */
static size_t read_path(const struct dl_phdr_info *info, bool is_program, char *buffer)
{
  const char *name = info->dlpi_name ? info->dlpi_name : "";
  size_t length = strnlen(name, PATH_BYTES_MAX);

  if (is_program) {
    ssize_t got = readlink("/proc/self/exe", buffer, PATH_BYTES_MAX);
    if (got > 0)
      return (size_t)got;
  }
  size_t prefix = 0;
  if (name[0] != '/' && strchr(name, '/') && getcwd(buffer, PATH_BYTES_MAX)) {
    prefix = strlen(buffer);
    buffer[prefix++] = '/';
    if (strncmp(name, "./", 2) == 0) {
      name += 2;
      length -= 2;
    }
  }
  if (prefix + length > PATH_BYTES_MAX)
    length = PATH_BYTES_MAX - prefix;
  memcpy(buffer + prefix, name, length);
  return prefix + length;
}

static bool is_same(const gp_module_record_t *a, const gp_module_record_t *b)
{
  return a->bias == b->bias && a->start == b->start && a->end == b->end && a->path_length == b->path_length &&
         a->build_id_length == b->build_id_length &&
         memcmp(a->build_id, b->build_id, a->build_id_length) == 0 &&
         memcmp(a->path, b->path, a->path_length) == 0;
}

/* Returns the module that the last scan found at `address`, or NULL if there is none. */
static const gp_sort_key_t *find_loaded(const gp_modules_t *modules, uint64_t address)
{
  size_t low = 0, high = modules->loaded_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (modules->loaded[middle].key <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && address < record_at(modules, modules->loaded[low - 1].index)->end
             ? &modules->loaded[low - 1]
             : NULL;
}

/* Returns true if the object was already loaded at the last scan, so that its data need not be read again.
 * This is certain only if nothing was unloaded since then. */
static bool is_still_there(
    const scan_t *scan, const gp_sort_key_t *before, uint64_t bias, uint64_t start, uint64_t end)
{
  if (!before || before->key != start || scan->unloads != atomic_load(&scan->modules->unloads))
    return false;
  const gp_module_record_t *record = record_at(scan->modules, before->index);
  return record->end == end && record->bias == bias;
}

/* Writes a module's record after the end of the log, where readers do not see it yet. Returns NULL if the log
 * is full. */
static gp_module_record_t *draft(
    scan_t *scan, const struct dl_phdr_info *info, bool is_program, uint64_t start, uint64_t end)
{
  gp_module_log_t *log = scan->modules->log;
  uint32_t used = atomic_load_explicit(&log->byte_count, memory_order_relaxed);
  gp_module_record_t *record = (gp_module_record_t *)(log->data + used);

  if (atomic_load_explicit(&log->module_count, memory_order_relaxed) == GP_MODULES_MAX ||
      !gp_region_grow(scan->modules->region, GP_SECTION_MODULES,
          sizeof(*log) + used + sizeof(*record) + PATH_BYTES_MAX + 8))
    return NULL;
  record->bias = info->dlpi_addr;
  record->start = start;
  record->end = end;
  read_build_id(info, start, end, record);
  record->path_length = (uint16_t)read_path(info, is_program, record->path);
  record->record_bytes = (uint32_t)((sizeof(*record) + record->path_length + 7) & ~(size_t)7);
  return record;
}

/* Returns the index of the drafted module. Publishes the draft unless the log already contains an equal
 * record. */
static uint32_t intern(scan_t *scan, gp_module_record_t *record)
{
  gp_modules_t *modules = scan->modules;
  gp_module_log_t *log = modules->log;
  uint32_t count = atomic_load_explicit(&log->module_count, memory_order_relaxed);
  uint32_t used = atomic_load_explicit(&log->byte_count, memory_order_relaxed);
  uint32_t same = count;

  for (uint32_t i = 0; i < count; i++) {
    const gp_module_record_t *other = record_at(modules, i);
    if (is_same(record, other))
      same = i;
    else if (record->start < other->end && other->start < record->end)
      scan->is_reused = true;
  }
  if (same < count) {
    memset(record, 0, record->record_bytes);
    return same;
  }
  modules->offsets[count] = used;
  atomic_store_explicit(&log->module_count, count + 1, memory_order_relaxed);
  atomic_store_explicit(&log->byte_count, used + record->record_bytes, memory_order_release);
  return count;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
  scan_t *scan = arg;
  bool is_program = !scan->has_program;
  gp_bounds_t bounds = gp_bounds_of(info);

  if (is_program && size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
    scan->loads = info->dlpi_adds;
    scan->unloads = info->dlpi_subs;
  }
  scan->has_program = true; /* set for the first object, because the loader lists the program first */
  if (bounds.start >= bounds.end)
    return 0;
  if (scan->found_count == GP_MODULES_MAX)
    return 1;
  const gp_sort_key_t *before = find_loaded(scan->modules, bounds.start);
  if (is_still_there(scan, before, info->dlpi_addr, bounds.start, bounds.end)) {
    scan->found[scan->found_count++] = *before;
    return 0;
  }
  gp_module_record_t *record = draft(scan, info, is_program, bounds.start, bounds.end);
  if (record)
    scan->found[scan->found_count++] = (gp_sort_key_t){bounds.start, intern(scan, record)};
  return 0;
}

void gp_modules_scan(gp_modules_t *modules)
{
  scan_t scan = {.modules = modules, .found = modules->loaded + GP_MODULES_MAX};

  /* Grows the section before the loader's lock is taken, because the first growth of a region creates
   * files. */
  if (!gp_region_grow(modules->region, GP_SECTION_MODULES, sizeof(*modules->log)))
    return;
  (void)gp_loader_walk(look_at, &scan);
  gp_sort_keys(scan.found, scan.found_count);
  memcpy(modules->loaded, scan.found, scan.found_count * sizeof(*scan.found));
  modules->loaded_count = scan.found_count;
  if (scan.is_reused)
    (void)atomic_fetch_add_explicit(&modules->generation, 1, memory_order_relaxed);
  /* Stores the counts after the generation, so that no thread combines the new counts with the old
   * generation. */
  atomic_store_explicit(&modules->unloads, scan.unloads, memory_order_relaxed);
  atomic_store_explicit(&modules->loads, scan.loads, memory_order_release);
}

int32_t gp_modules_find(const gp_modules_t *modules, uint64_t address)
{
  const gp_sort_key_t *loaded = find_loaded(modules, address);
  return loaded ? (int32_t)loaded->index : -1;
}
