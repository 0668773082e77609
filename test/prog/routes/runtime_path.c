/*
 * What a program can observe of cudaMalloc and cudaFree, warm: results, the last error, devices, contexts,
 * ends. With RUNTIME_PLUGIN a plug-in that is linked to a runtime of its own.
 *
 * runtime_path WHAT
 *
 * Prints the same whether the library or the runtime serves the calls. How many came to the runtime is on
 * stderr, last.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES  4096u
#define ROUNDS 16
#define LARGE  (4u << 20)

/* Of the simulated runtime: calls of this thread that came to it. */
extern unsigned long long __cudaSimEntries(void);

static void tell(const char *what, cudaError_t error)
{
  printf("%s: %d, last %d\n", what, (int)error, (int)cudaPeekAtLastError());
}

static void *take(size_t bytes)
{
  void *block = NULL;
  if (cudaMalloc(&block, bytes) != cudaSuccess)
    printf("no memory: %d\n", (int)cudaGetLastError());
  return block;
}

static void give(void *block)
{
  if (cudaFree(block) != cudaSuccess)
    printf("not freed: %d\n", (int)cudaGetLastError());
}

/* What is freed is idle afterwards. */
static void warm(size_t bytes)
{
  void *blocks[] = {take(bytes), take(bytes)};
  give(blocks[0]);
  give(blocks[1]);
  if (cudaDeviceSynchronize() != cudaSuccess)
    printf("not synchronized\n");
}

/* Calls that come to the runtime for `ROUNDS` warm pairs. */
static unsigned long long entries_of_pairs(size_t bytes)
{
  unsigned long long entries = 0;

  warm(bytes);
  for (int i = 0; i < ROUNDS; i++) {
    unsigned long long before = __cudaSimEntries();
    give(take(bytes));
    entries += __cudaSimEntries() - before;
    if (cudaDeviceSynchronize() != cudaSuccess)
      printf("not synchronized\n");
  }
  return entries;
}

static void show_pairs(size_t bytes)
{
  fprintf(stderr, "entries=%llu of %d\n", entries_of_pairs(bytes), 2 * ROUNDS);
}

#ifdef RUNTIME_PLUGIN
/* A plug-in's runtime keeps its own last error: a call that fails shows whose it was. */
int plugin_main(void);
int plugin_main(void)
{
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);
  printf("runtime %d\n", version / 1000);
  show_pairs(BYTES);
  tell("nowhere", cudaMalloc(NULL, BYTES));
  tell("cleared", cudaGetLastError());
  tell("no block", cudaFree((void *)(uintptr_t)4096));
  tell("a pair does not clear it", cudaSuccess);
  give(take(BYTES));
  tell("so", cudaSuccess);
  (void)cudaGetLastError();
  return 0;
}

#else
static CUresult (*get_attribute)(void *data, CUpointer_attribute attribute, CUdeviceptr pointer);
static CUresult (*create_context)(CUcontext *context, unsigned flags, CUdevice device);
static CUresult (*destroy_context)(CUcontext context);
static CUresult (*push_context)(CUcontext context);
static CUresult (*pop_context)(CUcontext *context);
static CUresult (*set_context)(CUcontext context);
static CUresult (*get_context)(CUcontext *context);

static void find_driver(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  get_attribute =
      (CUresult(*)(void *, CUpointer_attribute, CUdeviceptr))dlsym(driver, "cuPointerGetAttribute");
  create_context = (CUresult(*)(CUcontext *, unsigned, CUdevice))dlsym(driver, "cuCtxCreate_v2");
  destroy_context = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxDestroy_v2");
  push_context = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxPushCurrent_v2");
  pop_context = (CUresult(*)(CUcontext *))dlsym(driver, "cuCtxPopCurrent_v2");
  set_context = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
  get_context = (CUresult(*)(CUcontext *))dlsym(driver, "cuCtxGetCurrent");
}

