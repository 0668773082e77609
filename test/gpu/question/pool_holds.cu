// G26: how much more the driver's own pool holds than it has handed out, while blocks of many sizes replace each other in one
// stream, and what it takes to make that less. Under a limit the library asks for this figure, and counts it.
#include "../common/gpu.h"

#include <random>
#include <utility>
#include <vector>

static CUmemoryPool pool;
static CUstream stream;
static const size_t MOST = 768u << 20; // bytes in use

static double attribute(CUmemPool_attribute which)
{
  cuuint64_t value = 0;
  CHECK_CU(DRIVER(cuMemPoolGetAttribute)(pool, which, &value));
  return (double)value;
}

typedef std::pair<CUdeviceptr, size_t> Block;

static Block take(std::mt19937_64 &random)
{
  size_t bytes = (4096u << random() % 12) + random() % 16 * 512; // 4 KiB to 8 MiB
  Block block(0, bytes);
  CHECK_CU(DRIVER(cuMemAllocAsync)(&block.first, bytes, stream));
  return block;
}

// in_order: freed by cuMemFreeAsync, else by cuMemFree. every: replacements between synchronizations; 0: none.
static void replace(const std::string &how, bool in_order, int every)
{
  std::mt19937_64 random(1);
  std::vector<Block> blocks;
  size_t used = 0;
  auto give = [&](Block block) {
    used -= block.second;
    CHECK_CU(in_order ? DRIVER(cuMemFreeAsync)(block.first, stream) : DRIVER(cuMemFree)(block.first));
  };
  double worst = 0;
  for (int i = 0; i < 6000; i++) {
    blocks.push_back(take(random));
    used += blocks.back().second;
    while (used > MOST) {
      size_t at = random() % blocks.size();
      std::swap(blocks[at], blocks.back());
      give(blocks.back());
      blocks.pop_back();
    }
    if (every && i % every == 0)
      CHECK_CU(DRIVER(cuStreamSynchronize)(stream));
    worst = std::max(worst, attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / std::max<double>((double)used, MOST / 2));
  }
  report_number(how + ": held over in use, at most", worst, "");
  report_number(how + ": held over in use, in the end", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)used, "");
  CHECK_CU(DRIVER(cuStreamSynchronize)(stream));
  CHECK_CU(DRIVER(cuMemPoolTrimTo)(pool, 0));
  report_number(how + ": the same once it was trimmed", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / (double)used, "");
  for (Block block : blocks)
    give(block);
  CHECK_CU(DRIVER(cuStreamSynchronize)(stream));
  report_number(how + ": held when all is free", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), "B");
  CHECK_CU(DRIVER(cuMemPoolTrimTo)(pool, 0));
}

int main()
{
  start("pool_holds", 60);
  CUdevice device;
  CHECK_CU(DRIVER(cuCtxGetDevice)(&device));
  CHECK_CU(DRIVER(cuDeviceGetMemPool)(&pool, device));
  CHECK_CU(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  replace("freed in order, no synchronization", true, 0);
  replace("freed in order, synchronized every 64", true, 64);
  replace("freed by cuMemFree, synchronized every 64", false, 64);
  CHECK_CU(DRIVER(cuStreamDestroy)(stream));
  return report_finish();
}
