// G17 and G18: whether small allocations share a page of 2 MiB and when it is free again, and what the driver says
// about the range of an allocation whose size it rounds.
#include "../common/measure.h"

static const size_t PAGE = 2u << 20;

static size_t available()
{
  size_t bytes, total;
  CHECK(cudaMemGetInfo(&bytes, &total));
  return bytes;
}

static size_t taken_since(size_t before)
{
  size_t now = available();
  return before > now ? before - now : 0;
}

// G17. As many as fill two pages, but 8 to 4,096.
static void share(size_t bytes)
{
  size_t count = std::max<size_t>(8, std::min<size_t>(4096, 2 * PAGE / bytes)), before = available(), same = 0;
  std::vector<CUdeviceptr> blocks(count);
  for (CUdeviceptr &block : blocks)
    CHECK_CU(DRIVER(cuMemAlloc)(&block, bytes));
  size_t taken = taken_since(before);
  for (size_t i = 1; i < count; i++)
    same += blocks[i] / PAGE == blocks[i - 1] / PAGE;
  std::string of = " of " + std::to_string(bytes) + " B";
  report_number("neighbours" + of + " in the same 2 MiB, of each 100", (double)(100 * same / (count - 1)), "");
  report_number("taken from the device, each" + of, (double)taken / (double)count, "B");
  for (size_t i = 1; i < count; i++) // one is left
    CHECK_CU(DRIVER(cuMemFree)(blocks[i]));
  report_number("still taken after all but one were freed," + of, (double)taken_since(before), "B");
  CHECK_CU(DRIVER(cuMemFree)(blocks[0]));
  report_number("still taken after all were freed," + of, (double)taken_since(before), "B");
}

// G18
static void ask_range(size_t bytes)
{
  CUdeviceptr block, base = 0;
  size_t range = 0;
  unsigned long long size = 0;
  CHECK_CU(DRIVER(cuMemAlloc)(&block, bytes));
  CHECK_CU(DRIVER(cuMemGetAddressRange)(&base, &range, block + bytes - 1));
  std::string of = std::to_string(bytes) + " B: ";
  report_number(of + "address range, by its last byte", (double)range, "B");
  report_assumed(of + "the range holds all that was asked for", base <= block && base + range >= block + bytes, true,
      "who registers base and size misses a part");
  bool begins = DRIVER(cuMemGetAddressRange)(&base, &range, block) == CUDA_SUCCESS && base == block;
  report_assumed(of + "the range begins with it", begins, true, "offsets into a segment differ from the driver's");
  CHECK_CU(DRIVER(cuPointerGetAttribute)(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
  report_assumed(of + "CU_POINTER_ATTRIBUTE_RANGE_SIZE is the same", size == range, true, "the two may differ");
  CHECK_CU(DRIVER(cuMemFree)(block));
}

int main()
{
  start("pages", 30);
  for (size_t bytes : {size_t(1), size_t(512), size_t(4096), size_t(65536), size_t(1u << 20), PAGE - 512, PAGE})
    share(bytes);
  for (size_t bytes : {size_t(1), size_t(513), size_t(65537), (size_t)(1u << 20) + 1, PAGE - 1, PAGE + 1, 17 * PAGE / 2 + 1})
    ask_range(bytes);
  return report_finish();
}
