#include "tools/model/component.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shorten.h"
#include "tools/symbols/frame_parts.h"

typedef struct pattern {
  gp_component_t component;
  const char *text;
} pattern_t;

static const struct {
  const char *name;
  bool is_framework;
} components[] = {
#define COMPONENT(enumerator, name, is_framework) {name, is_framework},
#include "tools/model/component.def"
};

#define COUNT(patterns) (sizeof(patterns) / sizeof((patterns)[0]))

static const pattern_t functions[] = {
#define FUNCTION(component, pattern) {GP_COMPONENT_##component, pattern},
#include "tools/model/component.def"
};

static const pattern_t modules[] = {
#define MODULE(component, pattern) {GP_COMPONENT_##component, pattern},
#include "tools/model/component.def"
};

static const pattern_t sources[] = {
#define SOURCE(component, pattern) {GP_COMPONENT_##component, pattern},
#include "tools/model/component.def"
};

static const pattern_t kinds[] = {
#define KIND(component, kind) {GP_COMPONENT_##component, kind},
#include "tools/model/component.def"
};

static const pattern_t runtime_functions[] = {
#define RUNTIME_FUNCTION(pattern) {GP_COMPONENT_UNKNOWN, pattern},
#include "tools/model/component.def"
};

static const pattern_t runtime_modules[] = {
#define RUNTIME_MODULE(pattern) {GP_COMPONENT_UNKNOWN, pattern},
#include "tools/model/component.def"
};

const char *gp_component_name(gp_component_t component)
{
  return components[component].name;
}

static bool is_lower(char letter)
{
  return letter >= 'a' && letter <= 'z';
}

/* Returns true if `name` begins with `pattern` and the word ends there. The pattern libtorch matches
 * libtorch_cuda.so, but not libtorchvision.so. */
static bool begins(const char *name, const char *pattern, bool is_function)
{
  size_t length = strlen(pattern);
  char last = pattern[length - 1], next;

  if (strncmp(name, pattern, length) != 0)
    return false;
  next = name[length];
  return last == '_' || last == ':' || last == '/' || last == '-' ||
         !(is_lower(next) || (is_function && next == '_'));
}

static const pattern_t *find_function(const pattern_t *patterns, size_t count, const char *function)
{
  const char *name = gp_function_without_result(function);
  for (size_t i = 0; function[0] && i < count; i++) {
    if (begins(name, patterns[i].text, true))
      return &patterns[i];
  }
  return NULL;
}

static const pattern_t *find_path(const pattern_t *patterns, size_t count, const char *path)
{
  const char *base = gp_base_name(path);
  for (size_t i = 0; i < count; i++) {
    bool is_folder = strchr(patterns[i].text, '/') != NULL;
    if (is_folder ? strncmp(path, patterns[i].text, strlen(patterns[i].text)) == 0 ||
                        (strchr("/-", patterns[i].text[0]) && strstr(path, patterns[i].text))
                  : begins(base, patterns[i].text, false))
      return &patterns[i];
  }
  return NULL;
}

static const char *module_path(const gp_snapshot_t *snapshot, const gp_snapshot_frame_t *frame)
{
  return frame->module >= 0 ? snapshot->modules[frame->module].path : "";
}

/* Returns true if the frame is Python code, to judge by its file. Compiled code has .c, .cpp, .cu ... */
static bool is_python(const gp_snapshot_frame_t *frame)
{
  size_t length = strlen(frame->file);
  return (length > 3 && strcmp(frame->file + length - 3, ".py") == 0) || frame->file[0] == '<';
}

/*
 * Returns true if the frame does not identify a component. Such a frame is in a runtime that every program
 * uses, in a function that only allocates for its callers, or where a process or thread begins. A frame of an
 * interpreter does identify one, because it stands for lines of a script that were not recorded.
 */
