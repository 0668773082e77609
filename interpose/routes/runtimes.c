#include "interpose/routes/runtimes.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

#include "interpose/process.h"
#include "base/objects.h"
#include "interpose/routes/detour.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "base/assert.h"
#include "base/cancel.h"
#include "base/loader_walk.h"

#define DEFINERS 8

_Thread_local gp_runtime_route_t gp_runtime_routes[GP_RUNTIME_ROUTES]
    __attribute__((tls_model("initial-exec")));

static const char *const names[GP_RUNTIME_COUNT] = {
#define RUNTIME(symbol) [GP_RUNTIME_##symbol] = #symbol,
#include "interpose/routes/runtime.def"
};

/* The runtimes whose calls the library can serve. CUDA 11 is missing: its cudaSetDevice does not bind the
 * context, so the runtime may use another context than the current one. */
static const char *const known_runtimes[] = {"libcudart.so.12", "libcudart.so.13"};

int gp_runtime_find(const char *name)
{
  for (int i = 0; i < GP_RUNTIME_COUNT; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

/* An object that defines functions of runtime.def. The record has copies of strings, because the object may
 * be unloaded after the walk. */
typedef struct definer {
  char soname[32]; /* "" if there is none or it is longer */
  const char *begin;
  const char *end;
  void *functions[GP_RUNTIME_COUNT];
  bool is_runtime; /* one of known_runtimes */
  bool has_versions;
  bool stays;
} definer_t;

typedef struct walk {
  const void *caller;
  const char *loader; /* base address of the program's loader; NULL: the walk has passed the loader, or the
                         address is unknown */
  bool has_caller;    /* false: no object has the address, and caller_object is undefined */
  bool caller_stays;
  gp_object_t caller_object; /* the caller's object, which cannot be unloaded during the call */
  unsigned definer_count;    /* may exceed the size of definers */
  definer_t definers[DEFINERS];
  uint64_t objects;
  uint64_t unloads;
} walk_t;

static bool is_known_runtime(const char *soname)
{
  for (size_t i = 0; i < sizeof(known_runtimes) / sizeof(known_runtimes[0]); i++)
    if (strcmp(soname, known_runtimes[i]) == 0)
      return true;
  return false;
}

static void note_definer(walk_t *walk, const gp_object_t *object, bool stays)
{
  definer_t definer = {
      .begin = object->begin, .end = object->end, .stays = stays, .has_versions = object->has_versions};
  size_t length = strlen(object->soname);
  bool defines = false;

  for (int i = 0; i < GP_RUNTIME_COUNT; i++)
    defines |= gp_object_defines(object, names[i], &definer.functions[i]);
  if (!defines)
    return;
  if (length < sizeof(definer.soname))
    memcpy(definer.soname, object->soname, length + 1);
  definer.is_runtime = is_known_runtime(definer.soname);
  for (int i = 0; i < GP_RUNTIME_COUNT; i++)
    definer.is_runtime = definer.is_runtime && definer.functions[i];
  if (walk->definer_count < DEFINERS)
    walk->definers[walk->definer_count] = definer;
  walk->definer_count++;
}

/* Looks at one object of the loader's list. The list has the program first, then the objects loaded at its
 * start, including the loader itself, then those loaded later. So objects before the loader are never
 * unloaded; objects after it may be. */
static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
  walk_t *walk = arg;
  gp_object_t object;
  bool is_program = walk->objects++ == 0;

  (void)size;
  walk->unloads = info->dlpi_subs;
  if (walk->loader && (const char *)info->dlpi_addr == walk->loader)
    walk->loader = NULL;
  if (!gp_object_read(info, &object) ||
      gp_object_has(&object, (const void *)(uintptr_t)gp_runtime_find_route))
    return 0;
  bool stays = is_program || walk->loader || object.stays;
  if (gp_object_has(&object, walk->caller)) {
    walk->has_caller = true;
    walk->caller_object = object;
    walk->caller_stays = stays;
  }
  note_definer(walk, &object, stays);
  return 0;
}

/* Returns the only definer or, if all definers are runtimes of different versions, the one that the caller is
 * linked to: runtime symbols have versions, so the loader does not confuse them. Returns NULL otherwise. */
static const definer_t *choose(const walk_t *walk)
{
  const definer_t *chosen = NULL;

  if (walk->definer_count == 1)
    return &walk->definers[0];
  if (walk->definer_count > DEFINERS || !walk->has_caller)
    return NULL;
  for (unsigned i = 0; i < walk->definer_count; i++) {
    const definer_t *definer = &walk->definers[i];
    bool is_needed = gp_object_needs(&walk->caller_object, definer->soname);
    if (strncmp(definer->soname, "libcudart.so.", 13) != 0 || (is_needed && chosen))
      return NULL;
    for (unsigned k = 0; k < i; k++)
      if (strcmp(walk->definers[k].soname, definer->soname) == 0)
        return NULL;
    if (is_needed)
      chosen = definer;
  }
  return chosen;
}

/* Returns the version of the symbols that the caller was linked to. Returns NULL if there is no version, or
 * the caller was linked to no definer. */
static const char *needed_version(const walk_t *walk)
{
  const char *version = NULL;

  for (unsigned i = 0; walk->has_caller && !version && i < walk->definer_count && i < DEFINERS; i++)
    version = gp_object_needed_version(&walk->caller_object, walk->definers[i].soname);
  return version;
}

static bool has_versions(const walk_t *walk, const void *function)
{
  for (unsigned i = 0; i < walk->definer_count && i < DEFINERS; i++)
    if ((const char *)function >= walk->definers[i].begin && (const char *)function < walk->definers[i].end)
      return walk->definers[i].has_versions;
  return false;
}

/* Looks up a name with a version. The loader accepts a definition without versions for any version, but
 * dlvsym does not. If `walk` and `version` are NULL, returns the first definition. */
static void *look_up(const walk_t *walk, void *object, const char *name, const char *version)
{
  void *first = gp_real_dlsym(object, name);
  return first && version && has_versions(walk, first) ? gp_real_dlvsym(object, name, version) : first;
}

/* Looks up a function as the loader binds it: first after this library in symbol look-up order, then in the
 * libraries that the caller was linked to. */
static void *ask_loader(const walk_t *walk, const void *caller, const char *name, const char *version)
{
  Dl_info info;
  void *function = look_up(walk, RTLD_NEXT, name, version);

  if (!function && dladdr(caller, &info) != 0) {
    int cancel_state = gp_cancel_hold(); /* dlopen may be a cancellation point */
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (object) {
      function = look_up(walk, object, name, version);
      (void)dlclose(object); /* the object is in a call, so it stays loaded */
    }
    gp_cancel_restore(cancel_state);
  }
  return function && !gp_real_is_own(function) ? function : NULL;
}

void *gp_runtime_look_up(const char *name, const void *caller)
{
  void *function = ask_loader(NULL, caller, name, NULL);

  if (function)
    (void)dlerror(); /* this library's look-ups may have failed; the caller's has not */
  else
    (void)gp_real_dlsym(RTLD_NEXT, name);
  return function;
}

static void fill_from_loader(gp_runtime_route_t *route, const walk_t *walk)
{
  const char *version = needed_version(walk);

  for (int i = 0; i < GP_RUNTIME_COUNT; i++) {
    route->real[i] = ask_loader(walk, walk->caller, names[i], version);
    for (unsigned k = 0; !route->real[i] && k < walk->definer_count && k < DEFINERS; k++)
      route->real[i] = walk->definers[k].functions[i];
  }
  (void)dlerror(); /* clears an error that is not the caller's */
}

/* Stores the first bytes of the route's functions. Returns true if one of the functions is patched. */
static bool is_patched(gp_runtime_route_t *route)
{
  bool result = false;

  for (int i = 0; i < GP_RUNTIME_COUNT; i++) {
    route->first_bytes[i] = gp_detour_first_bytes(route->real[i]);
    result |= gp_detour_is_likely(route->first_bytes[i]);
  }
  return result;
}

static void look(const void *caller, gp_runtime_route_t *route)
{
  walk_t walk = {.caller = caller, .loader = (const char *)getauxval(AT_BASE)};

  (void)gp_loader_walk(look_at, &walk);
  *route = (gp_runtime_route_t){.unloads = walk.unloads};
  if (walk.has_caller) {
    route->begin = walk.caller_object.begin;
    route->end = walk.caller_object.end;
  }
  const definer_t *definer = choose(&walk);
  if (!definer || !definer->functions[0]) {
    if (walk.definer_count > 0)
      fill_from_loader(route, &walk);
    else
      route->begin = route->end = NULL; /* a runtime may still be loaded later */
    return;
  }
  memcpy(route->real, definer->functions, sizeof(route->real));
  if (walk.has_caller && walk.caller_stays && definer->stays)
    route->unloads = GP_RUNTIME_STAYS;
  if (definer->is_runtime && !is_patched(route)) {
    route->runtime_begin = definer->begin;
    route->runtime_end = definer->end;
  }
}

/* Reads the loader's count of unloads, which every entry of the loader's list repeats. */
static int read_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
  (void)size;
  *(uint64_t *)arg = info->dlpi_subs;
  return 1;
}

