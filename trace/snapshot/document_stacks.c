#include "trace/snapshot/document_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pages.h"

/* A name from the perf map. The strings have no NUL. A string is empty if it is unknown. */
typedef struct gp_perf_name {
  const char *function;
  const char *file;
  uint32_t function_length;
  uint32_t file_length;
} gp_perf_name_t;

#define TEXT_BYTES ((size_t)32 << 20)
#define NAME_BYTES 4096u /* longer names are truncated */

static bool is_sound(int fd, uid_t owner, off_t *ret_bytes)
{
  struct stat status;
  if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != owner || status.st_nlink != 1 ||
      (status.st_mode & (S_IWGRP | S_IWOTH)))
    return false;
  *ret_bytes = status.st_size;
  return status.st_size > 0;
}

/* Reads up to `bytes` bytes and returns their number. Does not map the file, because the file may shrink
 * meanwhile. */
static size_t read_all(int fd, char *text, size_t bytes)
{
  size_t used = 0;
  while (used < bytes) {
    ssize_t got = read(fd, text + used, bytes - used);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    used += (size_t)got;
  }
  return used;
}

void gp_perf_map_read(gp_perf_map_t *map, int64_t pid, uid_t owner)
{
  char path[64];
  off_t bytes;

  *map = (gp_perf_map_t){0};
  (void)snprintf(path, sizeof(path), "/tmp/perf-%lld.map", (long long)pid);
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return;
  if (is_sound(fd, owner, &bytes) && (map->text = gp_pages_map(TEXT_BYTES, false)) != NULL) {
    off_t begin = bytes > (off_t)TEXT_BYTES ? bytes - (off_t)TEXT_BYTES : 0;
    if (lseek(fd, begin, SEEK_SET) == begin)
      map->bytes = read_all(fd, map->text, TEXT_BYTES);
  }
  close(fd);
}

void gp_perf_map_fini(gp_perf_map_t *map)
{
  gp_pages_unmap(map->text, TEXT_BYTES);
  *map = (gp_perf_map_t){0};
}

/* Reads a hexadecimal number and the space after it, and advances *at. Returns false if there is no such
 * number. */
static bool read_number(const char **at, const char *end, uint64_t *ret_number)
{
  const char *p = *at;
  uint64_t number = 0;

  for (; p < end && p - *at < 16; p++) {
    int digit = *p >= '0' && *p <= '9'                 ? *p - '0'
                : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10
                                                       : -1;
    if (digit < 0)
      break;
    number = number << 4 | (unsigned)digit;
  }
  if (p == *at || p == end || *p != ' ')
    return false;
  *at = p + 1;
  *ret_number = number;
  return true;
}

static uint32_t length_of(const char *begin, const char *end)
{
  return end - begin < NAME_BYTES ? (uint32_t)(end - begin) : NAME_BYTES;
}

static gp_perf_name_t name_of(const char *at, const char *end)
{
  bool is_python = end - at > 4 && memcmp(at, "py::", 4) == 0;
  const char *function = is_python ? at + 4 : at;
  const char *colon = is_python ? memchr(function, ':', (size_t)(end - function)) : NULL;

  return (gp_perf_name_t){.function = function,
      .function_length = length_of(function, colon ? colon : end),
      .file = colon ? colon + 1 : end,
      .file_length = colon ? length_of(colon + 1, end) : 0};
}

/* Returns the index of the first of the `wanted` addresses that is not below `address`. */
static size_t first_from(const gp_sort_key_t *wanted, size_t count, uint64_t address)
{
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (wanted[middle].key < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/*
 * Finds the names of the code at wanted[0..count), which are sorted addresses. Stores each name in ret_names
 * at the key's index. If several lines have an address, the last line is used: CPython appends to the file of
 * an earlier process with the same pid.
 */
static void gp_perf_map_find(
    const gp_perf_map_t *map, const gp_sort_key_t *wanted, size_t count, gp_perf_name_t *ret_names)
{
  const char *at = map->text, *end = map->text + map->bytes, *line_end;
  uint64_t start, size;

  for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
    if (!read_number(&at, line_end, &start) || !read_number(&at, line_end, &size))
      continue;
    for (size_t i = first_from(wanted, count, start); i < count && wanted[i].key - start < size; i++)
      ret_names[wanted[i].index] = name_of(at, line_end);
  }
}

/* The distinct frames written so far, in order of first appearance. */
typedef struct frame_table {
  uint64_t *frames;
  uint32_t count;
  uint32_t *slots; /* index plus one, by hash; NULL: no memory, so repeated frames are written again */
  uint32_t slot_count;
} frame_table_t;

static void table_init(frame_table_t *table, size_t most)
{
  *table = (frame_table_t){.slot_count = 1024};
  while (table->slot_count < most * 2)
    table->slot_count *= 2;
  table->frames = gp_pages_map(most * sizeof(*table->frames), false);
  table->slots = gp_pages_map(table->slot_count * sizeof(*table->slots), false);
}

static void table_fini(frame_table_t *table, size_t most)
{
  gp_pages_unmap(table->frames, most * sizeof(*table->frames));
  gp_pages_unmap(table->slots, table->slot_count * sizeof(*table->slots));
}

static uint32_t table_index(frame_table_t *table, uint64_t frame)
{
  if (!table->frames || !table->slots)
    return table->count++;
  uint64_t hash = frame * UINT64_C(0x9e3779b97f4a7c15);
  for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
    uint32_t *slot = &table->slots[i & (table->slot_count - 1)];
    if (*slot == 0) {
      table->frames[table->count++] = frame;
      *slot = table->count;
    }
    if (table->frames[*slot - 1] == frame)
      return *slot - 1;
  }
}