static bool is_silent(const gp_snapshot_t *snapshot, int index)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  if (is_python(frame))
    return strncmp(frame->file, "<frozen ", strlen("<frozen ")) == 0;
  return gp_frame_is_allocator(snapshot, index) || gp_frame_is_beginning(snapshot, index) ||
         find_function(runtime_functions, COUNT(runtime_functions), frame->function) ||
         find_path(runtime_modules, COUNT(runtime_modules), module_path(snapshot, frame));
}

#define PYTHON 0x80 /* flag in snapshot->components: the frame is a line of Python */

/* Returns the component that the frame identifies without its neighbours, or GP_COMPONENT_UNKNOWN. Sets the
 * flag PYTHON in the result for Python code. */
static uint8_t judge_frame(const gp_snapshot_t *snapshot, int index)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  bool python = is_python(frame);
  const pattern_t *found;

  if (python) {
    found = find_path(sources, COUNT(sources), frame->file);
  } else {
    found = find_function(functions, COUNT(functions), frame->function);
    if (!found || components[found->component].is_framework) { /* the module may be a bundled library */
      const pattern_t *module = find_path(modules, COUNT(modules), module_path(snapshot, frame));
      found = module ? module : found;
    }
  }
  gp_component_t component = found                        ? found->component
                             : is_silent(snapshot, index) ? GP_COMPONENT_UNKNOWN
                                                          : GP_COMPONENT_PROGRAM;
  return (uint8_t)(component | (python ? PYTHON : 0));
}

int gp_components_find(gp_snapshot_t *snapshot)
{
  uint8_t *found = malloc(snapshot->frame_count + 1);
  if (!found)
    return ENOMEM;
  for (size_t i = 0; i < snapshot->frame_count; i++)
    found[i] = judge_frame(snapshot, (int)i);
  snapshot->components = found;
  return 0;
}

static uint8_t frame_at(const gp_snapshot_t *snapshot, size_t place)
{
  int index = snapshot->stacks.frame_indexes[place];
  return snapshot->components ? snapshot->components[index] : judge_frame(snapshot, index);
}

static bool has_python(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    if (frame_at(snapshot, k) & PYTHON)
      return true;
  }
  return false;
}

/* Returns the component of the frame at `place`. If the stack has Python frames (`has_python`), the program's
 * own code is Python, so compiled functions without a component belong to the interpreter. */
static gp_component_t component_at(const gp_snapshot_t *snapshot, size_t place, bool has_python)
{
  uint8_t found = frame_at(snapshot, place);
  return has_python && found == GP_COMPONENT_PROGRAM ? GP_COMPONENT_UNKNOWN
                                                     : (gp_component_t)(found & ~PYTHON);
}

gp_component_t gp_component_of_stack(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  gp_component_t framework = GP_COMPONENT_UNKNOWN;

  if (stack < 0 || (size_t)stack >= stacks->count)
    return GP_COMPONENT_UNKNOWN;
  bool python = has_python(snapshot, stack);
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    gp_component_t found = component_at(snapshot, k, python);
    if (found == GP_COMPONENT_UNKNOWN)
      continue;
    if (!components[found].is_framework)
      return found;
    framework = framework == GP_COMPONENT_UNKNOWN ? found : framework;
  }
  return framework;
}

void gp_component_callers(const gp_snapshot_t *snapshot, int stack, bool *ret_there)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  memset(ret_there, 0, GP_COMPONENTS * sizeof(*ret_there));
  if (stack < 0 || (size_t)stack >= stacks->count)
    return;
  bool python = has_python(snapshot, stack);
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++)
    ret_there[component_at(snapshot, k, python)] = true;
  ret_there[GP_COMPONENT_UNKNOWN] = false; /* frames of runtimes set this element */
}

gp_component_t gp_component_of_kind(const char *kind)
{
  for (size_t i = 0; kind && i < COUNT(kinds); i++) {
    if (strcmp(kind, kinds[i].text) == 0)
      return kinds[i].component;
  }
  return GP_COMPONENT_UNKNOWN;
}
