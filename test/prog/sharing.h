/*
 * What programs of two processes that share memory have in common: BYTES of it.
 */
#ifndef PROG_SHARING_H
#define PROG_SHARING_H

#include "calls.h"

#include <cuda.h>

#define BYTES ((size_t)4 << 20)

static inline void start_driver(void)
{
  CUcontext context;

  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
}

static inline void say_last_byte(const char *who, CUdeviceptr memory)
{
  unsigned char byte = 0;

  CALL(cuMemcpyDtoH(&byte, memory + BYTES - 1, 1));
  printf("%s reads %d\n", who, byte);
}

#endif
