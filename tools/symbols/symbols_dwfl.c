/*
 * Finds names with elfutils, in the debug information if there is any, else in the symbol table.
 */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/array.h"
#include "tools/symbols/symbols_debug.h"
#include "tools/symbols/symbols_module.h"
#include "tools/symbols/symbols_open.h"

/*
 * Finds the file with a module's names: the module's own file if it is from the same build, else a debug file
 * of that build.
 */

/* A search for a module's file. Stores the reason why the first existing file was unsuitable. */
typedef struct search {
  const gp_snapshot_module_t *module;
  uint64_t start_time_us;
  char *path;
  size_t path_capacity;
  char *why;
  size_t capacity;
  bool is_rebuilt; /* true if a file of another build exists */
} search_t;

static void refuse(search_t *search, const char *why)
{
  if (!search->why[0])
    (void)snprintf(search->why, search->capacity, "%s %s", search->path, why);
}

static bool is_the_module(search_t *search, int fd)
{
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  char text[320];
  struct stat status;

  if (fstat(fd, &status) || !gp_symbols_read_build_id(fd, build_id)) {
    refuse(search, "is not an ELF file");
    return false;
  }
  if (strcmp(build_id, search->module->build_id) != 0) {
    (void)snprintf(text, sizeof(text), "is another build (build-id %s, the program had %s)",
        build_id[0] ? build_id : "none", search->module->build_id[0] ? search->module->build_id : "none");
    refuse(search, text);
    search->is_rebuilt = true;
    return false;
  }
  uint64_t modified_us = (uint64_t)status.st_mtim.tv_sec * 1000000 + (uint64_t)status.st_mtim.tv_nsec / 1000;
  if (!build_id[0] && modified_us >= search->start_time_us) {
    refuse(search, "has no build-id and was changed after the program began");
    search->is_rebuilt = true;
    return false;
  }
  return true;
}

/* Opens a file that may be the module's. `length` is the return value of snprintf for the path. Returns a
 * descriptor or -1. */
static int try_file(search_t *search, int length)
{
  const char *why;
  if (length < 0 || (size_t)length >= search->path_capacity)
    return -1;
  int fd = gp_symbols_open(search->path, &why);
  if (fd < 0) {
    if (why)
      refuse(search, why);
    return -1;
  }
  if (is_the_module(search, fd))
    return fd;
  (void)close(fd); /* only read */
  return -1;
}

/* Tries to open FOLDER/.build-id/ab/cdef..., with ".debug" and without. Returns a descriptor or -1. */
static int try_build_id(search_t *search, const char *root, const char *folder)
{
  const char *id = search->module->build_id;
  int fd;

  if (!gp_symbols_build_id_is_sound(id))
    return -1;
  fd = try_file(search, snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s.debug", root,
                            folder, id, id + 2));
  if (fd < 0)
    fd = try_file(search,
        snprintf(search->path, search->path_capacity, "%s%s/.build-id/%.2s/%s", root, folder, id, id + 2));
  return fd;
}

/* Returns true if ".." in the path leads above its beginning, so that the path may leave the sysroot. */
static bool climbs_out(const char *path)
{
  int depth = 0;
  while (*path && depth >= 0) {
    size_t length = strcspn(path, "/");
    if (length == 2 && strncmp(path, "..", 2) == 0)
      depth--;
    else if (length > 0 && !(length == 1 && path[0] == '.'))
      depth++;
    path += length;
    path += strspn(path, "/");
  }
  return depth < 0;
}

/*
 * Opens the module's file read-only, and writes its path to `ret_path`. Returns a descriptor, or -1 with the
 * reason in `ret_why`. *ret_is_rebuilt is true if a file exists, but is from another build. Reads more than
 * the header only from regular ELF files.
 */
