/*
 * Modules, libraries, kernels and launches. Device code is not looked at: a kernel is known by its name
 * alone. Any name can be found in any module, and a kernel does nothing, except the stand-ins (the name may
 * be mangled; further parameters are not looked at):
 *
 *   simcuda_fill(uint64_t *p, size_t words, uint64_t value)      writes
 *   simcuda_copy(void *dst, const void *src, size_t bytes)       copies
 *   simcuda_expect(uint64_t *p, size_t words, uint64_t value)    counts words that differ as corrupt stamps
 *   simcuda_wait(const volatile uint32_t *flag)                  runs until *flag, in host memory, is not 0
 *   simcuda_busy(uint64_t nanoseconds)                           runs that long by CLOCK_MONOTONIC
 *   simcuda_meet(volatile uint32_t *cell, uint32_t parties)      runs until as many kernels with this cell
 * run
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define GLOBAL_BYTES (1u << 20) /* the size of a variable is not known here */

typedef struct module {
  sim_ctx_t *ctx; /* NULL for a library, which is loaded into contexts on demand */
  sim_func_t *functions;
  struct global {
    char *name;
    sim_block_t *block;
    struct global *next;
  } * globals;
  struct module *prev, *next;
} module_t;

static module_t *modules;
static sim_tree_t functions; /* by handle: one whose module was unloaded is not looked at */

static bool is_module(const module_t *module)
{
  const module_t *other = modules;
  while (other && other != module)
    other = other->next;
  return other != NULL;
}

static bool is_function(const sim_func_t *function)
{
  return sim_tree_find(&functions, (uintptr_t)function, 0) != NULL;
}

static module_t *module_new(sim_ctx_t *ctx)
{
  module_t *module = calloc(1, sizeof *module);
  if (!module)
    return NULL;
  module->ctx = ctx;
  module->next = modules;
  if (modules)
    modules->prev = module;
  modules = module;
  return module;
}

static void module_delete(module_t *module)
{
  while (module->functions) {
    sim_func_t *function = module->functions;
    module->functions = function->next;
    sim_tree_remove(&functions, &function->node);
    free(function->name);
    free(function);
  }
  while (module->globals) {
    struct global *global = module->globals;
    module->globals = global->next;
    sim_block_delete(global->block);
    free(global->name);
    free(global);
  }
  if (module->prev)
    module->prev->next = module->next;
  else
    modules = module->next;
  if (module->next)
    module->next->prev = module->prev;
  free(module);
}

void sim_kernel_drop_context(sim_ctx_t *ctx)
{
  for (module_t *module = modules, *next; module; module = next) {
    next = module->next;
    if (module->ctx == ctx)
      module_delete(module);
  }
}

static CUresult load(CUmodule *ret, sim_ctx_t *ctx)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  module_t *module = module_new(ctx);
  if (!module)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *ret = (CUmodule)module;
  return CUDA_SUCCESS;
}

size_t sim_take_log_sizes(unsigned count, const CUjit_option *options, void **values)
{
  size_t bytes = 0;
  for (unsigned i = 0; options && values && i < count; i++)
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      bytes += (size_t)values[i];
      values[i] = NULL;
    }
  return bytes;
}

SIM_FN(cuModuleLoad, (CUmodule * ret, const char *path), load(ret, call.ctx), "%s", path ? path : "")
SIM_FN(cuModuleLoadData, (CUmodule * ret, const void *image), load(ret, call.ctx), " ")
SIM_FN(cuModuleLoadDataEx,
    (CUmodule * ret, const void *image, unsigned int count, CUjit_option *options, void **values),
    load(ret, call.ctx), "%u %zu", count, sim_take_log_sizes(count, options, values))
SIM_FN(cuModuleLoadFatBinary, (CUmodule * ret, const void *image), load(ret, call.ctx), " ")

