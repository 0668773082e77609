/*
 * Allocates inside NVTX ranges of every kind; a case each:
 *
 *   nvtx push     nested ranges of a thread, plain and wide text, a range that begins before the first use of
 * the GPU nvtx start    ranges of the process, of two threads nvtx domain   ranges of a domain, by registered
 * strings nvtx marks    moments nvtx levels   prints what push, pop and start return nvtx fork     a range in
 * a child, too
 */
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/nvtx/nvtx_abi.h"

#define SAME(theirs, ours)                                                                                   \
  _Static_assert(offsetof(nvtxEventAttributes_t, theirs) == offsetof(gp_nvtx_attributes_t, ours), #theirs)

_Static_assert(sizeof(nvtxEventAttributes_t) == sizeof(gp_nvtx_attributes_t), "the size of an event");
SAME(size, size);
SAME(messageType, message_type);
SAME(message, message);
_Static_assert((int)NVTX_MESSAGE_TYPE_ASCII == GP_NVTX_ASCII &&
                   (int)NVTX_MESSAGE_TYPE_UNICODE == GP_NVTX_UNICODE &&
                   (int)NVTX_MESSAGE_TYPE_REGISTERED == GP_NVTX_REGISTERED,
    "the types of texts");
_Static_assert(sizeof(NvtxExportTableCallbacks) == sizeof(gp_nvtx_callbacks_t), "the table of callbacks");
#define NVTX(module, number, name, result, parameters)                                                       \
  _Static_assert(                                                                                            \
      NVTX_CBID_##module##_##name == (number) && (int)NVTX_CB_MODULE_##module == GP_NVTX_##module, #name);
#include "interpose/nvtx/functions.def"

static void allocate(size_t mib)
{
  void *memory;
  if (cudaMalloc(&memory, mib << 20) != cudaSuccess)
    exit(1);
}

static nvtxEventAttributes_t event_of(nvtxMessageType_t type, nvtxMessageValue_t message)
{
  nvtxEventAttributes_t event;
  memset(&event, 0, sizeof(event));
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = type;
  event.message = message;
  return event;
}

static int push(void)
{
  nvtxRangePushA("load");
  allocate(1);
  nvtxRangePushW(L"M\u00fcll \u4e2d \U0001f600");
  allocate(2);
  nvtxEventAttributes_t event = event_of(NVTX_MESSAGE_TYPE_ASCII, (nvtxMessageValue_t){.ascii = "layer"});
  nvtxRangePushEx(&event);
  allocate(3);
  nvtxRangePop();
  nvtxRangePop();
  allocate(4);
  nvtxRangePop();
  allocate(5);
  return 0;
}

static void *other_thread(void *arg)
{
  nvtxRangePushA("worker");
  allocate(2);
  nvtxRangePop();
  allocate(3);
  return arg;
}

static int start(void)
{
  pthread_t thread;
  nvtxRangeId_t epoch = nvtxRangeStartA("epoch");
  allocate(1);
  pthread_create(&thread, NULL, other_thread, NULL);
  pthread_join(thread, NULL);
  nvtxRangeId_t step = nvtxRangeStartW(L"step");
  nvtxRangeEnd(epoch); /* they need not be nested */
  allocate(4);
  nvtxRangeEnd(step);
  allocate(5);
  return 0;
}

static int domain(void)
{
  nvtxDomainHandle_t domain = nvtxDomainCreateA("Solver");
  nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "iterate");
  nvtxEventAttributes_t event =
      event_of(NVTX_MESSAGE_TYPE_REGISTERED, (nvtxMessageValue_t){.registered = text});
  nvtxDomainRangePushEx(domain, &event);
  allocate(1);
  nvtxDomainRangePop(domain);
  event = event_of(NVTX_MESSAGE_TYPE_UNICODE, (nvtxMessageValue_t){.unicode = L"check"});
  nvtxRangeId_t range = nvtxDomainRangeStartEx(domain, &event);
  allocate(2);
  nvtxDomainRangeEnd(domain, range);
  nvtxDomainDestroy(domain);
  return 0;
}

static int marks(void)
{
  allocate(1);
  nvtxMarkA("half");
  nvtxMarkW(L"nearly");
  nvtxEventAttributes_t event = event_of(NVTX_MESSAGE_TYPE_ASCII, (nvtxMessageValue_t){.ascii = "done"});
  nvtxMarkEx(&event);
  allocate(2);
  return 0;
}

static int levels(void)
{
  allocate(1);
  int outer = nvtxRangePushA("outer"), inner = nvtxRangePushA("inner");
  printf("push %d %d\n", outer, inner);
  nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxRangeStartA("second");
  printf("start %s\n", first != second && first && second ? "two numbers" : "none");
  nvtxRangeEnd(first);
  nvtxRangeEnd(second);
  outer = nvtxRangePop();
  inner = nvtxRangePop();
  int none = nvtxRangePop();
  printf("pop %d %d, then %s\n", outer, inner, none < 0 ? "none" : "one");
  return 0;
}

static int forked(void)
{
  nvtxRangePushA("parent");
  allocate(1);
  int status;
  pid_t child = fork();
  if (child == 0) {
    nvtxRangePushA("child");
    nvtxRangePop();
    _exit(0);
  }
  if (waitpid(child, &status, 0) != child || status)
    return 1;
  nvtxRangePop();
  return 0;
}

static const struct {
  const char *name;
  int (*run)(void);
} cases[] = {{"push", push}, {"start", start}, {"domain", domain}, {"marks", marks}, {"levels", levels},
    {"fork", forked}};

int main(int argc, char **argv)
{
  for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
    if (strcmp(argv[1], cases[i].name) == 0)
      return cases[i].run();
  }
  (void)fprintf(stderr, "usage: nvtx push|start|domain|marks|levels|fork\n");
  return 2;
}
