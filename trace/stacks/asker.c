#include "trace/stacks/asker.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/loader_walk.h"

static bool find_stack(const gp_stack_logs_t *logs, uint32_t number, gp_stack_view_t *ret_stack)
{
  uint32_t at = 0;
  if (number == 0 || logs->stack_bytes == 0 || logs->module_bytes == 0)
    return false;
  for (; gp_stack_log_next(logs->stacks, logs->stack_bytes, &at, ret_stack); number--)
    if (number == 1)
      return true;
  return false;
}

static const gp_module_record_t *find_module(const gp_stack_logs_t *logs, int32_t index)
{
  const gp_module_record_t *module = NULL;
  if (index < 0)
    return NULL;
  do
    module = gp_module_log_next(logs->modules, logs->module_bytes, module);
  while (module && index-- > 0);
  return module;
}

/* The file's name without its folder; it ends with the path. */
static const char *base_of(const gp_module_record_t *module, int *ret_length)
{
  const char *slash = memrchr(module->path, '/', module->path_length);
  const char *base = slash ? slash + 1 : module->path;
  *ret_length = (int)(module->path + module->path_length - base);
  return base;
}

static bool begins(const char *text, size_t length, const char *beginning)
{
  size_t wanted = strlen(beginning);
  return length >= wanted && memcmp(text, beginning, wanted) == 0;
}

/* Code that asks for memory on behalf of other code. */
static bool is_system(const gp_module_record_t *module)
{
  static const char *const folders[] = {"/lib", "/usr/lib"};
  static const char *const libraries[] = {"libcu", "libnccl", "libnv", "libgpupool"};
  int length;
  const char *base = base_of(module, &length);

  for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
    if (begins(module->path, module->path_length, folders[i]))
      return true;
  for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
    if (begins(base, (size_t)length, libraries[i]))
      return true;
  return false;
}

/* The function's name, if the module is still loaded and exports it. */
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

bool gp_asker_describe(const gp_stack_logs_t *logs, uint32_t number, char *buffer, size_t capacity)
{
  gp_stack_view_t stack;

  if (!find_stack(logs, number, &stack))
    return false;
  for (uint32_t i = 0; i < stack.count; i++) {
    const gp_module_record_t *module = find_module(logs, gp_frame_module(stack.frames[i]));
    uint64_t address = gp_frame_address(stack.frames[i]);
    int length;
    if (!module || is_system(module))
      continue;
    const char *base = base_of(module, &length), *name = exported_name(address, module);
    if (!name || snprintf(buffer, capacity, "%s (%.*s)", name, length, base) >= (int)capacity)
      snprintf(buffer, capacity, "%.*s+0x%" PRIx64, length, base, address - module->bias);
    return true;
  }
  return false;
}