static int symbols_open_file(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, char *ret_path, size_t path_capacity, char *ret_why, size_t capacity,
    bool *ret_is_rebuilt)
{
  const char *root = options->sysroot ? options->sysroot : "";
  const char *base = strrchr(module->path, '/');
  search_t search = {module, start_time_us, ret_path, path_capacity, ret_why, capacity, false};
  int fd;

  *ret_is_rebuilt = false;
  ret_why[0] = '\0';
  (void)snprintf(ret_path, path_capacity, "%s", module->path);
  if (module->build_id[0] && !gp_symbols_build_id_is_sound(module->build_id)) {
    refuse(&search, "has an invalid build-id in the snapshot");
    return -1;
  }
  if (options->sysroot && climbs_out(module->path)) {
    refuse(&search, "is not below the sysroot");
    return -1;
  }
  /* A relative path would refer to the tool's working directory, not to that of the program. */
  if (module->path[0] == '/') {
    fd = try_file(&search, snprintf(ret_path, path_capacity, "%s%s", root, module->path));
    if (fd >= 0)
      return fd;
  }
  if (options->debug_directory) {
    fd = try_build_id(&search, "", options->debug_directory);
    if (fd < 0 && base)
      fd = try_file(&search, snprintf(ret_path, path_capacity, "%s%s", options->debug_directory, base));
    if (fd >= 0)
      return fd;
  }
  fd = try_build_id(&search, root, "/usr/lib/debug");
  *ret_is_rebuilt = fd < 0 && search.is_rebuilt;
  if (fd < 0 && !ret_why[0])
    (void)snprintf(ret_why, capacity, "%s%s is not there", module->path[0] == '/' ? root : "", module->path);
  return fd;
}

#define PATH_CAPACITY 8192

/* The addresses [low, high) of a compilation unit. */
typedef struct unit_range {
  Dwarf_Addr low;
  Dwarf_Addr high;
  size_t unit;
} unit_range_t;

/* The functions at one address, outermost first. */
typedef struct location {
  gp_symbol_query_t *query;
  Dwarf_Addr pc; /* address in the debug information */
  size_t unit;
  Dwarf_Die *functions;
  size_t depth;
} location_t;

typedef struct module {
  Dwfl_Module *dwfl;
  Dwarf_Die *units;
  size_t unit_count;
  unit_range_t *ranges; /* address ranges, sorted */
  size_t range_count;
  Dwarf_Addr bias;  /* address in the process minus address in the debug information */
  bool has_units;   /* true if the debug information is usable */
  Dwarf *alternate; /* dwz's file; NULL: none, and alternate_fd is unused */
  int alternate_fd;
} module_t;

/* Returns the demangled form of a C++ name. The tool is not linked to a C++ runtime, so names stay mangled if
 * none is installed. */
static char *demangle(const char *name)
{
  typedef char *(*demangle_fn)(const char *name, char *buffer, size_t *length, int *status);
  static demangle_fn function;
  static bool looked;
  int status = 0;

  if (!looked) {
    looked = true;
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (library)
      *(void **)&function = dlsym(library, "__cxa_demangle");
  }
  char *plain = function && strncmp(name, "_Z", 2) == 0 ? function(name, NULL, NULL, &status) : NULL;
  return plain ? plain : strdup(name);
}

static char *name_of_die(Dwarf_Die *die)
{
  Dwarf_Attribute memory;
  Dwarf_Attribute *attribute = dwarf_attr_integrate(die, DW_AT_linkage_name, &memory);
  if (!attribute)
    attribute = dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &memory);
  if (!attribute)
    attribute = dwarf_attr_integrate(die, DW_AT_name, &memory);
  const char *name = attribute ? dwarf_formstring(attribute) : NULL;
  return name ? demangle(name) : NULL;
}

static char *name_of_symbol(const module_t *module, Dwarf_Addr address)
{
  GElf_Sym symbol;
  GElf_Off offset;
  const char *name = dwfl_module_addrinfo(module->dwfl, address, &offset, &symbol, NULL, NULL, NULL);
  /* The address must be inside the symbol. In a stripped file, the nearest preceding symbol may be an
   * unrelated function. */
  if (!name || !name[0] || (symbol.st_size > 0 && offset >= symbol.st_size))
    return NULL;
  return demangle(name);
}

/* Makes the path of a source file. A relative path is relative to the compiler's working directory. */
static char *source_path(const char *folder, const char *file)
{
  char *path = NULL;
  if (!file)
    return NULL;
  if (file[0] == '/' || !folder)
    return strdup(file);
  return asprintf(&path, "%s/%s", folder, file) < 0 ? NULL : path;
}

/* Finds compilation units by address. Not every compiler writes a table of addresses (.debug_aranges), so
 * this code builds one. */

static int compare_ranges(const void *a, const void *b)
{
  const unit_range_t *left = a;
  const unit_range_t *right = b;
  return (left->low > right->low) - (left->low < right->low);
}