static void begin_list(gp_json_t *json, const char *name)
{
  gp_json_newline(json);
  gp_json_key(json, name);
  gp_json_begin(json, '[');
}

/* The objects that frames refer to. */
typedef struct named {
  int32_t module_count;
  uint32_t code_count;
  const gp_code_record_t **codes; /* by index; NULL: there are none, or no memory */
  gp_perf_map_t map;
  gp_perf_name_t *made; /* names of generated code, by frame; NULL: there are none, or no memory */
} named_t;

/* Finds the names of frames that are in no module. */
static void find_made(named_t *named, const frame_table_t *table, int64_t pid, uid_t owner)
{
  gp_sort_key_t *wanted =
      table->frames && table->slots ? gp_pages_map(table->count * sizeof(*wanted), false) : NULL;
  size_t count = 0;

  for (uint32_t i = 0; wanted && i < table->count; i++) {
    if (!gp_frame_is_python(table->frames[i]) && gp_frame_module(table->frames[i]) < 0)
      wanted[count++] = (gp_sort_key_t){gp_frame_address(table->frames[i]), i};
  }
  if (count > 0)
    gp_perf_map_read(&named->map, pid, owner);
  if (named->map.bytes > 0)
    named->made = gp_pages_map(table->count * sizeof(*named->made), false);
  if (named->made) {
    gp_sort_keys(wanted, count);
    gp_perf_map_find(&named->map, wanted, count, named->made);
  }
  gp_pages_unmap(wanted, table->count * sizeof(*wanted));
}

static void write_made(gp_json_t *json, const gp_perf_name_t *name)
{
  gp_json_key(json, "function");
  gp_json_bytes(json, name->function, name->function_length);
  gp_json_key(json, "file");
  gp_json_bytes(json, name->file, name->file_length);
  gp_json_key_int(json, "line", 0);
}

static void write_python(gp_json_t *json, uint64_t frame, const named_t *named)
{
  uint32_t index = gp_frame_code(frame);
  const gp_code_record_t *code = index < named->code_count ? named->codes[index] : NULL;

  gp_json_key_uint(json, "address", 0);
  gp_json_key_int(json, "module", -1);
  gp_json_key(json, "function");
  gp_json_bytes(json, code ? code->text : "?", code ? code->name_length : 1);
  gp_json_key(json, "file");
  gp_json_bytes(json, code ? code->text + code->name_length : "<python>", code ? code->file_length : 8);
  gp_json_key_int(json, "line", code ? gp_code_line(code, gp_frame_instruction(frame)) : 0);
}

/* Writes a frame. `name` is the name of generated code, or NULL if the frame is not generated code. */
static void write_frame(gp_json_t *json, uint64_t frame, const named_t *named, const gp_perf_name_t *name)
{
  int32_t module = gp_frame_module(frame);
  gp_json_newline(json);
  gp_json_begin(json, '{');
  if (gp_frame_is_python(frame)) {
    write_python(json, frame, named);
  } else {
    gp_json_key_uint(json, "address", gp_frame_address(frame));
    gp_json_key_int(json, "module", module < named->module_count ? module : -1);
    if (name && name->function_length > 0)
      write_made(json, name);
  }
  gp_json_end(json, '}');
}

