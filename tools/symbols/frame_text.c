/*
 * How a frame is shown, and which frame of a stack is named as its owner.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/symbols/frame_text.h"
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

char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  if (!what->function[0])
    return gp_frame_describe(snapshot, frame, buffer, capacity);
  (void)snprintf(buffer, capacity, "%s", what->function);
  return buffer;
}

/* Beginnings of the names of files whose code only hands out what the driver gives. */
static const char *const allocator_modules[] = {
    "libgpupool", "libcuda.so", "libcudart", "libnvidia-", "librmm.so", "libc10_cuda.so"};

/* Beginnings of names of the functions of CUDA that hand out memory. */
static const char *const entry_functions[] = {"cudaMalloc", "cudaHostAlloc", "cudaFree", "cudaGraphLaunch",
    "cudaMemPool", "cuMem", "cuArray", "cuMipmappedArray", "cuGraphLaunch", "cuImportExternalMemory"};

/*
 * Beginnings of names of functions that do so: the static CUDA runtime, allocators that are templates in a
 * program's own code, and what containers call them through.
 */
static const char *const allocator_functions[] = {"__cudart", "libcudart_static",
    "cudart::", "thrust::", "cub::", "rmm::", "cuda::mr::", "c10::cuda::CUDACachingAllocator",
    "at::detail::empty_", "at::cuda::getCUDADeviceAllocator", "std::", "__gnu_cxx::", "operator new"};

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

static bool is_entry(const gp_snapshot_frame_t *frame)
{
  return begins_with_any(
      without_result(frame->function), entry_functions, sizeof(entry_functions) / sizeof(entry_functions[0]));
}

bool gp_frame_is_allocator(const gp_snapshot_t *snapshot, int index)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  if (frame->module >= 0 && begins_with_any(base_name(snapshot->modules[frame->module].path),
                                allocator_modules, sizeof(allocator_modules) / sizeof(allocator_modules[0])))
    return true;
  return is_entry(frame) || begins_with_any(without_result(frame->function), allocator_functions,
                                sizeof(allocator_functions) / sizeof(allocator_functions[0]));
}

/* How deep the insides of the runtime are, where only their names tell them from the program. */
#define DEEPEST_ENTRY 8

size_t gp_stack_owner_place(const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;

  if (stack < 0 || (size_t)stack >= stacks->count || stacks->first[stack] == stacks->first[stack + 1])
    return SIZE_MAX;
  size_t begin = stacks->first[stack], end = stacks->first[stack + 1];
  /* What CUDA calls is not the program: an import has names and no files that would show it. */
  for (size_t k = begin; k < end && k < stacks->first[stack] + DEEPEST_ENTRY; k++) {
    if (is_entry(&snapshot->frames[stacks->frame_indexes[k]]))
      begin = k;
  }
  for (size_t k = begin; k < end; k++) {
    if (!gp_frame_is_allocator(snapshot, stacks->frame_indexes[k]))
      return k;
  }
  return end - 1;
}

int gp_stack_owner(const gp_snapshot_t *snapshot, int stack)
{
  size_t place = gp_stack_owner_place(snapshot, stack);
  return place == SIZE_MAX ? -1 : snapshot->stacks.frame_indexes[place];
}