static void find_units(module_t *module)
{
  Dwarf_Die *unit = NULL;
  unit_range_t *range;

  while ((unit = dwfl_module_nextcu(module->dwfl, unit, &module->bias))) {
    Dwarf_Addr base, low, high;
    ptrdiff_t offset = 0;
    Dwarf_Die *added = GP_ARRAY_ADD(module->units, module->unit_count);
    if (!added)
      break;
    *added = *unit;
    while ((offset = dwarf_ranges(unit, offset, &base, &low, &high)) > 0 &&
           (range = GP_ARRAY_ADD(module->ranges, module->range_count)))
      *range = (unit_range_t){low, high, module->unit_count - 1};
  }
  if (module->range_count > 0)
    qsort(module->ranges, module->range_count, sizeof(*module->ranges), compare_ranges);
}

static bool find_unit(const module_t *module, Dwarf_Addr pc, size_t *ret_unit)
{
  size_t low = 0, high = module->range_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (module->ranges[middle].low <= pc)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0 || pc >= module->ranges[low - 1].high)
    return false;
  *ret_unit = module->ranges[low - 1].unit;
  return true;
}

/* Finds functions by address. A single walk over a unit finds the functions for all addresses in it. The walk
 * skips parts of the unit that contain no address. */

static size_t first_not_below(const location_t *locations, size_t count, Dwarf_Addr pc)
{
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (locations[middle].pc < pc)
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

static void add_function(location_t *location, Dwarf_Die *function)
{
  if (dwarf_tag(function) == DW_TAG_subprogram)
    location->depth = 0; /* a function that is nested in another one replaces the outer one */
  Dwarf_Die *added = GP_ARRAY_ADD(location->functions, location->depth);
  if (added)
    *added = *function;
}

#define WALK_DEPTH 256

static void walk(Dwarf_Die *parent, location_t *locations, size_t count, int depth)
{
  Dwarf_Die child;

  if (depth > WALK_DEPTH || dwarf_child(parent, &child) != 0)
    return;
  do {
    int tag = dwarf_tag(&child);
    Dwarf_Addr base, low, high;
    ptrdiff_t offset = 0;
    if (tag == DW_TAG_namespace || tag == DW_TAG_module)
      walk(&child, locations, count, depth + 1);
    if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
      continue;
    while ((offset = dwarf_ranges(&child, offset, &base, &low, &high)) > 0) {
      size_t from = first_not_below(locations, count, low);
      size_t until = first_not_below(locations, count, high);
      if (from >= until)
        continue;
      for (size_t i = from; tag != DW_TAG_lexical_block && i < until; i++)
        add_function(&locations[i], &child);
      walk(&child, locations + from, until - from, depth + 1);
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

/* Sets the symbol's file and line to the place where an inlined function was called. */
static void set_call_site(Dwarf_Die *unit, Dwarf_Die *inlined, gp_symbol_t *symbol)
{
  Dwarf_Attribute memory;
  Dwarf_Word number;
  Dwarf_Files *files;
  size_t file_count;

  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &memory), &number) == 0 &&
      dwarf_getsrcfiles(unit, &files, &file_count) == 0 && number < file_count)
    symbol->file = source_path(dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &memory)),
        dwarf_filesrc(files, number, NULL, NULL));
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &memory), &number) == 0 && number <= INT32_MAX)
    symbol->line = (int)number;
}

/* Sets the symbol's file and line. Does not use dwfl_module_getsrc, which finds units only if they are in
 * .debug_aranges. */
static void set_line(Dwarf_Die *unit, Dwarf_Addr pc, gp_symbol_t *symbol)
{
  Dwarf_Attribute memory;
  Dwarf_Line *line = dwarf_getsrc_die(unit, pc);
  int number = 0;
  symbol->file = source_path(dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &memory)),
      line ? dwarf_linesrc(line, NULL, NULL) : NULL);
  if (symbol->file && dwarf_lineno(line, &number) == 0 && number > 0)
    symbol->line = number;
}

/* Answers a query from the symbol table. Also uses the line table, because units of an assembler have no
 * functions. `unit` may be NULL. */
static void answer_by_symbol(const module_t *module, Dwarf_Die *unit, gp_symbol_query_t *query)
{
  char *function = name_of_symbol(module, query->address);
  if (!function)
    return;
  query->symbols = calloc(1, sizeof(*query->symbols));
  if (!query->symbols) {
    free(function);
    return;
  }
  query->count = 1;
  query->symbols[0].function = function;
  if (unit)
    set_line(unit, query->address - module->bias, &query->symbols[0]);
}

