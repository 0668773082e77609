#include "trace/stacks/asker.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/loader_walk.h"
#include "base/pattern.h"
#include "trace/stacks/symtab.h"

static bool find_stack(const gp_stack_logs_t *logs, uint32_t number, gp_stack_view_t *ret_stack)
{
  uint32_t at = 0;
  if (number == 0 || logs->stack_bytes == 0)
    return false;
  for (; gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, ret_stack); number--)
    if (number == 1)
      return true;
  return false;
}

static const gp_module_record_t *find_module(const gp_stack_logs_t *logs, int32_t index)
{
  const gp_module_record_t *module = NULL;
  if (index < 0 || logs->module_bytes == 0)
    return NULL;
  do
    module = gp_module_log_next(logs->modules, logs->module_bytes, module);
  while (module && index-- > 0);
  return module;
}

/* Returns the file's name without its folder, and writes the name's length to *ret_length. The name has no
 * NUL. */
static const char *base_of(const gp_module_record_t *module, int *ret_length)
{
  const char *slash = memrchr(module->path, '/', module->path_length);
  const char *base = slash ? slash + 1 : module->path;
  *ret_length = (int)(module->path + module->path_length - base);
  return base;
}

/* The lines of never_owners.def that match modules or source files. Lines that match functions are left out,
 * because finding a function's name takes longer here than in the tool. */
typedef enum subject { MODULE, SOURCE } subject_t;

typedef enum group {
#define GROUP(id, words, language) GROUP_##id,
#include "format/never_owners.def"
} group_t;

static const struct {
  subject_t subject;
  group_t group;
  const char *pattern;
} lines[] = {
#define OF_FUNCTION(group, pattern)
#define OF_PATH(group, pattern)
#define OF_MODULE(group, pattern)           {MODULE, GROUP_##group, (pattern)},
#define OF_SOURCE(group, pattern)           {SOURCE, GROUP_##group, (pattern)},
#define LINE(subject, part, group, pattern) OF_##subject(group, pattern)
#include "format/never_owners.def"
};

/* Returns true if the text matches a line whose group is `last` or an earlier one. */
static bool is_listed(subject_t subject, group_t last, const char *text, size_t length)
{
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    if (lines[i].subject == subject && lines[i].group <= last &&
        gp_pattern_matches_part(lines[i].pattern, text, length))
      return true;
  return false;
}

/* Returns true if the module allocates on behalf of other code. Such modules are CUDA, allocators, and all
 * system libraries, because the names of their functions are not known here. Unlike in the tool, frameworks
 * and interpreters count as the program: if no Python frame is known, their frame is the best answer. */
static bool is_system(const gp_module_record_t *module)
{
  int length;
  const char *base = base_of(module, &length);

  return gp_pattern_matches_part("^/lib", module->path, module->path_length) ||
         gp_pattern_matches_part("^/usr/lib", module->path, module->path_length) ||
         is_listed(MODULE, GROUP_CUDA_LIBRARY, base, (size_t)length);
}

/* Returns the name of the function at `address`, or NULL if the module is no longer loaded or does not export
 * the function. */
static const char *exported_name(uint64_t address, const gp_module_record_t *module)
{
  Dl_info info;
  bool is_found = false;

  if (!gp_loader_walk_begin())
    return NULL;
  is_found = dladdr((void *)(uintptr_t)address, &info) && info.dli_sname &&
             (uintptr_t)info.dli_fbase >= module->start && (uintptr_t)info.dli_fbase < module->end;
  gp_loader_walk_end();
  return is_found ? info.dli_sname : NULL;
}

static const gp_code_record_t *find_code(const gp_stack_logs_t *logs, uint32_t index)
{
  const gp_code_record_t *code = NULL;
  if (logs->code_bytes == 0)
    return NULL;
  do
    code = gp_code_log_next(logs->codes, logs->code_bytes, code);
  while (code && index-- > 0);
  return code;
}

/* Writes "FUNCTION (FILE:LINE)" for a Python frame in the user's own code and returns true. Returns false if
 * never_owners.def lists the file. Unlike the tool, this function excludes all packages, even those that may
 * be owners. */
static bool describe_python(const gp_stack_logs_t *logs, uint64_t frame, char *buffer, size_t capacity)
{
  const gp_code_record_t *code = find_code(logs, gp_frame_code(frame));

  if (!code || !code->file_length)
    return false;
  const char *file = code->text + code->name_length;
  if (is_listed(SOURCE, GROUP_START, file, code->file_length))
    return false;
  const char *slash = memrchr(file, '/', code->file_length), *base = slash ? slash + 1 : file;
  snprintf(buffer, capacity, "%.*s (%.*s:%d)", (int)code->name_length, code->text,
      (int)(file + code->file_length - base), base, gp_code_line(code, gp_frame_instruction(frame)));
  return true;
}

/* Describes the innermost Python frame in the user's code. Python frames have precedence over native frames,
 * because the native frames between them belong to extensions. */
static bool describe_innermost_python(
    const gp_stack_logs_t *logs, const gp_stack_view_t *stack, char *buffer, size_t capacity)
{
  for (uint32_t i = 0; i < stack->count; i++)
    if (gp_frame_is_python(stack->frames[i]) && describe_python(logs, stack->frames[i], buffer, capacity))
      return true;
  return false;
}

static bool name_function(const gp_module_record_t *module, uint64_t address, char *buffer, size_t capacity)
{
  const char *name = exported_name(address, module);
  return name ? gp_symtab_spell(name, buffer, capacity)
              : gp_symtab_name(module, address - module->bias, buffer, capacity);
}

static bool append_module(char *buffer, size_t capacity, int length, const char *base)
{
  size_t used = strlen(buffer);
  return snprintf(buffer + used, capacity - used, " (%.*s)", length, base) < (int)(capacity - used);
}

bool gp_asker_describe(const gp_stack_logs_t *logs, uint32_t number, char *buffer, size_t capacity)
{
  gp_stack_view_t stack;

  if (!find_stack(logs, number, &stack))
    return false;
  if (describe_innermost_python(logs, &stack, buffer, capacity))
    return true;
  for (uint32_t i = 0; i < stack.count; i++) {
    const gp_module_record_t *module = find_module(logs, gp_frame_module(stack.frames[i]));
    uint64_t address = gp_frame_address(stack.frames[i]);
    int length;
    if (!module || is_system(module))
      continue;
    const char *base = base_of(module, &length);
    if (!name_function(module, address, buffer, capacity) || !append_module(buffer, capacity, length, base))
      snprintf(buffer, capacity, "%.*s+0x%" PRIx64, length, base, address - module->bias);
    return true;
  }
  return false;
}
