/*
 * One process exports memory, another opens it, writes there, and frees it by the wrong function. The
 * exporter then frees the memory and asks for as much again.
 */
#include "sharing.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  CUipcMemHandle memory;
  CUipcEventHandle event;
} handles_t;

static int import(int from)
{
  handles_t handles;
  CUdeviceptr opened, own;
  CUevent event;

  if (read(from, &handles, sizeof(handles)) != (ssize_t)sizeof(handles))
    return 1;
  start_driver();
  CALL(cuIpcOpenEventHandle(&event, handles.event));
  CALL(cuIpcOpenMemHandle(&opened, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CALL(cuStreamWaitEvent(NULL, event, 0));
  say_last_byte("the other process", opened);
  CALL(cuMemsetD8(opened, 2, BYTES));
  CALL(cuCtxSynchronize());
  SAY(cuMemFree(opened));
  CALL(cuMemAlloc(&own, BYTES));
  printf("its own memory is another: %d\n", own != opened);
  CALL(cuMemFree(own));
  SAY(cuIpcCloseMemHandle(opened));
  SAY(cuIpcCloseMemHandle(opened));
  CALL(cuEventDestroy(event));
  return 0;
}

int main(void)
{
  handles_t handles;
  CUdeviceptr memory;
  CUevent event;
  int pipes[2], status;

  if (pipe(pipes) != 0)
    return 1;
  pid_t other = fork(); /* before CUDA is used */
  if (other == 0)
    return import(pipes[0]);
  start_driver();
  CALL(cuMemAlloc(&memory, BYTES));
  CALL(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CALL(cuMemsetD8Async(memory, 1, BYTES, NULL));
  CALL(cuEventRecord(event, NULL));
  CALL(cuIpcGetMemHandle(&handles.memory, memory));
  CALL(cuIpcGetEventHandle(&handles.event, event));
  if (write(pipes[1], &handles, sizeof(handles)) != (ssize_t)sizeof(handles) ||
      waitpid(other, &status, 0) != other || status != 0)
    return 1;
  say_last_byte("the exporter", memory);
  CALL(cuEventDestroy(event));
  CALL(cuMemFree(memory));
  CALL(cuCtxSynchronize());
  CALL(cuMemAlloc(&memory, BYTES));
  CALL(cuMemFree(memory));
  return 0;
}