static CUresult unload(module_t *module, sim_ctx_t *ctx)
{
  if (!is_module(module))
    return CUDA_ERROR_INVALID_HANDLE;
  if (ctx)
    sim_sched_wait_ctx(ctx);
  module_delete(module);
  return CUDA_SUCCESS;
}

SIM_FN(cuModuleUnload, (CUmodule module), unload((module_t *)module, call.ctx), " ")

static CUresult loading_mode(CUmoduleLoadingMode *ret)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

SIM_FN(cuModuleGetLoadingMode, (CUmoduleLoadingMode * ret), loading_mode(ret), " ")

static CUresult get_function(CUfunction *ret, module_t *module, const char *name)
{
  if (!ret || !name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_module(module))
    return CUDA_ERROR_INVALID_HANDLE;
  sim_func_t *function = module->functions;
  while (function && strcmp(function->name, name) != 0)
    function = function->next;
  if (!function) {
    function = calloc(1, sizeof *function);
    if (!function || !(function->name = strdup(name))) {
      free(function);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    function->node.key = (uintptr_t)function;
    sim_tree_insert(&functions, &function->node);
    function->module = module;
    function->stand_in = strstr(name, "simcuda_fill")     ? SIM_KERNEL_FILL
                         : strstr(name, "simcuda_copy")   ? SIM_KERNEL_COPY
                         : strstr(name, "simcuda_expect") ? SIM_KERNEL_EXPECT
                         : strstr(name, "simcuda_wait")   ? SIM_KERNEL_WAIT
                         : strstr(name, "simcuda_busy")   ? SIM_KERNEL_BUSY
                         : strstr(name, "simcuda_meet")   ? SIM_KERNEL_MEET
                                                          : SIM_KERNEL_NONE;
    function->next = module->functions;
    module->functions = function;
  }
  *ret = function;
  return CUDA_SUCCESS;
}

SIM_FN(cuModuleGetFunction, (CUfunction * ret, CUmodule module, const char *name),
    get_function(ret, (module_t *)module, name), "%s", name ? name : "")

static CUresult get_global(
    CUdeviceptr *ret, size_t *ret_bytes, module_t *module, const char *name, sim_device_t *device)
{
  CUresult result;
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_module(module))
    return CUDA_ERROR_INVALID_HANDLE;
  struct global *global = module->globals;
  while (global && strcmp(global->name, name) != 0)
    global = global->next;
  if (!global) {
    global = calloc(1, sizeof *global);
    if (!global || !(global->name = strdup(name))) {
      free(global);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    global->block = sim_block_new(&device->arena, device, NULL, SIM_MEM_MODULE, GLOBAL_BYTES, false, &result);
    if (!global->block) {
      free(global->name);
      free(global);
      return result;
    }
    global->next = module->globals;
    module->globals = global;
  }
  if (ret)
    *ret = global->block->node.key;
  if (ret_bytes)
    *ret_bytes = global->block->requested;
  return CUDA_SUCCESS;
}

SIM_FN(cuModuleGetGlobal_v2, (CUdeviceptr * ret, size_t *bytes, CUmodule module, const char *name),
    get_global(ret, bytes, (module_t *)module, name, call.ctx->device), "%s", name ? name : "")

/* ---- libraries: context-independent modules; a kernel is also a function ---- */

SIM_FN(cuLibraryLoadData,
    (CUlibrary * ret, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,
        CUlibraryOption *options, void **values, unsigned int count),
    load((CUmodule *)ret, NULL), "%u %zu %u", jit_count, sim_take_log_sizes(jit_count, jit, jit_values),
    count)
SIM_FN(cuLibraryLoadFromFile,
    (CUlibrary * ret, const char *path, CUjit_option *jit, void **jit_values, unsigned int jit_count,
        CUlibraryOption *options, void **values, unsigned int count),
    load((CUmodule *)ret, NULL), "%s %u %zu", path ? path : "", jit_count,
    sim_take_log_sizes(jit_count, jit, jit_values))
SIM_FN(cuLibraryUnload, (CUlibrary library), unload((module_t *)library, NULL), " ")
SIM_FN(cuLibraryGetKernel, (CUkernel * ret, CUlibrary library, const char *name),
    get_function((CUfunction *)ret, (module_t *)library, name), "%s", name ? name : "")
SIM_FN(cuLibraryGetGlobal, (CUdeviceptr * ret, size_t *bytes, CUlibrary library, const char *name),
    get_global(ret, bytes, (module_t *)library, name, call.ctx->device), "%s", name ? name : "")

static CUresult same(void **ret, void *handle)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle)
    return CUDA_ERROR_INVALID_HANDLE;
  *ret = handle;
  return CUDA_SUCCESS;
}

