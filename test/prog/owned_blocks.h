/*
 * Blocks of one size whose owner the simulated GPU's oracle knows (test/sim/oracle.h), for programs that
 * count how often memory came back and whether it came too early. Without that oracle the blocks are as good,
 * and nothing is counted.
 */
#pragma once

#include "calls.h"

#include <dlfcn.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES 4096u

/* Of the simulated driver; NULL elsewhere. */
static void (*own)(uint64_t address, uint64_t bytes, uint64_t owner);
static void (*disown)(uint64_t address);
static void find_oracle(void)
{
  *(void **)&own = dlsym(RTLD_DEFAULT, "simcuda_own");
  *(void **)&disown = dlsym(RTLD_DEFAULT, "simcuda_disown");
}

static CUdeviceptr take(uint64_t owner)
{
  CUdeviceptr block = 0;
  CALL(cuMemAlloc_v2(&block, BYTES));
  if (own)
    own(block, BYTES, owner);
  return block;
}

static void give(CUdeviceptr block)
{
  if (disown)
    disown(block);
  CALL(cuMemFree_v2(block));
}

/* How often memory was reused too early. 0 without the oracle. */
static int early_reuses(void)
{
  struct {
    uint64_t owned, reuses, pending_reuses, accesses, early_reuse, strays, early_accesses, late_accesses,
        violations, corrupt_stamps;
  } counts = {0};
  void (*read_counts)(void *);

  *(void **)&read_counts = dlsym(RTLD_DEFAULT, "simcuda_counts");
  if (read_counts)
    read_counts(&counts);
  return (int)counts.early_reuse;
}