static CUcontext context_of(const void *block)
{
  CUcontext context = NULL;
  (void)get_attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)(uintptr_t)block);
  return context;
}

static int device_of(const void *block)
{
  int device = -1;
  (void)get_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)block);
  return device;
}

static void pairs(void)
{
  show_pairs(BYTES);
}

static void large_pairs(void)
{
  show_pairs(LARGE);
}

/* The block's device is the one that was chosen last, whatever was served before. */
static void devices(void)
{
  for (int device = 0; device < 2; device++) {
    (void)cudaSetDevice(device);
    warm(BYTES);
  }
  for (int i = 0; i < 6; i++) {
    int device = i % 2;
    (void)cudaSetDevice(device);
    void *block = take(BYTES), *second = take(BYTES);
    printf("device %d: %d %d\n", device, device_of(block), device_of(second));
    (void)cudaSetDevice(1 - device);
    give(block); /* from elsewhere */
    void *third = take(BYTES);
    printf("device %d: %d\n", 1 - device, device_of(third));
    give(third);
    give(second);
    for (int k = 0; k < 2; k++) {
      (void)cudaSetDevice(k);
      (void)cudaDeviceSynchronize();
    }
  }
}

static void contexts(void)
{
  CUcontext primary = NULL, own = NULL, popped = NULL;

  warm(BYTES);
  (void)get_context(&primary);
  (void)create_context(&own, 0, 0); /* and current */
  warm(BYTES);
  for (int i = 0; i < 4; i++) {
    void *block = take(BYTES), *second = take(BYTES);
    printf("in its own: %d %d\n", context_of(block) == own, context_of(second) == own);
    (void)pop_context(&popped);
    void *third = take(BYTES), *fourth = take(BYTES);
    printf("in the primary one: %d %d\n", context_of(third) == primary, context_of(fourth) == primary);
    give(block);
    give(third);
    give(fourth);
    (void)cudaDeviceSynchronize();
    (void)push_context(own);
    give(second);
    (void)cudaDeviceSynchronize();
  }
  void *left = take(BYTES);
  (void)destroy_context(own); /* and popped */
  tell("its memory is gone", cudaFree(left));
  (void)cudaGetLastError();
  void *block = take(BYTES);
  printf("in the primary one: %d\n", context_of(block) == primary);
  (void)set_context(NULL);
  void *nowhere = NULL;
  tell("without a context", cudaMalloc(&nowhere, BYTES));
  tell("freed without a context", cudaFree(block));
  (void)set_context(primary);
}

/* A free of memory that was taken while a context was current. */
static void nowhere(void)
{
  warm(BYTES);
  void *block = take(BYTES);
  (void)set_context(NULL);
  unsigned long long before = __cudaSimEntries();
  give(block);
  fprintf(stderr, "entries=%llu of %d\n", __cudaSimEntries() - before, 2 * ROUNDS);
}

static void errors(void)
{
  void *block = take(BYTES), *host = NULL, *unset = (void *)(uintptr_t)7;

  warm(BYTES);
  tell("nowhere", cudaMalloc(NULL, BYTES));
  give(take(BYTES));
  tell("after a pair", cudaSuccess);
  tell("cleared", cudaGetLastError());
  tell("nothing", cudaMalloc(&unset, 0));
  printf("%d\n", unset == NULL);
  unset = (void *)(uintptr_t)7;
  tell("too much", cudaMalloc(&unset, (size_t)1 << 60));
  printf("%d\n", unset == (void *)(uintptr_t)7);
  tell("cleared", cudaGetLastError());
  tell("freed nothing", cudaFree(NULL));
  tell("freed", cudaFree(block));
  tell("freed again", cudaFree(block));
  tell("cleared", cudaGetLastError());
  tell("freed what is none", cudaFree((void *)(uintptr_t)4096));
  tell("cleared", cudaGetLastError());
  block = take(BYTES);
  tell("freed in the middle", cudaFree((char *)block + 256));
  tell("cleared", cudaGetLastError());
  give(block);
  (void)cudaMallocHost(&host, BYTES);
  tell("freed host memory", cudaFree(host));
  tell("cleared", cudaGetLastError());
  (void)cudaFreeHost(host);
  (void)cudaMallocManaged(&host, BYTES, cudaMemAttachGlobal);
  tell("freed managed memory", cudaFree(host));
  (void)cudaMallocAsync(&host, BYTES, 0);
  (void)cudaDeviceSynchronize();
  tell("freed memory of a stream", cudaFree(host));
}