static void *module_of(const sim_func_t *function)
{
  return is_function(function) ? function->module : NULL;
}

SIM_FN(cuLibraryGetModule, (CUmodule * ret, CUlibrary library), same((void **)ret, library), " ")
SIM_FN(cuKernelGetFunction, (CUfunction * ret, CUkernel kernel), same((void **)ret, kernel), " ")
SIM_FN(cuKernelGetLibrary, (CUlibrary * ret, CUkernel kernel),
    same((void **)ret, module_of((CUfunction)kernel)), " ")
SIM_FN(cuFuncGetModule, (CUmodule * ret, CUfunction function), same((void **)ret, module_of(function)), " ")

static CUresult get_name(const char **ret, const sim_func_t *function)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  *ret = function->name;
  return CUDA_SUCCESS;
}

SIM_FN(cuKernelGetName, (const char **ret, CUkernel kernel), get_name(ret, (CUfunction)kernel), " ")
SIM_FN(cuFuncGetName, (const char **ret, CUfunction function), get_name(ret, function), " ")

static CUresult get_attribute(int *ret, CUfunction_attribute attribute, const sim_func_t *function)
{
  if (!ret || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  switch ((int)attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *ret = 1024; break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: *ret = 32; break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *ret = 90; break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *ret = 49152; break;
  default: *ret = 0;
  }
  return CUDA_SUCCESS;
}

static CUresult accept(const sim_func_t *function)
{
  return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_FN(cuFuncGetAttribute, (int *ret, CUfunction_attribute attribute, CUfunction function),
    get_attribute(ret, attribute, function), "%d", (int)attribute)
SIM_FN(cuKernelGetAttribute, (int *ret, CUfunction_attribute attribute, CUkernel kernel, CUdevice dev),
    get_attribute(ret, attribute, (CUfunction)kernel), "%d %d", (int)attribute, dev)
SIM_FN(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value), accept(function),
    "%d %d", (int)attribute, value)
SIM_FN(cuKernelSetAttribute, (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice dev),
    accept((CUfunction)kernel), "%d %d %d", (int)attribute, value, dev)
SIM_FN(cuFuncSetBlockShape, (CUfunction function, int x, int y, int z), accept(function), "%d %d %d", x, y, z)
SIM_FN(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config), accept(function), "%d", (int)config)
SIM_FN(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice dev),
    accept((CUfunction)kernel), "%d", (int)config)
SIM_FN(cuFuncSetSharedMemConfig, (CUfunction function, CUsharedconfig config), accept(function), "%d",
    (int)config)
SIM_FN(cuFuncLoad, (CUfunction function), accept(function), " ")

