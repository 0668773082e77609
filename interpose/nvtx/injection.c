/*
 * Records the program's NVTX ranges and marks. At the first range or mark NVTX loads the library in
 * NVTX_INJECTION64_PATH, and calls InitializeInjectionNvtx2, which replaces NVTX's function pointers
 * (nvtx3/nvtxDetail/nvtxInit.h). If another tool is to be loaded (GPUPOOL_NVTX_NEXT), this library
 * initializes that tool first, calls its functions, and returns their results.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/run_id.h"
#include "format/marks.h"
#include "interpose/library.h"
#include "interpose/nvtx/early_marks.h"
#include "interpose/nvtx/nvtx_abi.h"
#include "interpose/nvtx/nvtx_path.h"
#include "interpose/process.h"

/*
 * Texts of NVTX: those passed directly, those of registered strings, and the names of domains.
 */

#define NAMES_MAX 4096 /* a power of two */

typedef struct nvtx_name {
  const void *handle; /* NULL: the entry is free */
  char text[GP_MARK_NAME_BYTES];
} nvtx_name_t;

/* A hash table with open addressing; the handle is the key. Entries are never removed, because programs
 * register strings once. If a handle of an ended domain is reused, it gets the new text. Half of the entries
 * always stay free. */
static nvtx_name_t names[2 * NAMES_MAX];
static size_t name_count;
static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_MARKS);

static nvtx_name_t *entry_of(const void *handle)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  size_t at = (size_t)(((uintptr_t)handle * 0x9e3779b97f4a7c15U) >> 32);
  while (names[at % (2 * NAMES_MAX)].handle && names[at % (2 * NAMES_MAX)].handle != handle)
    at++;
  return &names[at % (2 * NAMES_MAX)];
}

/* Stores the text for the handle and returns the handle. If `handle` is NULL, makes a unique handle, or
 * returns NULL if the table is full. The table has room for 4096 texts; later ones are lost. Any thread. */
static void *nvtx_name_add(void *handle, const char *text)
{
  static char made[NAMES_MAX]; /* the addresses of its bytes serve as handles */

  gp_lock_take(&lock);
  if (!handle && name_count < NAMES_MAX)
    handle = &made[name_count];
  nvtx_name_t *entry = handle ? entry_of(handle) : NULL;
  if (entry && (entry->handle || name_count < NAMES_MAX)) {
    name_count += !entry->handle;
    entry->handle = handle;
    (void)snprintf(entry->text, sizeof(entry->text), "%s", text ? text : "");
  }
  gp_lock_release(&lock);
  return handle;
}

static void copy_name(const void *handle, char buffer[GP_MARK_NAME_BYTES])
{
  gp_lock_take(&lock);
  memcpy(buffer, entry_of(handle)->text, GP_MARK_NAME_BYTES); /* "" for an unknown handle */
  gp_lock_release(&lock);
}

/* Writes `text` as UTF-8, truncated to GP_MARK_NAME_BYTES - 1 bytes; NULL becomes "". */
static void nvtx_narrow(const wchar_t *text, char buffer[GP_MARK_NAME_BYTES])
{
  size_t used = 0;

  for (; text && *text; text++) {
    uint32_t code = (uint32_t)*text;
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (used + length >= GP_MARK_NAME_BYTES)
      break;
    for (size_t i = length; i-- > 1; code >>= 6)
      buffer[used + i] = (char)(0x80 | (code & 0x3f));
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    buffer[used] = (char)(lead[length] | code);
    used += length;
  }
  buffer[used] = '\0';
}

/* Writes the name of a range: the event's text, after "DOMAIN: " unless `domain` is NULL. Any thread. */
static void nvtx_name_of(
    const void *domain, const gp_nvtx_attributes_t *event, char buffer[GP_MARK_NAME_BYTES])
{
  char text[GP_MARK_NAME_BYTES] = "", of[GP_MARK_NAME_BYTES] = "";

  switch (event && event->size >= sizeof(*event) ? event->message_type : 0) {
  case GP_NVTX_ASCII:
    (void)snprintf(text, sizeof(text), "%s", event->message.ascii ? event->message.ascii : "");
    break;
  case GP_NVTX_UNICODE: nvtx_narrow(event->message.unicode, text); break;
  case GP_NVTX_REGISTERED: copy_name(event->message.registered, text); break;
  default: break;
  }
  if (domain)
    copy_name(domain, of);
  (void)snprintf(
      buffer, GP_MARK_NAME_BYTES, "%s%s%s", of, of[0] ? ": " : "", text); /* truncation is harmless */
}

/* The functions of the next tool, or NULL where it has none. Each library of a program may contain its own
 * NVTX, which calls InitializeInjectionNvtx2 again; the tool returns the same functions to all of them. */
static struct {
#define NVTX(module, number, name, result, parameters) result(*_Atomic name) parameters;
#include "interpose/nvtx/functions.def"
} next;