static void *work_of_thread(void *unused)
{
  int device = -1;
  void *block = take(BYTES);
  (void)cudaGetDevice(&device);
  printf("a thread: device %d of %d\n", device_of(block), device);
  give(block);
  (void)cudaSetDevice(1);
  for (int i = 0; i < 3; i++) {
    block = take(BYTES);
    printf("a thread: device %d\n", device_of(block));
    give(block);
    (void)cudaDeviceSynchronize();
  }
  return unused;
}

static void threads(void)
{
  pthread_t thread;

  warm(BYTES);
  (void)cudaSetDevice(1);
  warm(BYTES);
  for (int i = 0; i < 2; i++) {
    if (pthread_create(&thread, NULL, work_of_thread, NULL) == 0)
      pthread_join(thread, NULL);
    void *block = take(BYTES);
    printf("device %d\n", device_of(block));
    give(block);
  }
}

/* Its context comes from the driver, before it calls the runtime, which then takes the device from it. */
static void *adopt(void *context)
{
  int device = -1;
  (void)set_context(context);
  void *block = take(BYTES);
  (void)cudaGetDevice(&device);
  printf("a thread: device %d of %d\n", device_of(block), device);
  give(block);
  return NULL;
}

static void adopted(void)
{
  CUcontext context = NULL;
  pthread_t thread;

  (void)cudaSetDevice(1);
  warm(BYTES);
  (void)get_context(&context);
  (void)cudaSetDevice(0);
  (void)cudaDeviceSynchronize(); /* its work, too, is done */
  if (pthread_create(&thread, NULL, adopt, context) == 0)
    pthread_join(thread, NULL);
}

static void reset(void)
{
  warm(BYTES);
  void *block = take(BYTES);
  (void)cudaDeviceReset();
  tell("its memory is gone", cudaFree(block));
  (void)cudaGetLastError();
  warm(BYTES);
  block = take(BYTES);
  printf("device %d\n", device_of(block));
  tell("freed", cudaFree(block));
}

/* A capture that prohibits cudaMalloc to its thread, which spoils it. */
static void capture(void)
{
  cudaStream_t stream;
  cudaGraph_t graph = NULL;
  void *unset = (void *)(uintptr_t)7;

  warm(BYTES);
  void *block = take(BYTES);
  (void)cudaStreamCreate(&stream);
  (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  tell("allocated beside a capture", cudaMalloc(&unset, BYTES));
  tell("cleared", cudaGetLastError());
  tell("freed beside it", cudaFree(block));
  tell("cleared", cudaGetLastError());
  tell("ended", cudaStreamEndCapture(stream, &graph));
  (void)cudaGetLastError();
  (void)cudaStreamDestroy(stream);
  give(take(BYTES));
  tell("afterwards", cudaSuccess);
}

static void *early, *late;

static void early_end(void)
{
  void *block = NULL;
  if (!early)
    return;
  printf("at the end: free %d, allocate %d\n", (int)cudaFree(early), (int)cudaMalloc(&block, BYTES));
  fflush(stdout);
}

static void late_end(void)
{
  printf("at the begin of the end: free %d\n", (int)cudaFree(late));
}

/* The runtime's own end lies between the two handlers. */
static void ends(void)
{
  warm(BYTES);
  early = take(BYTES);
  late = take(BYTES);
  give(take(BYTES));
  (void)atexit(late_end);
}

static void child(void)
{
  void *block = take(BYTES), *unset = NULL;
  int status = 0;

  warm(BYTES);
  give(take(BYTES));
  (void)cudaDeviceSynchronize();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    printf("child: %d %d\n", (int)cudaMalloc(&unset, BYTES), (int)cudaFree(block));
    fflush(stdout);
    _exit(0);
  }
  (void)waitpid(pid, &status, 0);
  tell("parent", cudaFree(block));
}

