/*
 * Uses functions of the driver that are newer than the headers (test/sim/newer.c): newer WHAT HOW.
 *
 * HOW the function is found: dlsym; proc (cuGetProcAddress, asked for the driver's own version); exact (the
 * same, with the suffix _v2 in the name); next (dlsym with RTLD_NEXT); linked PLUGIN.
 *
 * WHAT it does with it:
 *
 *   names NAME...  looks all of them up, by dlsym and by cuGetProcAddress, and works on with the older ones
 *   constructor    loads PLUGIN (HOW is linked), whose constructor waits for a thread that looks one up
 *   launch         work in a stream that runs until the program stops it; other memory is taken meanwhile
 *   capture        captures a stream while memory comes and goes; then pools again
 *   recapture, cig, cig-per-thread    so do these
 *   refused        the same capture, which the driver refuses
 *   logical        the same capture, which another function begins
 *   gone           the same capture, whose stream another thread destroys when it has ended
 *   context        makes a context, submits work in it and leaves it
 *   green          work in a green context's stream; and a synchronization that covers that context only
 *   apart          work in a green context's stream on memory of a context beside the primary one
 *   lend, endpoint, multicast         makes memory visible to others, frees it and takes other memory
 *   alloc, free    memory that the newer function takes; pooled memory that it frees
 *   frees          the same of many blocks beside each other, some of them freed already, inner addresses
 *   frees-async    the same with a function that frees in the order of a stream
 *
 * early: how often memory was given out again while work that was submitted before its free was pending.
 */
#include "calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

static const char *how, *plugin;
static CUfunction waiting;
static volatile uint32_t *flag;
static CUstream stream, other;

/* NAME, and the name that cuGetProcAddress knows it by */
static void *find(const char *name, const char *base)
{
  void *function = NULL;
  int version = 0;

  if (strcmp(how, "linked") == 0) {
    void *library = dlopen(plugin, RTLD_NOW);
    void *(*get)(void) = library ? (void *(*)(void))dlsym(library, "plugin_function") : NULL;
    function = get ? get() : NULL;
  } else if (strcmp(how, "next") == 0) {
    function = dlsym(RTLD_NEXT, name);
  } else if (strcmp(how, "dlsym") == 0) {
    function = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), name);
  } else {
    CALL(cuDriverGetVersion(&version));
    CALL(cuGetProcAddress_v2(strcmp(how, "exact") == 0 ? name : base, &function, version, 0, NULL));
  }
  if (!function) {
    printf("%s: not found %s\n", name, dlerror());
    exit(1);
  }
  return function;
}

/* Memory of BYTES that the pool has, and that is not in use. */
static void fill_pool(void)
{
  CUdeviceptr blocks[4];
  for (int i = 0; i < 4; i++)
    CALL(cuMemAlloc_v2(&blocks[i], BYTES));
  for (int i = 0; i < 4; i++)
    CALL(cuMemFree_v2(blocks[i]));
  CALL(cuCtxSynchronize());
}

static CUdeviceptr take(void)
{
  CUdeviceptr block;
  CALL(cuMemAlloc_v2(&block, BYTES));
  return block;
}

static void give(CUdeviceptr block)
{
  CALL(cuMemFree_v2(block));
}

static void names(int count, char **list)
{
  int version = 0, found = 0;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

  CALL(cuDriverGetVersion(&version));
  for (int i = 0; i < count; i++) {
    void *function = NULL;
    found += dlsym(driver, list[i]) != NULL;
    for (int flags = 0; flags <= 2; flags += 2)
      (void)cuGetProcAddress_v2(list[i], &function, version, (cuuint64_t)flags, NULL);
    (void)dlsym(RTLD_DEFAULT, list[i]);
  }
  printf("found=%d\n", found);
  fill_pool();
  for (int i = 0; i < ROUNDS; i++) {
    give(take());
    CALL(cuCtxSynchronize());
  }
}

typedef CUresult (*launch_t)(CUfunction, double, unsigned, float, CUstream, void **, int, int, int, int);

static void launch(void)
{
  int early = 0;

  give(take()); /* one block: when it is not there, the pool looks what has become free */
  CALL(cuCtxSynchronize());
  launch_t launch_future = (launch_t)find("cuLaunchFuture", "cuLaunchFuture");
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr used = take();
    *flag = 0;
    void *parameters[] = {(void *)&flag};
    CALL(launch_future(waiting, 0.5, 1, 0.25f, stream, parameters, 5, 6, 7, 8));
    give(used);
    CUdeviceptr next = take();
    early += next == used;
    *flag = 1;
    CALL(cuCtxSynchronize());
    give(next);
    CALL(cuCtxSynchronize());
  }
  printf("early=%d\n", early);
}

