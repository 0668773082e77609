/*
 * The program's NVTX ranges and marks. At its first one NVTX loads the library that NVTX_INJECTION64_PATH
 * names, and calls InitializeInjectionNvtx2, which puts functions in the place of NVTX's own
 * (nvtx3/nvtxDetail/nvtxInit.h). A tool that was to be loaded (GPUPOOL_NVTX_NEXT) is initialized first; its
 * functions are called, and their results returned.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/run_id.h"
#include "interpose/library.h"
#include "interpose/nvtx/early_marks.h"
#include "interpose/nvtx/nvtx_abi.h"
#include "interpose/nvtx/nvtx_names.h"
#include "interpose/nvtx/nvtx_path.h"
#include "interpose/process.h"

/* The functions of the next tool; NULL where it has none. Each library of a program may have an NVTX of its
 * own, which calls InitializeInjectionNvtx2 anew; the tool gives the same functions to all. */
static struct {
#define NVTX(module, number, name, result, parameters) result(*_Atomic name) parameters;
#include "interpose/nvtx/functions.def"
} next;

/* Numbers of ranges between a start and an end, apart from those of gpupool.h's scopes, which count from 1.
 */
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
  gp_nvtx_name_of(domain, event, name);
  record(GP_MARK_MOMENT, 0, name);
}

static _Thread_local int depth __attribute__((tls_model("initial-exec")));

/* Returns the level of the range, from 0. */
static int push(const void *domain, const gp_nvtx_attributes_t *event)
{
  char name[GP_MARK_NAME_BYTES];
  gp_nvtx_name_of(domain, event, name);
  record(GP_MARK_PUSH, 0, name);
  return depth++;
}

/* Returns the level of the range that ends; as NVTX does, a negative number if there is none. */
static int pop(void)
{
  if (!depth)
    return -1;
  record(GP_MARK_POP, 0, "");
  return --depth;
}

/* Ranges that have started and not ended, by the number that the program has of each: that of the next tool,
 * if there is one. */
static uint64_t start_range(const void *domain, const gp_nvtx_attributes_t *event, uint64_t number)
{
  static _Atomic uint64_t last;
  char name[GP_MARK_NAME_BYTES];

  if (!number)
    number = atomic_fetch_add(&last, 1) + 1;
  gp_nvtx_name_of(domain, event, name);
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
  return gp_nvtx_name_add(next.DomainRegisterStringA ? next.DomainRegisterStringA(domain, text) : NULL, text);
}

static void *nvtx_DomainRegisterStringW(void *domain, const wchar_t *text)
{
  char name[GP_MARK_NAME_BYTES];
  gp_nvtx_narrow(text, name);
  return gp_nvtx_name_add(next.DomainRegisterStringW ? next.DomainRegisterStringW(domain, text) : NULL, name);
}

static void *nvtx_DomainCreateA(const char *text)
{
  return gp_nvtx_name_add(next.DomainCreateA ? next.DomainCreateA(text) : NULL, text);
}

static void *nvtx_DomainCreateW(const wchar_t *text)
{
  char name[GP_MARK_NAME_BYTES];
  gp_nvtx_narrow(text, name);
  return gp_nvtx_name_add(next.DomainCreateW ? next.DomainCreateW(text) : NULL, name);
}

/* Takes over NVTX's own pointers. What the next tool has put there differs from what was there before. */
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

/* NVTX's own pointer to the function; NULL: this version of NVTX does not have it. */
static gp_nvtx_function_t *place_of(const gp_nvtx_callbacks_t *callbacks, const function_t *function)
{
  gp_nvtx_table_t table;
  unsigned size;
  if (!callbacks->table_of(function->module, &table, &size) || function->number >= size)
    return NULL;
  return table[function->number];
}

/* Initializes the tool that was to be loaded. False: there is none, or it fails. */
static bool initialize_next(gp_nvtx_export_t export)
{
  const char *path = gp_nvtx_other_tool();
  void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
  gp_nvtx_initialize_t initialize =
      tool ? (gp_nvtx_initialize_t)dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  if (path && !initialize)
    gp_log(GP_LOG_ERROR, GP_NVTX_NEXT_VARIABLE "=%s: %s; NVTX goes on without it", path,
        tool ? "no NVTX tool" : dlerror());
  return initialize && initialize(export);
}

/* NVTX calls this. Returns 1: done; 0: NVTX unloads the library again, which the loader does not (nodelete).
 */
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
