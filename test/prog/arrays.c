/*
 * Makes arrays, one after the other:
 *   arrays FORMAT,CHANNELS,WIDTH,HEIGHT,DEPTH,FLAGS,LEVELS ...
 * Numbers as in cuda.h; LEVELS is "-" for an array that has none. Prints for each the result, and by how many
 * bytes less is free.
 */
#include "calls.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t available(void)
{
  size_t left, total;
  CALL(cuMemGetInfo(&left, &total));
  return left;
}

static void make(const char *text)
{
  unsigned numbers[6], levels = 0;
  char has_levels[8];
  size_t before = available();
  CUresult result;

  if (sscanf(text, "%u,%u,%u,%u,%u,%u,%7[-0-9]", &numbers[0], &numbers[1], &numbers[2], &numbers[3],
          &numbers[4], &numbers[5], has_levels) != 7) {
    fprintf(stderr, "arrays: %s is not FORMAT,CHANNELS,WIDTH,HEIGHT,DEPTH,FLAGS,LEVELS\n", text);
    exit(2);
  }
  CUDA_ARRAY3D_DESCRIPTOR shape = {.Format = (CUarray_format)numbers[0],
      .NumChannels = numbers[1],
      .Width = numbers[2],
      .Height = numbers[3],
      .Depth = numbers[4],
      .Flags = numbers[5]};
  if (strcmp(has_levels, "-") == 0) {
    CUarray array;
    result = cuArray3DCreate(&array, &shape);
  } else {
    CUmipmappedArray array;
    levels = (unsigned)atoi(has_levels);
    result = cuMipmappedArrayCreate(&array, &shape, levels);
  }
  printf("%s: %d, %zu bytes\n", text, (int)result, before - available());
}

int main(int argc, char **argv)
{
  CUdevice device;
  CUcontext context;
  CALL(cuInit(0));
  CALL(cuDeviceGet(&device, 0));
  CALL(cuDevicePrimaryCtxRetain(&context, device));
  CALL(cuCtxSetCurrent(context));
  for (int i = 1; i < argc; i++)
    make(argv[i]);
  return 0;
}