/* Recorded numbers of start/end ranges begin here: the scopes of gpupool.h count from 1. */
#define FIRST_RANGE ((uint64_t)1 << 40)

static void record(gp_mark_kind_t kind, uint64_t range, const char *name)
{
  if (!gp_process_is_ours())
    return;
  struct gp_recorder *recorder = gp_library_started_recorder();
  if (!recorder && !gp_early_marks_add(kind, range, name))
    recorder = gp_library_recorder(); /* the library is just starting */
  if (recorder)
    gp_recorder_mark(recorder, kind, -1, range, name);
}

static gp_nvtx_attributes_t plain(const char *text)
{
  return (gp_nvtx_attributes_t){
      .size = sizeof(gp_nvtx_attributes_t), .message_type = GP_NVTX_ASCII, .message.ascii = text};
}

static gp_nvtx_attributes_t wide(const wchar_t *text)
{
  return (gp_nvtx_attributes_t){
      .size = sizeof(gp_nvtx_attributes_t), .message_type = GP_NVTX_UNICODE, .message.unicode = text};
}

static void mark(const void *domain, const gp_nvtx_attributes_t *event)
{
  char name[GP_MARK_NAME_BYTES];
  nvtx_name_of(domain, event, name);
  record(GP_MARK_MOMENT, 0, name);
}

static _Thread_local int depth __attribute__((tls_model("initial-exec")));

/* Records the begin of a nested range. Returns its nesting level, from 0. */
static int push(const void *domain, const gp_nvtx_attributes_t *event)
{
  char name[GP_MARK_NAME_BYTES];
  nvtx_name_of(domain, event, name);
  record(GP_MARK_PUSH, 0, name);
  return depth++;
}

/* Records the end of the innermost range. Returns its nesting level or, as NVTX does, a negative number if no
 * range is open. */
static int pop(void)
{
  if (!depth)
    return -1;
  record(GP_MARK_POP, 0, "");
  return --depth;
}

/* Records the start of a range and returns its number. `number` is the next tool's number for the range, or 0
 * if there is none. */
static uint64_t start_range(const void *domain, const gp_nvtx_attributes_t *event, uint64_t number)
{
  static _Atomic uint64_t last;
  char name[GP_MARK_NAME_BYTES];

  if (!number)
    number = atomic_fetch_add(&last, 1) + 1;
  nvtx_name_of(domain, event, name);
  record(GP_MARK_BEGIN, FIRST_RANGE + number % FIRST_RANGE, name);
  return number;
}

static void end_range(uint64_t number)
{
  record(GP_MARK_END, FIRST_RANGE + number % FIRST_RANGE, "");
}

static void nvtx_MarkEx(const gp_nvtx_attributes_t *event)
{
  mark(NULL, event);
  if (next.MarkEx)
    next.MarkEx(event);
}

static void nvtx_MarkA(const char *text)
{
  gp_nvtx_attributes_t event = plain(text);
  mark(NULL, &event);
  if (next.MarkA)
    next.MarkA(text);
}

static void nvtx_MarkW(const wchar_t *text)
{
  gp_nvtx_attributes_t event = wide(text);
  mark(NULL, &event);
  if (next.MarkW)
    next.MarkW(text);
}

static uint64_t nvtx_RangeStartEx(const gp_nvtx_attributes_t *event)
{
  return start_range(NULL, event, next.RangeStartEx ? next.RangeStartEx(event) : 0);
}

static uint64_t nvtx_RangeStartA(const char *text)
{
  gp_nvtx_attributes_t event = plain(text);
  return start_range(NULL, &event, next.RangeStartA ? next.RangeStartA(text) : 0);
}

static uint64_t nvtx_RangeStartW(const wchar_t *text)
{
  gp_nvtx_attributes_t event = wide(text);
  return start_range(NULL, &event, next.RangeStartW ? next.RangeStartW(text) : 0);
}

static void nvtx_RangeEnd(uint64_t range)
{
  end_range(range);
  if (next.RangeEnd)
    next.RangeEnd(range);
}

static int nvtx_RangePushEx(const gp_nvtx_attributes_t *event)
{
  int level = push(NULL, event);
  return next.RangePushEx ? next.RangePushEx(event) : level;
}

static int nvtx_RangePushA(const char *text)
{
  gp_nvtx_attributes_t event = plain(text);
  int level = push(NULL, &event);
  return next.RangePushA ? next.RangePushA(text) : level;
}

static int nvtx_RangePushW(const wchar_t *text)
{
  gp_nvtx_attributes_t event = wide(text);
  int level = push(NULL, &event);
  return next.RangePushW ? next.RangePushW(text) : level;
}

static int nvtx_RangePop(void)
{
  int level = pop();
  return next.RangePop ? next.RangePop() : level;
}