/* Returns true if the route's objects are still loaded. In a forked child the loader's lock may remain locked
 * by a thread of the parent, so the count is not read there; a child has unloaded nothing since the fork. */
static bool holds(const gp_runtime_route_t *route)
{
  uint64_t unloads = route->unloads;

  if (route->unloads != GP_RUNTIME_STAYS && gp_process_is_ours())
    (void)gp_loader_walk(read_unloads, &unloads);
  return unloads == route->unloads;
}

gp_runtime_route_t *gp_runtime_find_route(const void *caller)
{
  static _Thread_local unsigned next __attribute__((tls_model("initial-exec")));
  gp_runtime_route_t *routes = gp_runtime_routes;
  const char *place = caller;

  int i = 0;
  while (i < GP_RUNTIME_ROUTES && (place < routes[i].begin || place >= routes[i].end))
    i++;
  if (i < GP_RUNTIME_ROUTES && holds(&routes[i]))
    return &routes[i];
  gp_runtime_route_t *route = &routes[i < GP_RUNTIME_ROUTES ? i : (int)(next++ % GP_RUNTIME_ROUTES)];
  look(caller, route);
  return route;
}

static int find_first(struct dl_phdr_info *info, size_t size, void *arg)
{
  walk_t *walk = arg;
  gp_object_t object;

  (void)size;
  if (!gp_object_read(info, &object))
    return 0;
  walk->has_caller = gp_object_has(&object, walk->caller);
  return walk->has_caller || gp_object_has(&object, (const void *)(uintptr_t)gp_runtime_find_route);
}

bool gp_runtime_is_before_us(const void *caller)
{
  walk_t walk = {.caller = caller};
  (void)gp_loader_walk(find_first, &walk);
  return walk.has_caller;
}