static CUresult occupancy(int *ret, const sim_func_t *function, int block_size)
{
  if (!ret || block_size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  int blocks = 2048 / ((block_size + 31) / 32 * 32);
  *ret = blocks > 32 ? 32 : blocks;
  return CUDA_SUCCESS;
}

SIM_FN(cuOccupancyMaxActiveBlocksPerMultiprocessor,
    (int *ret, CUfunction function, int block_size, size_t shared), occupancy(ret, function, block_size),
    "%d %zu", block_size, shared)
SIM_FN(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    (int *ret, CUfunction function, int block_size, size_t shared, unsigned int flags),
    occupancy(ret, function, block_size), "%d %zu %u", block_size, shared, flags)

static CUresult best_block(int *ret_grid, int *ret_block, const sim_func_t *function, int limit)
{
  if (!ret_grid || !ret_block)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  *ret_block = limit > 0 && limit < 1024 ? limit : 1024;
  *ret_grid = 264;
  return CUDA_SUCCESS;
}

SIM_FN(cuOccupancyMaxPotentialBlockSize,
    (int *grid, int *block, CUfunction function, CUoccupancyB2DSize to_shared, size_t shared, int limit),
    best_block(grid, block, function, limit), "%zu %d", shared, limit)
SIM_FN(cuOccupancyMaxPotentialBlockSizeWithFlags,
    (int *grid, int *block, CUfunction function, CUoccupancyB2DSize to_shared, size_t shared, int limit,
        unsigned int flags),
    best_block(grid, block, function, limit), "%zu %d %u", shared, limit, flags)

static CUresult available_shared(size_t *ret, const sim_func_t *function)
{
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  *ret = 49152;
  return CUDA_SUCCESS;
}

SIM_FN(cuOccupancyAvailableDynamicSMemPerBlock,
    (size_t * ret, CUfunction function, int blocks, int block_size), available_shared(ret, function), "%d %d",
    blocks, block_size)

/* ---- launches ---- */

/* Bytes of the arguments of a stand-in */
static const size_t argument_bytes[] = {
    [SIM_KERNEL_NONE] = 0,
    [SIM_KERNEL_FILL] = 24,
    [SIM_KERNEL_COPY] = 24,
    [SIM_KERNEL_EXPECT] = 24,
    [SIM_KERNEL_WAIT] = 8,
    [SIM_KERNEL_BUSY] = 8,
    [SIM_KERNEL_MEET] = 12,
};

/* Where the arguments are in the one buffer of a launch with CU_LAUNCH_PARAM_...: each begins 8 bytes after
 * the one before. NULL: it is too small. */
static void **unpack(void **extra, size_t needed, void *values[3])
{
  char *buffer = NULL;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *(const size_t *)extra[1];
  }
  if (!buffer || bytes < needed)
    return NULL;
  for (unsigned i = 0; i < 3; i++)
    values[i] = buffer + i * sizeof(uint64_t);
  return values;
}

static uint64_t argument(void **params, unsigned i)
{
  uint64_t value;
  memcpy(&value, params[i], sizeof value);
  return value;
}

static sim_op_t *stand_in(const sim_func_t *function, void **params)
{
  if (function->stand_in == SIM_KERNEL_NONE || !params)
    return sim_op_new(SIM_OP_NOP);
  uint64_t first = argument(params, 0);
  sim_op_t *op;
  if (function->stand_in == SIM_KERNEL_WAIT) {
    op = sim_op_new(SIM_OP_WAIT_VALUE);
    op->src.address = first;
    op->unit = sizeof(uint32_t);
    op->value = 1;
    op->flags = CU_STREAM_WAIT_VALUE_GEQ;
    return op;
  }
  if (function->stand_in == SIM_KERNEL_BUSY) {
    op = sim_op_new(SIM_OP_BUSY);
    op->value = first;
    return op;
  }
  if (function->stand_in == SIM_KERNEL_MEET) {
    uint32_t parties;
    memcpy(&parties, params[1], sizeof parties);
    op = sim_op_new(SIM_OP_MEET);
    op->src.address = first;
    op->value = parties;
    return op;
  }
  uint64_t second = argument(params, 1), third = argument(params, 2);
  if (function->stand_in == SIM_KERNEL_COPY) {
    op = sim_op_new(SIM_OP_COPY);
    op->dst.address = first;
    op->src.address = second;
    op->width = third;
  } else {
    op = sim_op_new(function->stand_in == SIM_KERNEL_FILL ? SIM_OP_FILL : SIM_OP_EXPECT);
    op->dst.address = op->src.address = first;
    op->width = second * sizeof(uint64_t);
    op->unit = sizeof(uint64_t);
    op->value = third;
  }
  op->height = op->depth = 1;
  return op;
}