/* Look-ups give the runtime's own functions, however they are made. */
static void lookups(void)
{
  Dl_info info;
  void *program = dlopen(NULL, RTLD_NOW);
  const char *names[] = {"cudaMalloc", "cudaFree", "cudaMemcpy"};

  for (int i = 0; i < 3; i++) {
    void *found[] = {dlsym(RTLD_DEFAULT, names[i]), dlsym(program, names[i])};
    for (int k = 0; k < 2; k++) {
      const char *slash = dladdr(found[k], &info) != 0 ? strrchr(info.dli_fname, '/') : NULL;
      printf("%s: %.12s\n", names[i], slash ? slash + 1 : "nowhere");
    }
  }
  void *(*next)(void) = dlsym(RTLD_NEXT, "cudaMalloc");
  void *block = NULL;
  printf("next: %d\n", next ? ((int (*)(void **, size_t))(uintptr_t)next)(&block, BYTES) : -1);
  give(block);
  printf("error: %d\n", dlerror() != NULL);
}

/* A library that comes later, by its path. */
static void tool_comes(void)
{
  show_pairs(BYTES);
  if (!dlopen(getenv("RUNTIME_PATH_TOOL"), RTLD_NOW))
    printf("%s\n", dlerror());
  void *large = take(LARGE * 8); /* from the driver */
  show_pairs(BYTES);
  give(large);
}

/* The same, and the program begins to use it; no call but those that are counted follows. */
static void tool_asks(void)
{
  show_pairs(BYTES);
  void *tool = dlopen(getenv("RUNTIME_PATH_TOOL"), RTLD_NOW);
  int (*ask)(void) = tool ? (int (*)(void))dlsym(tool, "tool_main") : NULL;
  int (*subscribe)(void **, void (*)(void), void *) =
      tool ? (int (*)(void **, void (*)(void), void *))dlsym(tool, "cuptiSubscribe") : NULL;
  void *subscriber;
  if (ask)
    (void)ask();
  else if (subscribe)
    (void)subscribe(&subscriber, pairs, NULL);
  else
    printf("%s\n", dlerror());
  show_pairs(BYTES);
}

/* A plug-in that is linked to another runtime than the program. */
static void plugin(void)
{
  show_pairs(BYTES);
  void *object = dlopen(getenv("RUNTIME_PATH_TOOL"), RTLD_NOW | RTLD_LOCAL);
  int (*run)(void) = object ? (int (*)(void))dlsym(object, "plugin_main") : NULL;
  if (run)
    (void)run();
  show_pairs(BYTES);
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*run)(void);
  } parts[] = {{"pairs", pairs}, {"large_pairs", large_pairs}, {"devices", devices}, {"contexts", contexts},
      {"nowhere", nowhere}, {"errors", errors}, {"threads", threads}, {"reset", reset}, {"capture", capture},
      {"ends", ends}, {"child", child}, {"lookups", lookups}, {"tool_comes", tool_comes},
      {"tool_asks", tool_asks}, {"adopted", adopted}, {"plugin", plugin}};

  setvbuf(stdout, NULL, _IOLBF, 0);
  (void)atexit(early_end);
  if (cudaFree(NULL) != cudaSuccess)
    return 1;
  find_driver();
  for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++)
    if (strcmp(argv[1], parts[i].name) == 0) {
      parts[i].run();
      return 0;
    }
  fprintf(stderr, "usage: runtime_path WHAT\n");
  return 2;
}
#endif
