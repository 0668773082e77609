// G8: how the driver lays out cudaMalloc memory: alignment, what an address range query says, what a block
// takes from the device, and whether small blocks share a larger one.
#include "../common/gpu.h"

static std::string size_name(size_t bytes)
{
  return std::to_string(bytes) + " B";
}

static size_t available()
{
  size_t bytes, total;
  CHECK(cudaMemGetInfo(&bytes, &total));
  return bytes;
}

static void ask_size(size_t bytes)
{
  enum { COUNT = 8 };
  void *p[COUNT];
  size_t before = available(), most = 0, least_range = SIZE_MAX, largest_range = 0;
  uintptr_t bits = 0;
  bool at_base = true;
  for (int i = 0; i < COUNT; i++) {
    CUdeviceptr base;
    size_t range;
    CHECK(cudaMalloc(&p[i], bytes));
    CHECK_CU(DRIVER(cuMemGetAddressRange)(&base, &range, (CUdeviceptr)p[i]));
    bits |= (uintptr_t)p[i];
    at_base = at_base && base == (CUdeviceptr)p[i];
    least_range = std::min(least_range, range);
    largest_range = std::max(largest_range, range);
  }
  most = before - std::min(before, available());
  std::string of = "cudaMalloc of " + size_name(bytes) + ": ";
  report_number(of + "alignment of 8 blocks", (double)(bits & -bits), "B");
  report_number(of + "taken from the device by 8 blocks", (double)most, "B");
  report_number(of + "address range", (double)largest_range, "B");
  report_assumed(of + "is the base of its address range", at_base, true, "IPC handles are of the base");
  report_assumed(of + "address range is what was asked for", least_range == bytes && largest_range == bytes,
      true, "the pool answers with the rounded size");
  for (int i = 0; i < COUNT; i++)
    CHECK(cudaFree(p[i]));
}

// Blocks of one page size, until the device's free memory changes for the second time: what lies between is
// one driver block.
static void ask_sharing(size_t bytes)
{
  std::vector<void *> blocks;
  size_t last = available(), first_drop = 0, drops = 0, step = 0;
  while (drops < 2 && blocks.size() < 20000) {
    void *p;
    CHECK(cudaMalloc(&p, bytes));
    blocks.push_back(p);
    size_t now = available();
    if (now >= last)
      continue;
    step = last - now;
    last = now;
    if (++drops == 1)
      first_drop = blocks.size();
  }
  if (drops == 2) {
    report_number("blocks of " + size_name(bytes) + " that share a driver block",
        (double)(blocks.size() - first_drop), "");
    report_number("that driver block", (double)step, "B");
  }
  for (void *p : blocks)
    CHECK(cudaFree(p));
}

static void ask_pitch()
{
  for (size_t width : {size_t(1), size_t(513), size_t(4097)}) {
    void *p;
    size_t pitch;
    CHECK(cudaMallocPitch(&p, &pitch, width, 16));
    report_number("cudaMallocPitch of rows of " + size_name(width) + ": pitch", (double)pitch, "B");
    CHECK(cudaFree(p));
  }
}

int main()
{
  start("layout", 30);
  for (size_t bytes : {size_t(1), size_t(512), size_t(513), size_t(4096), size_t(65536), size_t(1u << 20),
           size_t((1u << 20) + 1), size_t(2u << 20), size_t((2u << 20) + 1), size_t(33u << 20)})
    ask_size(bytes);
  ask_sharing(512);
  ask_sharing(65536);
  ask_pitch();
  return report_finish();
}
