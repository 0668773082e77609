/*
 * Memsets, and values written and awaited in streams.
 */
#include "sim.h"

/* A memset is asynchronous, "except when the target is pinned host memory or a Unified Memory region, in
 * which case" the synchronous form waits (driver API reference, API synchronization behavior). */
static CUresult fill(sim_call_t *call, CUdeviceptr dst, uint64_t pitch, unsigned unit, uint64_t value,
    size_t width, size_t height, CUstream handle, bool async)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  const sim_block_t *block = sim_arena_find(dst);
  if (!block || dst % unit || width > SIZE_MAX / unit)
    return CUDA_ERROR_INVALID_VALUE;
  bool wait = !async && !sim_memory_is_plain(block);
  sim_op_t *op = sim_op_new(SIM_OP_FILL);
  op->width = width * unit;
  op->height = height;
  op->depth = 1;
  op->dst = (sim_span_t){.address = dst, .pitch = pitch ? pitch : op->width};
  op->unit = unit;
  op->value = value;
  if (op->width == 0 || height == 0) {
    sim_op_delete(op);
    return CUDA_SUCCESS;
  }
  if (height > 1 && pitch < op->width) {
    sim_op_delete(op);
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result;
  if (sim_capture_take(stream, op, &result))
    return result;
  result = sim_op_prepare(op);
  if (result != CUDA_SUCCESS) {
    sim_op_delete(op);
    return result;
  }
  sim_sched_submit(stream, op);
  if (wait)
    sim_sched_wait(sim_dep_now(stream));
  return CUDA_SUCCESS;
}

#define MEMSET_1D(name, twin, type, bits)                                                                    \
  SIM_FN2(name, twin, (CUdeviceptr dst, type value, size_t n),                                               \
      fill(&call, dst, 0, bits / 8, value, n, 1, NULL, false), "%s %x %zu", sim_str_ptr(dst),                \
      (unsigned)value, n)
#define MEMSET_1D_ASYNC(name, twin, type, bits)                                                              \
  SIM_FN2(name, twin, (CUdeviceptr dst, type value, size_t n, CUstream stream),                              \
      fill(&call, dst, 0, bits / 8, value, n, 1, stream, true), "%s %x %zu %s", sim_str_ptr(dst),            \
      (unsigned)value, n, sim_str_stream(stream))
#define MEMSET_2D(name, twin, type, bits)                                                                    \
  SIM_FN2(name, twin, (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height),              \
      fill(&call, dst, pitch, bits / 8, value, width, height, NULL, false), "%s %zu %x %zu %zu",             \
      sim_str_ptr(dst), pitch, (unsigned)value, width, height)
#define MEMSET_2D_ASYNC(name, twin, type, bits)                                                              \
  SIM_FN2(name, twin,                                                                                        \
      (CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, CUstream stream),             \
      fill(&call, dst, pitch, bits / 8, value, width, height, stream, true), "%s %zu %x %zu %zu %s",         \
      sim_str_ptr(dst), pitch, (unsigned)value, width, height, sim_str_stream(stream))

MEMSET_1D(cuMemsetD8_v2, cuMemsetD8_v2_ptds, unsigned char, 8)
MEMSET_1D(cuMemsetD16_v2, cuMemsetD16_v2_ptds, unsigned short, 16)
MEMSET_1D(cuMemsetD32_v2, cuMemsetD32_v2_ptds, unsigned int, 32)
MEMSET_1D_ASYNC(cuMemsetD8Async, cuMemsetD8Async_ptsz, unsigned char, 8)
MEMSET_1D_ASYNC(cuMemsetD16Async, cuMemsetD16Async_ptsz, unsigned short, 16)
MEMSET_1D_ASYNC(cuMemsetD32Async, cuMemsetD32Async_ptsz, unsigned int, 32)
MEMSET_2D(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, unsigned char, 8)
MEMSET_2D(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, unsigned short, 16)
MEMSET_2D(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, unsigned int, 32)
MEMSET_2D_ASYNC(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, unsigned char, 8)
MEMSET_2D_ASYNC(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, unsigned short, 16)
MEMSET_2D_ASYNC(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, unsigned int, 32)

static CUresult value_op(sim_call_t *call, CUstream handle, sim_op_kind_t kind, CUdeviceptr address,
    uint64_t value, unsigned unit, unsigned flags)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  if (!stream)
    return call->result;
  if (!sim_arena_find(address) || address % unit)
    return CUDA_ERROR_INVALID_VALUE;
  sim_op_t *op = sim_op_new(kind);
  op->dst = op->src = (sim_span_t){.address = address};
  op->width = op->unit = unit;
  op->height = op->depth = 1;
  op->value = value;
  op->flags = flags;
  CUresult result;
  if (sim_capture_take(stream, op, &result))
    return result;
  result = sim_op_prepare(op);
  if (result == CUDA_SUCCESS)
    sim_sched_submit(stream, op);
  else
    sim_op_delete(op);
  return result;
}

#define VALUE(name, twin, type, kind)                                                                        \
  SIM_FN2(name, twin, (CUstream stream, CUdeviceptr address, type value, unsigned int flags),                \
      value_op(&call, stream, kind, address, value, sizeof(type), flags), "%s %s %llx %u",                   \
      sim_str_stream(stream), sim_str_ptr(address), (unsigned long long)value, flags)
VALUE(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuuint32_t, SIM_OP_WRITE_VALUE)
VALUE(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuuint64_t, SIM_OP_WRITE_VALUE)
VALUE(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuuint32_t, SIM_OP_WAIT_VALUE)
VALUE(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuuint64_t, SIM_OP_WAIT_VALUE)
VALUE(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, cuuint32_t, SIM_OP_WRITE_VALUE)
VALUE(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, cuuint64_t, SIM_OP_WRITE_VALUE)
VALUE(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, cuuint32_t, SIM_OP_WAIT_VALUE)
VALUE(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, cuuint64_t, SIM_OP_WAIT_VALUE)
