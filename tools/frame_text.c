/*
 * How a frame is shown, and which frame of a stack is named as its owner.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/symbols.h"
#include "tools/tool.h"

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  const gp_snapshot_module_t *module = what->module >= 0 ? &snapshot->modules[what->module] : NULL;
  char text[1024];

  if (what->function[0] && what->file[0] && what->line > 0)
    (void)snprintf(text, sizeof(text), "%s %s:%d", what->function, base_name(what->file), what->line);
  else if (what->function[0] && what->file[0])
    (void)snprintf(text, sizeof(text), "%s %s", what->function, base_name(what->file));
  else if (what->function[0])
    (void)snprintf(text, sizeof(text), "%s", what->function);
  else if (module)
    (void)snprintf(
        text, sizeof(text), "%s+0x%" PRIx64, base_name(module->path), what->address - module->bias);
  else
    (void)snprintf(text, sizeof(text), "0x%" PRIx64, what->address);
  return gp_printable(text, buffer, capacity);
}

/* Beginnings of the names of files whose code only hands out what the driver gives. */
static const char *const allocator_modules[] = {
    "libgpupool", "libcuda.so", "libcudart", "libnvidia-", "librmm.so", "libc10_cuda.so"};

/*
 * Beginnings of names of functions that do so: the static CUDA runtime, allocators that are templates in a program's own
 * code, and what containers call them through.
 */
static const char *const allocator_functions[] = {
    "cudaMalloc", "cudaHostAlloc", "cudaFree", "cudaGraphLaunch", "cudaMemPool", "__cudart", "libcudart_static",
    "cudart::", "cuMem", "cuArray", "cuMipmappedArray", "cuGraphLaunch", "cuImportExternalMemory",
    "thrust::", "cub::", "rmm::", "cuda::mr::", "c10::cuda::CUDACachingAllocator", "at::detail::empty_",
    "at::cuda::getCUDADeviceAllocator", "std::", "__gnu_cxx::", "operator new"};

static bool begins_with_any(const char *text, const char *const *beginnings, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0)
      return true;
  }
  return false;
}

/* Demangled names of function templates begin with what they return. */
static const char *without_result(const char *function)
{
  int depth = 0;
  const char *name = function;

  for (const char *at = function; *at; at++) {
    if (*at == '(' && depth == 0)
      break;
    if (strncmp(at, "operator", 8) == 0 && (at == name || at[-1] == ':'))
      break;
    depth += *at == '<';
    depth -= *at == '>';
    if (*at == ' ' && depth == 0)
      name = at + 1;
  }
  return name;
}

static bool is_allocator(const gp_snapshot_t *snapshot, const gp_snapshot_frame_t *frame)
{
  if (frame->module >= 0 && begins_with_any(base_name(snapshot->modules[frame->module].path), allocator_modules,
                                sizeof(allocator_modules) / sizeof(allocator_modules[0])))
    return true;
  return begins_with_any(without_result(frame->function), allocator_functions,
      sizeof(allocator_functions) / sizeof(allocator_functions[0]));
}

int gp_stack_owner(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  if (stack < 0 || (size_t)stack >= stacks->count || stacks->first[stack] == stacks->first[stack + 1])
    return -1;
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    int frame = stacks->frame_indexes[k];
    if (!is_allocator(snapshot, &snapshot->frames[frame]))
      return frame;
  }
  return stacks->frame_indexes[stacks->first[stack + 1] - 1];
}