static void write_frames(gp_json_t *json, const frame_table_t *table, const gp_stack_logs_t *logs,
    uint32_t end, const named_t *named)
{
  gp_stack_view_t stack;

  begin_list(json, "frames");
  if (table->frames && table->slots) {
    for (uint32_t i = 0; i < table->count; i++)
      write_frame(json, table->frames[i], named, named->made ? &named->made[i] : NULL);
  } else {
    for (uint32_t at = 0; at < end && gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, &stack);) {
      for (uint32_t i = 0; i < stack.count; i++)
        write_frame(json, stack.frames[i], named, NULL);
    }
  }
  gp_json_end(json, ']');
}

static void write_module(gp_json_t *json, const gp_module_record_t *module)
{
  static const char digits[] = "0123456789abcdef";
  char build_id[2 * GP_BUILD_ID_BYTES];

  for (uint32_t i = 0; i < module->build_id_length; i++) {
    build_id[2 * i] = digits[module->build_id[i] >> 4];
    build_id[2 * i + 1] = digits[module->build_id[i] & 15];
  }
  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key(json, "path");
  gp_json_bytes(json, module->path, module->path_length);
  gp_json_key(json, "build_id");
  gp_json_bytes(json, build_id, 2 * (size_t)module->build_id_length);
  gp_json_key_uint(json, "bias", module->bias);
  gp_json_key_uint(json, "start", module->start);
  gp_json_key_uint(json, "end", module->end);
  gp_json_end(json, '}');
}

static void write_stacks(
    gp_json_t *json, frame_table_t *table, const gp_stack_logs_t *logs, uint32_t word_count)
{
  gp_stack_view_t stack;
  uint32_t at = 0;

  begin_list(json, "stacks");
  while (at < word_count && gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, &stack)) {
    gp_json_newline(json);
    gp_json_begin(json, '[');
    for (uint32_t i = 0; i < stack.count; i++)
      gp_json_uint(json, table_index(table, stack.frames[i]));
    gp_json_end(json, ']');
  }
  gp_json_end(json, ']');
}

static int32_t count_modules(const gp_stack_logs_t *logs)
{
  const gp_module_record_t *module = NULL;
  int32_t count = 0;
  if (logs->module_bytes == 0)
    return 0;
  while ((module = gp_module_log_next(logs->modules, logs->module_bytes, module)))
    count++;
  return count;
}

static void write_modules(gp_json_t *json, const gp_stack_logs_t *logs, int32_t count)
{
  const gp_module_record_t *module = NULL;
  begin_list(json, "modules");
  for (int32_t i = 0; i < count; i++) {
    module = gp_module_log_next(logs->modules, logs->module_bytes, module);
    write_module(json, module);
  }
  gp_json_end(json, ']');
}

static void write_nothing(gp_json_t *json)
{
  static const char *const names[] = {"stacks", "frames", "modules"};
  for (int i = 0; i < 3; i++) {
    begin_list(json, names[i]);
    gp_json_end(json, ']');
  }
}

/* Fills named->codes with the code objects, by index. */
static void find_codes(named_t *named, const gp_stack_logs_t *logs)
{
  const gp_code_record_t *code = NULL;

  if (logs->code_bytes == 0)
    return;
  named->codes = gp_pages_map(GP_CODES_MAX * sizeof(*named->codes), false);
  while (named->codes && named->code_count < GP_CODES_MAX &&
         (code = gp_code_log_next(logs->codes, logs->code_bytes, code)))
    named->codes[named->code_count++] = code;
}

static uint32_t count_words(const gp_stack_logs_t *logs)
{
  gp_stack_view_t stack;
  uint32_t at = 0;
  while (gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, &stack))
    continue;
  return at;
}

void gp_document_write_stacks(gp_json_t *json, const gp_stack_logs_t *logs, int64_t pid, uid_t owner)
{
  bool is_there = logs->stack_bytes > 0;
  if (!is_there) {
    write_nothing(json);
  } else {
    uint32_t word_count = count_words(logs);
    /* Counts modules and code objects after the stacks. They are published before any stack refers to them,
     * so none is missing. */
    named_t named = {.module_count = count_modules(logs)};
    frame_table_t table;
    find_codes(&named, logs);
    table_init(&table, word_count);
    write_stacks(json, &table, logs, word_count);
    find_made(&named, &table, pid, owner);
    write_frames(json, &table, logs, word_count, &named);
    gp_perf_map_fini(&named.map);
    gp_pages_unmap(named.made, table.count * sizeof(*named.made));
    table_fini(&table, word_count);
    write_modules(json, logs, named.module_count);
    gp_pages_unmap(named.codes, GP_CODES_MAX * sizeof(*named.codes));
  }
  gp_json_newline(json);
  gp_json_key_uint(
      json, "lost_stacks", is_there ? atomic_load_explicit(&logs->stacks->lost, memory_order_relaxed) : 0);
}