/* Much comes and goes, with work pending, so that a pool would like to know what is complete. */
static void come_and_go(void)
{
  CUdeviceptr blocks[64];
  for (int i = 0; i < 64; i++) {
    CALL(cuMemAlloc_v2(&blocks[i], 4 * BYTES));
    CALL(cuMemsetD8Async(blocks[i], 1, BYTES, other));
  }
  for (int i = 0; i < 64; i++)
    CALL(cuMemFree_v2(blocks[i]));
}

static void *destroy_stream(void *unused)
{
  (void)unused;
  CALL(cuStreamDestroy_v2(stream));
  return NULL;
}

static void captures(const char *what)
{
  typedef CUresult (*begin_t)(CUstream, CUstreamCaptureMode, unsigned long long);
  typedef CUresult (*end_t)(CUstream, CUgraph *, unsigned long long);
  typedef CUresult (*recapture_t)(CUstream, CUstreamCaptureMode, CUgraph, void *, void *);
  typedef CUresult (*begin_cig_t)(CUstream, void *);
  typedef CUresult (*end_cig_t)(CUstream);
  bool refused = strcmp(what, "refused") == 0;
  CUgraph graph = NULL;
  CUdeviceptr target = take();
  CUresult result;

  fill_pool();
  come_and_go();
  if (strcmp(what, "recapture") == 0) {
    CALL(cuGraphCreate(&graph, 0));
    result = ((recapture_t)find("cuStreamBeginRecaptureToGraph", "cuStreamBeginRecaptureToGraph"))(
        stream, CU_STREAM_CAPTURE_MODE_RELAXED, graph, NULL, NULL);
  } else if (strcmp(what, "cig-per-thread") == 0) {
    stream = CU_STREAM_PER_THREAD;
    result =
        ((begin_cig_t)find("cuStreamBeginCaptureToCig_ptsz", "cuStreamBeginCaptureToCig_ptsz"))(NULL, &graph);
  } else if (strcmp(what, "cig") == 0) {
    result = ((begin_cig_t)find("cuStreamBeginCaptureToCig", "cuStreamBeginCaptureToCig"))(stream, &graph);
  } else if (strcmp(what, "logical") == 0) {
    result = ((begin_t)find("cuStreamBeginCaptureToEndpoint", "cuStreamBeginCaptureToEndpoint"))(
        stream, CU_STREAM_CAPTURE_MODE_RELAXED, 0);
  } else {
    result = ((begin_t)find("cuStreamBeginCapture_v3", "cuStreamBeginCapture"))(
        stream, CU_STREAM_CAPTURE_MODE_RELAXED, refused);
  }
  printf("begin: %d\n", (int)result);
  CALL(cuMemsetD8Async(target, 1, BYTES, stream));
  come_and_go();
  come_and_go();
  if (strcmp(what, "cig") == 0)
    result = ((end_cig_t)find("cuStreamEndCaptureToCig", "cuStreamEndCaptureToCig"))(stream);
  else if (strcmp(what, "cig-per-thread") == 0)
    result = ((end_cig_t)find("cuStreamEndCaptureToCig_ptsz", "cuStreamEndCaptureToCig_ptsz"))(NULL);
  else if (strcmp(what, "recapture") == 0)
    result = cuStreamEndCapture(stream, &graph);
  else
    result = ((end_t)find("cuStreamEndCapture_v2", "cuStreamEndCapture"))(stream, &graph, 0);
  printf("end: %d\n", (int)result);
  if (strcmp(what, "gone") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, destroy_stream, NULL) != 0 || pthread_join(thread, NULL) != 0)
      exit(1);
  }
  for (int i = 0; i < ROUNDS; i++) {
    give(take());
    CALL(cuCtxSynchronize());
  }
}

/* The work of another context, which a function made that no table has. All of it is in that context's
 * default stream: the library would meet the context when the program makes a stream there. */
