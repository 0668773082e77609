/*
 * Memory is short beside a kernel that waits for this thread: the program freed enough, but blocks of another
 * size than it asks for now. The device has 1 GiB (SIMCUDA_CAPACITY). What takes memory unseen is refused
 * once by the driver (SIMCUDA_FAIL).
 *
 * Each scenario has one argument, what became of the freed memory: idle or deferred; that of freed_beside are
 * the bytes that are wanted.
 */
#include "waiting.h"

#define FREED  (600 * MIB)
#define WANTED (700 * MIB)

static void pooled(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, WANTED));
}

static void in_default_stream(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start_in(waiting_module, CU_STREAM_LEGACY);
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, WANTED));
}

static void in_thread_stream(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start_in(waiting_module, CU_STREAM_PER_THREAD);
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, WANTED));
}

static void in_destroyed_stream(char **arguments)
{
  CUdeviceptr block;
  CUstream stream;
  waiting_leave(arguments[0], FREED, 1);
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  waiting_start_in(waiting_module, stream);
  CALL(cuStreamDestroy_v2(stream));
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, WANTED));
}

/* What was freed would do. */
static void same_size(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, FREED));
}

/*
 * It is freed beside the kernel, which does not use it: legal where cuMemFree does not wait for all. A
 * library cannot know what the kernel uses.
 */
static void freed_beside(char **arguments)
{
  CUdeviceptr block, freed = waiting_take(FREED);
  waiting_start();
  waiting_step("cuMemFree");
  waiting_give(freed);
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, strtoull(arguments[0], NULL, 10)));
}

/* The largest idle block is not enough: several go back. */
static void pieces(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED / 10, 10);
  waiting_start();
  ATTEMPT("cuMemAlloc", cuMemAlloc_v2(&block, WANTED));
}

static void managed(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAllocManaged", cuMemAllocManaged(&block, WANTED, CU_MEM_ATTACH_GLOBAL));
}

static void pitched(char **arguments)
{
  CUdeviceptr block;
  size_t pitch;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAllocPitch", cuMemAllocPitch_v2(&block, &pitch, MIB, WANTED / MIB, 4));
}

static void stream_ordered(char **arguments)
{
  CUdeviceptr block;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAllocAsync", cuMemAllocAsync(&block, WANTED, waiting_work));
}

static void physical(char **arguments)
{
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemCreate", cuMemCreate(&handle, WANTED, &properties, 0));
}

static void array(char **arguments)
{
  CUarray made;
  CUDA_ARRAY_DESCRIPTOR descriptor = {
      .Width = 16384, .Height = WANTED / 16384, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuArrayCreate", cuArrayCreate_v2(&made, &descriptor));
}

/* Its memory is charged when it is launched first. */
static void graph(char **arguments)
{
  CUgraph made;
  CUgraphNode taken;
  CUgraphExec executable;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
      .bytesize = WANTED};
  CALL(cuGraphCreate(&made, 0));
  CALL(cuGraphAddMemAllocNode(&taken, made, NULL, 0, &parameters));
  CALL(cuGraphInstantiateWithFlags(&executable, made, 0));
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuGraphLaunch", cuGraphLaunch(executable, waiting_work));
}

static void host(char **arguments)
{
  void *page;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuMemAllocHost", cuMemAllocHost_v2(&page, 4096));
}

static void module(char **arguments)
{
  static const unsigned char image[4] = {0};
  CUmodule loaded;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuModuleLoadData", cuModuleLoadData(&loaded, image));
}

static void stack_limit(char **arguments)
{
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuCtxSetLimit", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
}

/* The context becomes current. Whatever the first attempt did, the other one is current again. */
static CUresult make_context(CUcontext *ret_made)
{
  CUresult result = cuCtxCreate_v2(ret_made, 0, 0);
  CALL(cuCtxSetCurrent(waiting_context));
  return result;
}

static void context(char **arguments)
{
  CUcontext made;
  waiting_leave(arguments[0], FREED, 1);
  waiting_start();
  ATTEMPT("cuCtxCreate", make_context(&made));
  CALL(cuCtxDestroy_v2(made));
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"pooled", pooled, 1},
      {"in_default_stream", in_default_stream, 1},
      {"in_thread_stream", in_thread_stream, 1},
      {"in_destroyed_stream", in_destroyed_stream, 1},
      {"same_size", same_size, 1},
      {"freed_beside", freed_beside, 1},
      {"pieces", pieces, 1},
      {"managed", managed, 1},
      {"pitched", pitched, 1},
      {"stream_ordered", stream_ordered, 1},
      {"physical", physical, 1},
      {"array", array, 1},
      {"graph", graph, 1},
      {"host", host, 1},
      {"module", module, 1},
      {"stack_limit", stack_limit, 1},
      {"context", context, 1},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