static void answer_by_functions(const module_t *module, location_t *location)
{
  gp_symbol_query_t *query = location->query;

  query->symbols = calloc(location->depth, sizeof(*query->symbols));
  if (!query->symbols)
    return;
  query->count = location->depth;
  for (size_t i = 0; i < location->depth; i++) {
    gp_symbol_t *symbol = &query->symbols[location->depth - 1 - i];
    symbol->function = name_of_die(&location->functions[i]);
    if (i + 1 < location->depth)
      set_call_site(&module->units[location->unit], &location->functions[i + 1], symbol);
    else
      set_line(&module->units[location->unit], location->pc, symbol);
  }
}

static int compare_locations(const void *a, const void *b)
{
  const location_t *left = a;
  const location_t *right = b;
  if (left->unit != right->unit)
    return left->unit < right->unit ? -1 : 1;
  return (left->pc > right->pc) - (left->pc < right->pc);
}

static void answer(module_t *module, gp_symbol_query_t *queries, size_t count)
{
  location_t *locations = calloc(count, sizeof(*locations));
  size_t known = 0;

  if (locations && module->has_units)
    find_units(module);
  for (size_t i = 0; i < count && locations; i++) {
    location_t location = {.query = &queries[i], .pc = queries[i].address - module->bias};
    if (find_unit(module, location.pc, &location.unit))
      locations[known++] = location;
  }
  if (known > 0)
    qsort(locations, known, sizeof(*locations), compare_locations);
  for (size_t i = 0, end; i < known; i = end) {
    for (end = i + 1; end < known && locations[end].unit == locations[i].unit;)
      end++;
    walk(&module->units[locations[i].unit], locations + i, end - i, 0);
  }
  for (size_t i = 0; i < known; i++) {
    if (locations[i].depth > 0)
      answer_by_functions(module, &locations[i]);
    else
      answer_by_symbol(module, &module->units[locations[i].unit], locations[i].query);
    free(locations[i].functions);
  }
  for (size_t i = 0; i < count; i++) {
    if (queries[i].count == 0)
      answer_by_symbol(module, NULL, &queries[i]);
  }
  free(locations);
  free(module->units);
  free(module->ranges);
}

/* Answers queries after opening dwz's file, if the debug information refers to such a file. libdwfl frees the
 * debug information together with the module. dwz's file must live as long, so the caller closes it. */
static void answer_with_alternate(
    module_t *module, const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count)
{
  Dwarf_Addr bias;
  Dwarf *dwarf = dwfl_module_getdwarf(module->dwfl, &bias);
  module->has_units =
      dwarf && gp_symbols_find_alternate(dwarf, options, &module->alternate, &module->alternate_fd);
  answer(module, queries, count);
}

bool gp_symbols_of_module(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity, bool *ret_is_rebuilt)
{
  char path[PATH_CAPACITY];
  const Dwfl_Callbacks callbacks = {
      .find_elf = gp_symbols_find_elf, .find_debuginfo = gp_symbols_find_debuginfo};
  module_t found = {.bias = module->bias};
  void **userdata = NULL;

  int fd = symbols_open_file(
      module, start_time_us, options, path, sizeof(path), ret_why, capacity, ret_is_rebuilt);
  if (fd < 0)
    return false;
  (void)unsetenv("DEBUGINFOD_URLS"); /* cannot fail; libdw must not contact servers */
  Dwfl *dwfl = dwfl_begin(&callbacks);
  if (dwfl) {
    dwfl_report_begin(dwfl);
    found.dwfl = dwfl_report_elf(dwfl, path, path, fd, module->bias, true);
    (void)dwfl_report_end(dwfl, NULL, NULL); /* cannot fail without a callback */
  }
  if (!found.dwfl) {
    (void)snprintf(ret_why, capacity, "%s cannot be read: %s", path, dwfl ? dwfl_errmsg(-1) : "no memory");
    (void)close(fd); /* libdwfl did not take ownership of it */
  } else {
    (void)dwfl_module_info(
        found.dwfl, &userdata, NULL, NULL, NULL, NULL, NULL, NULL); /* cannot fail for a module */
    *userdata = (void *)(uintptr_t)options;
    answer_with_alternate(&found, options, queries, count);
  }
  dwfl_end(dwfl); /* NULL is legal */
  if (found.alternate) {
    (void)dwarf_end(found.alternate); /* the debug information that refers to it was freed */
    (void)close(found.alternate_fd);  /* only read */
  }
  return found.dwfl != NULL;
}
