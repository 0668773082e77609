/*
 * Allocates pitched memory by a list of commands, and says what it got:
 *   WIDTHxHEIGHT[/ELEMENT]   cuMemAllocPitch, elements of 4 bytes if none are named. The rows are written and
 * read. 2d:WIDTHxHEIGHT          cudaMallocPitch 3d:WIDTHxHEIGHTxDEPTH    cudaMalloc3D plain:BYTES cuMemAlloc
 *   free                     frees all of it, and waits for the device
 *   device:ORDINAL           goes on with another device
 *   reset                    ends the device's context
 *   capture, end             around a stream capture that allocations do not end
 * Exit status: 0 unless a command is not known, or what was read is not what was written.
 */
#include "calls.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 4096

static CUdeviceptr items[ITEMS];
static int count;
static cudaStream_t stream;

static CUresult copy(
    CUdeviceptr device, size_t pitch, unsigned char *host, size_t width, size_t height, int in)
{
  CUDA_MEMCPY2D shape = {.WidthInBytes = width, .Height = height};

  shape.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  shape.srcHost = host;
  shape.srcDevice = device;
  shape.srcPitch = in ? width : pitch;
  shape.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  shape.dstHost = host;
  shape.dstDevice = device;
  shape.dstPitch = in ? pitch : width;
  return cuMemcpy2D(&shape);
}

static void write_and_read(CUdeviceptr device, size_t pitch, size_t width, size_t height)
{
  unsigned char *host = malloc(width * height);

  if (!host)
    exit(1);
  for (size_t i = 0; i < width * height; i++)
    host[i] = (unsigned char)(i * 7 + (size_t)count);
  must_succeed("cuMemcpy2D to the device", copy(device, pitch, host, width, height, 1));
  memset(host, 0, width * height);
  must_succeed("cuMemcpy2D to the host", copy(device, pitch, host, width, height, 0));
  for (size_t i = 0; i < width * height; i++)
    must_succeed("what was read", host[i] != (unsigned char)(i * 7 + (size_t)count));
  free(host);
}

static void hold(const char *command, int code, CUdeviceptr device, size_t pitch, size_t width, size_t height)
{
  printf("%s: %d, pitch %zu\n", command, code, pitch);
  if (code != 0)
    return;
  if (!stream)
    write_and_read(device, pitch, width, height);
  if (count == ITEMS)
    exit(1);
  items[count++] = device;
}

static void free_all(void)
{
  while (count > 0)
    CALL(cudaFree((void *)(uintptr_t)items[--count]));
  CALL(cudaDeviceSynchronize());
}

static int allocate(const char *command)
{
  size_t width, height, depth, pitch = 7;
  unsigned element = 4;
  CUdeviceptr device = 0;
  void *memory = NULL;
  struct cudaPitchedPtr volume = {.pitch = 7};

  if (sscanf(command, "plain:%zu", &width) == 1) {
    int code = (int)cuMemAlloc(&device, width);
    hold(command, code, device, width, width, 1);
  } else if (sscanf(command, "2d:%zux%zu", &width, &height) == 2) {
    int code = (int)cudaMallocPitch(&memory, &pitch, width, height);
    hold(command, code, (CUdeviceptr)(uintptr_t)memory, pitch, width, height);
  } else if (sscanf(command, "3d:%zux%zux%zu", &width, &height, &depth) == 3) {
    int code = (int)cudaMalloc3D(&volume, make_cudaExtent(width, height, depth));
    hold(command, code, (CUdeviceptr)(uintptr_t)volume.ptr, volume.pitch, width, height * depth);
  } else if (sscanf(command, "%zux%zu/%u", &width, &height, &element) >= 2) {
    int code = (int)cuMemAllocPitch(&device, &pitch, width, height, element);
    hold(command, code, device, pitch, width, height);
  } else {
    return 0;
  }
  return 1;
}

static void begin_capture(void)
{
  CALL(cudaStreamCreate(&stream));
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
}

static void end_capture(void)
{
  cudaGraph_t graph;

  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaStreamDestroy(stream));
  stream = NULL;
}

int main(int argc, char **argv)
{
  CALL(cudaFree(NULL)); /* makes the context */
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "free") == 0) {
      free_all();
    } else if (strcmp(argv[i], "reset") == 0) {
      count = 0;
      CALL(cudaDeviceReset());
      CALL(cudaFree(NULL));
    } else if (strncmp(argv[i], "device:", 7) == 0) {
      CALL(cudaSetDevice(atoi(argv[i] + 7)));
      CALL(cudaFree(NULL));
    } else if (strcmp(argv[i], "capture") == 0) {
      begin_capture();
    } else if (strcmp(argv[i], "end") == 0) {
      end_capture();
    } else if (!allocate(argv[i])) {
      printf("pitched: %s is no command\n", argv[i]);
      return 1;
    }
  }
  return 0;
}