static void nvtx_DomainMarkEx(void *domain, const gp_nvtx_attributes_t *event)
{
  mark(domain, event);
  if (next.DomainMarkEx)
    next.DomainMarkEx(domain, event);
}

static uint64_t nvtx_DomainRangeStartEx(void *domain, const gp_nvtx_attributes_t *event)
{
  return start_range(domain, event, next.DomainRangeStartEx ? next.DomainRangeStartEx(domain, event) : 0);
}

static void nvtx_DomainRangeEnd(void *domain, uint64_t range)
{
  end_range(range);
  if (next.DomainRangeEnd)
    next.DomainRangeEnd(domain, range);
}

static int nvtx_DomainRangePushEx(void *domain, const gp_nvtx_attributes_t *event)
{
  int level = push(domain, event);
  return next.DomainRangePushEx ? next.DomainRangePushEx(domain, event) : level;
}

static int nvtx_DomainRangePop(void *domain)
{
  int level = pop();
  return next.DomainRangePop ? next.DomainRangePop(domain) : level;
}

static void *nvtx_DomainRegisterStringA(void *domain, const char *text)
{
  return nvtx_name_add(next.DomainRegisterStringA ? next.DomainRegisterStringA(domain, text) : NULL, text);
}

static void *nvtx_DomainRegisterStringW(void *domain, const wchar_t *text)
{
  char name[GP_MARK_NAME_BYTES];
  nvtx_narrow(text, name);
  return nvtx_name_add(next.DomainRegisterStringW ? next.DomainRegisterStringW(domain, text) : NULL, name);
}

static void *nvtx_DomainCreateA(const char *text)
{
  return nvtx_name_add(next.DomainCreateA ? next.DomainCreateA(text) : NULL, text);
}

static void *nvtx_DomainCreateW(const wchar_t *text)
{
  char name[GP_MARK_NAME_BYTES];
  nvtx_narrow(text, name);
  return nvtx_name_add(next.DomainCreateW ? next.DomainCreateW(text) : NULL, name);
}

/* A function pointer of NVTX that this library replaces. If the pointer changed while the next tool was
 * initialized, its value is the tool's function. */
typedef struct function {
  int module;
  unsigned number;
  gp_nvtx_function_t ours;
} function_t;

enum {
#define NVTX(module, number, name, result, parameters) INDEX_##name,
#include "interpose/nvtx/functions.def"
  FUNCTION_COUNT
};

static const function_t functions[FUNCTION_COUNT] = {
#define NVTX(module, number, name, result, parameters)                                                       \
  {GP_NVTX_##module, number, (gp_nvtx_function_t)nvtx_##name},
#include "interpose/nvtx/functions.def"
};

/* Returns the address of NVTX's own pointer to the function, or NULL if this version of NVTX does not have
 * the function. */
static gp_nvtx_function_t *place_of(const gp_nvtx_callbacks_t *callbacks, const function_t *function)
{
  gp_nvtx_table_t table;
  unsigned size;
  if (!callbacks->table_of(function->module, &table, &size) || function->number >= size)
    return NULL;
  return table[function->number];
}

/* Initializes the next tool. Returns false if there is none, or it fails. */
static bool initialize_next(gp_nvtx_export_t export)
{
  const char *path = gp_nvtx_other_tool();
  void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
  gp_nvtx_initialize_t initialize =
      tool ? (gp_nvtx_initialize_t)dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  if (path && !initialize)
    gp_log(GP_LOG_ERROR, GP_NVTX_NEXT_VARIABLE "=%s: %s; NVTX runs without it", path,
        tool ? "not an NVTX tool" : dlerror());
  return initialize && initialize(export);
}

/* Called by NVTX. Returns 1 on success. If it returns 0, NVTX unloads the library again, which the loader
 * ignores (nodelete). */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(gp_nvtx_export_t export);

int InitializeInjectionNvtx2(gp_nvtx_export_t export)
{
  const gp_nvtx_callbacks_t *callbacks = export(GP_NVTX_EXPORT_CALLBACKS);
  gp_nvtx_function_t *places[FUNCTION_COUNT], before[FUNCTION_COUNT];

  if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !gp_process_is_ours())
    return 0;
  for (size_t i = 0; i < FUNCTION_COUNT; i++) {
    places[i] = place_of(callbacks, &functions[i]);
    before[i] = places[i] ? *places[i] : NULL;
  }
  bool has_next = initialize_next(export);
  if (!gp_library_records_nvtx())
    return has_next;
#define NVTX(module, number, name, result, parameters)                                                       \
  if (has_next && places[INDEX_##name] && *places[INDEX_##name] != before[INDEX_##name])                     \
    next.name = (result(*) parameters) * places[INDEX_##name];
#include "interpose/nvtx/functions.def"
  for (size_t i = 0; i < FUNCTION_COUNT; i++) {
    if (places[i])
      *places[i] = functions[i].ours;
  }
  return 1;
}