sim_op_t *sim_kernel_op(const sim_func_t *function, void **params, void **extra)
{
  void *values[3];
  if (!is_function(function))
    return NULL;
  size_t bytes = argument_bytes[function->stand_in];
  sim_op_t *op = stand_in(function, extra ? unpack(extra, bytes, values) : params);
  op->is_kernel = true;
  return op;
}

static CUresult launch(sim_call_t *call, CUfunction function, CUstream handle, void **params, void **extra,
    unsigned grid, unsigned block, bool programmatic)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!is_function(function))
    return CUDA_ERROR_INVALID_HANDLE;
  if (grid == 0 || block == 0 || block > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if (params && extra) /* one of the two (cuda.h, cuLaunchKernel) */
    return CUDA_ERROR_INVALID_VALUE;
  sim_op_t *op = sim_kernel_op(function, params, extra);
  op->programmatic = programmatic;
  CUresult result;
  if (sim_capture_take(stream, op, &result))
    return result;
  op->ctx = stream->ctx;
  result = sim_op_prepare(op);
  if (result == CUDA_SUCCESS) {
    sim_sched_submit(stream, op);
    return CUDA_SUCCESS;
  }
  sim_op_delete(op);
  sim_violation("kernel %s launched on memory that is not allocated, or not accessible", function->name);
  return CUDA_SUCCESS; /* a GPU would fault later, not here */
}

static const char *name_of(CUfunction function)
{
  return is_function(function) ? function->name : "?";
}

SIM_FN2(cuLaunchKernel, cuLaunchKernel_ptsz,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
        unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra),
    launch(&call, f, stream, params, extra, gx *gy *gz, bx *by *bz, false), "%s %u %u %u %u %u %u %u %s",
    name_of(f), gx, gy, gz, bx, by, bz, shared, sim_str_stream(stream))
SIM_FN2(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
        unsigned int bz, unsigned int shared, CUstream stream, void **params),
    launch(&call, f, stream, params, NULL, gx *gy *gz, bx *by *bz, false), "%s %u %u %u %u %u %u %u %s",
    name_of(f), gx, gy, gz, bx, by, bz, shared, sim_str_stream(stream))

static CUresult launch_ex(
    sim_call_t *call, const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
  if (!c)
    return CUDA_ERROR_INVALID_VALUE;
  bool programmatic = false;
  for (unsigned i = 0; i < c->numAttrs; i++)
    programmatic |= c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                    c->attrs[i].value.programmaticStreamSerializationAllowed;
  return launch(call, f, c->hStream, params, extra, c->gridDimX * c->gridDimY * c->gridDimZ,
      c->blockDimX * c->blockDimY * c->blockDimZ, programmatic);
}

SIM_FN2(cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
    (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
    launch_ex(&call, config, f, params, extra), "%s %s", name_of(f),
    sim_str_stream(config ? config->hStream : NULL))

/* ---- functions of the program in a stream ---- */

static CUresult host_function(sim_call_t *call, CUstream handle, sim_op_kind_t kind, void *fn, void *user)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!fn)
    return CUDA_ERROR_INVALID_VALUE;
  sim_op_t *op = sim_op_new(kind);
  op->fn = fn;
  op->user = user;
  op->handle = handle;
  return sim_submit(call, stream, op);
}

SIM_FN2(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn fn, void *user),
    host_function(&call, stream, SIM_OP_HOST, (void *)fn, user), "%s", sim_str_stream(stream))
SIM_FN2(cuStreamAddCallback, cuStreamAddCallback_ptsz,
    (CUstream stream, CUstreamCallback fn, void *user, unsigned int flags),
    flags ? CUDA_ERROR_INVALID_VALUE : host_function(&call, stream, SIM_OP_CALLBACK, (void *)fn, user),
    "%s %u", sim_str_stream(stream), flags)