static void context(void)
{
  typedef CUresult (*create_t)(CUcontext *, unsigned, CUdevice, void *);
  create_t create = (create_t)find("cuCtxCreate_v5", "cuCtxCreate");
  CUcontext made, popped;
  CUdeviceptr used = take();

  *flag = 0;
  CALL(create(&made, 0, 0, NULL));
  CALL(cuStreamWaitValue32(CU_STREAM_LEGACY, (CUdeviceptr)(uintptr_t)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  CALL(cuMemsetD8Async(used, 1, 4096, CU_STREAM_LEGACY));
  CALL(cuCtxPopCurrent_v2(&popped));
  give(used);
  CALL(cuCtxSynchronize()); /* of the first */
  printf("early=%d\n", take() == used);
  *flag = 1;
  CALL(cuCtxPushCurrent_v2(made));
  CALL(cuCtxSynchronize());
}

static void green(void)
{
#if CUDA_VERSION >= 12050
  CUdevResource resource;
  CUdevResourceDesc description;
  CUgreenCtx share;
  CUcontext primary, converted, popped;
  CUstream of_share;
  int early = 0;

  CALL(cuCtxGetCurrent(&primary));
  fill_pool();
  CALL(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuDevResourceGenerateDesc(&description, &resource, 1));
  CALL(cuGreenCtxCreate(&share, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CALL(cuGreenCtxStreamCreate(&of_share, share, CU_STREAM_NON_BLOCKING, 0));
  void *parameters[] = {(void *)&flag};
  for (int i = 0; i < ROUNDS; i++) { /* work of the green context */
    CUdeviceptr used = take();
    *flag = 0;
    CALL(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, of_share, parameters, NULL));
    give(used);
    CALL(cuStreamSynchronize(stream));
    CUdeviceptr next = take();
    early += next == used;
    *flag = 1;
    CALL(cuCtxSynchronize());
    give(next);
    CALL(cuCtxSynchronize());
  }
  CALL(cuCtxFromGreenCtx(&converted, share));
  for (int i = 0; i < ROUNDS;
       i++) { /* work of the primary context, beside the green one, which is synchronized */
    CUdeviceptr used = take();
    *flag = 0;
    CALL(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    CALL(cuCtxPushCurrent_v2(converted));
    give(used);
    CALL(cuCtxSynchronize());
    CUdeviceptr next = take();
    early += next == used;
    CALL(cuCtxPopCurrent_v2(&popped));
    *flag = 1;
    CALL(cuCtxSynchronize());
    give(next);
    CALL(cuCtxSynchronize());
  }
  printf("early=%d\n", early);
  CALL(cuStreamDestroy_v2(of_share));
  CALL(cuGreenCtxDestroy(share));
#endif
}

static void apart(void)
{
#if CUDA_VERSION >= 12050
  CUdevResource resource;
  CUdevResourceDesc description;
  CUgreenCtx share;
  CUcontext own;
  CUstream of_share;

  CALL(cuCtxCreate_v2(&own, 0, 0));
  CUdeviceptr copied = take(), scratch = take(), used = take();
  CALL(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuDevResourceGenerateDesc(&description, &resource, 1));
  CALL(cuGreenCtxCreate(&share, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CALL(cuGreenCtxStreamCreate(&of_share, share, CU_STREAM_NON_BLOCKING, 0));
  for (int i = 0; i < 400; i++)
    CALL(cuMemsetD8Async(scratch, (unsigned char)i, 4096, of_share));
  CALL(cuMemcpyDtoDAsync_v2(copied, used, 4096, of_share));
  give(used);
  CALL(cuCtxSynchronize()); /* of the own one */
  printf("early=%d\n", take() == used);
  CALL(cuStreamSynchronize(of_share));
#endif
}

static void lend(const char *what)
{
  typedef CUresult (*lend_t)(int, CUdeviceptr);
  typedef CUresult (*endpoint_t)(unsigned, CUdevice, cuuint64_t, void *, cuuint64_t, unsigned long long);
  typedef CUresult (*multicast_t)(
      unsigned long long, CUdevice, size_t, CUdeviceptr, size_t, unsigned long long);

  fill_pool();
  CUdeviceptr lent = take();
  if (strcmp(what, "lend") == 0)
    CALL(((lend_t)find("cuMemLend", "cuMemLend"))(0, lent + 4096));
  else if (strcmp(what, "endpoint") == 0)
    CALL(((endpoint_t)find("cuLogicalEndpointBindAddr", "cuLogicalEndpointBindAddr"))(
        1, 0, 0, (void *)(uintptr_t)lent, BYTES, 0));
  else
    CALL(((multicast_t)find("cuMulticastBindAddr_v2", "cuMulticastBindAddr"))(1, 0, 0, lent, BYTES, 0));
  give(lent);
  CALL(cuCtxSynchronize());
  give(take());
}

static void newer_alloc(void)
{
  typedef CUresult (*alloc_t)(CUdeviceptr *, size_t, unsigned long long);
  CUdeviceptr block = 0;
  CUresult result = ((alloc_t)find("cuMemAlloc_v3", "cuMemAlloc"))(&block, BYTES, 0);
  printf("alloc: %d\n", (int)result);
  CALL(cuMemsetD8_v2(block, 1, BYTES));
  give(block);
  fill_pool();
  give(take());
}

static void newer_free(void)
{
  typedef CUresult (*free_t)(CUdeviceptr, unsigned long long);
  free_t free_v3 = (free_t)find("cuMemFree_v3", "cuMemFree");
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr block = take();
    CALL(cuMemsetD8_v2(block, 1, BYTES));
    printf("free: %d\n", (int)free_v3(block, 0));
    block = take();
    printf("free: %d\n", (int)cuMemFree_v2(block));
  }
}

#define BLOCKS 8

static void use(const CUdeviceptr *blocks, int from)
{
  for (int i = from; i < BLOCKS; i++)
    CALL(cuMemsetD8_v2(blocks[i], (unsigned char)i, BYTES));
}

/* The lowest of them may begin where the driver's own allocation begins. */
static void frees(void)
{
  typedef CUresult (*free_t)(CUdeviceptr, unsigned long long);
  free_t free_v3 = (free_t)find("cuMemFree_v3", "cuMemFree");
  CUdeviceptr blocks[BLOCKS];

  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = take();
  printf("first: %d\n", (int)free_v3(blocks[0], 0));
  use(blocks, 1);
  printf("again: %d\n", (int)free_v3(blocks[0], 0));
  use(blocks, 1);
  printf("inside: %d\n", (int)free_v3(blocks[1] + 512, 0));
  use(blocks, 1);
  give(blocks[1]);
  printf("freed: %d\n", (int)free_v3(blocks[1], 0));
  for (int i = 2; i < BLOCKS; i++) {
    use(blocks, i);
    printf("free: %d\n", (int)(i % 2 ? cuMemFree_v2(blocks[i]) : free_v3(blocks[i], 0)));
  }
  for (int i = 0; i < ROUNDS; i++) {
    CALL(cuCtxSynchronize());
    printf("free: %d\n", (int)free_v3(take(), 0));
  }
}

static void frees_async(void)
{
  typedef CUresult (*free_t)(CUdeviceptr, CUstream, unsigned long long);
  free_t free_async = (free_t)find("cuMemFreeAsync_v2", "cuMemFreeAsync");
  CUdeviceptr blocks[BLOCKS];

  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = take();
  give(blocks[1]);
  printf("freed: %d\n", (int)free_async(blocks[1], stream, 0));
  use(blocks, 2);
  CUresult result = free_async(blocks[0], stream, 0);
  printf("first: %d\n", (int)result);
  use(blocks, 2);
  if (result != CUDA_SUCCESS)
    give(blocks[0]);
  printf("again: %d\n", (int)free_async(blocks[0], stream, 0));
  for (int i = 2; i < BLOCKS; i++) {
    use(blocks, i);
    give(blocks[i]);
  }
}

int main(int argc, char **argv)
{
  static const unsigned char image[4] = {0};
  const char *what = argc > 1 ? argv[1] : "";
  CUcontext first;
  CUmodule module;
  void *host;

  how = argc > 2 ? argv[2] : "";
  plugin = argc > 3 ? argv[3] : "";
  CALL(cuInit(0));
  if (strcmp(what, "apart") == 0) {
    apart(); /* the primary context is never current */
    return 0;
  }
  CALL(cuDevicePrimaryCtxRetain(&first, 0));
  CALL(cuCtxSetCurrent(first));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&waiting, module, "simcuda_wait"));
  CALL(cuMemHostAlloc(&host, 4096, 0));
  flag = host;
  if (strcmp(what, "names") == 0)
    names(argc - 3, argv + 3);
  else if (strcmp(what, "constructor") == 0)
    printf("loaded=%d\n", dlopen(plugin, RTLD_NOW) != NULL);
  else if (strcmp(what, "launch") == 0)
    launch();
  else if (strcmp(what, "capture") == 0 || strcmp(what, "refused") == 0 || strcmp(what, "recapture") == 0 ||
           strncmp(what, "cig", 3) == 0 || strcmp(what, "logical") == 0 || strcmp(what, "gone") == 0)
    captures(what);
  else if (strcmp(what, "context") == 0)
    context();
  else if (strcmp(what, "green") == 0)
    green();
  else if (strcmp(what, "lend") == 0 || strcmp(what, "endpoint") == 0 || strcmp(what, "multicast") == 0)
    lend(what);
  else if (strcmp(what, "alloc") == 0)
    newer_alloc();
  else if (strcmp(what, "free") == 0)
    newer_free();
  else if (strcmp(what, "frees") == 0)
    frees();
  else if (strcmp(what, "frees-async") == 0)
    frees_async();
  return 0;
}
