/*
 * Copies. When a call returns before its copy is done, and when not, follows "API synchronization behavior"
 * of the CUDA driver API reference (12 and newer; what it said of unified memory before is gone): host to
 * device, pageable   the bytes are taken at the call; the synchronous form first waits for its stream host to
 * device, pinned     the synchronous form waits for the copy; the asynchronous one reads the source later
 *   device to host             waits, except asynchronously into pinned memory
 *   device to device           never waits; managed memory counts as memory of a device, and so does memory
 * of pools and of cuMemCreate that is located on the host host to host               waits What the addresses
 * are decides, not the name of the function.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_submit(sim_call_t *call, sim_stream_t *stream, sim_op_t *op)
{
  CUresult result;
  if (sim_capture_take(stream, op, &result))
    return result;
  sim_sched_submit(stream, op);
  return CUDA_SUCCESS;
}

static bool is_device(uint64_t address)
{
  const sim_arena_t *arena = sim_arena_of(address);
  if (arena != &sim_host_arena)
    return arena != NULL;
  const sim_block_t *block = sim_arena_find(address);
  return block && block->opened;
}

static bool is_pageable(uint64_t address)
{
  return !sim_arena_find(address);
}

/* Memory of a device and of nothing else: what the documentation says of transfers "from device" is about
 * this. */
static bool is_plain_device(uint64_t address)
{
  const sim_block_t *block = sim_arena_find(address);
  return block && sim_memory_is_plain(block);
}

/* Not the memory of another device that was registered by its bus address. */
static bool is_ordinary_host(uint64_t address)
{
  const sim_block_t *block = sim_arena_find(address);
  return !block || (!is_device(address) &&
                       !(block->kind == SIM_MEM_REGISTERED && block->flags & CU_MEMHOSTREGISTER_IOMEMORY));
}

/* Packs the rows of the source, so that the program may reuse its buffer. */
static bool stage(sim_op_t *op)
{
  unsigned char *to = malloc(op->width * op->height * op->depth);
  if (!to)
    return false;
  op->staged = to;
  for (uint64_t z = 0; z < op->depth; z++) {
    for (uint64_t y = 0; y < op->height; y++, to += op->width)
      memcpy(
          to, (const void *)(uintptr_t)(op->src.address + z * op->src.slice + y * op->src.pitch), op->width);
  }
  op->src.pitch = op->width;
  op->src.slice = op->width * op->height;
  return true;
}

/* Takes the operation. */
static CUresult copy(sim_call_t *call, sim_op_t *op, CUstream handle, bool async)
{
  sim_stream_t *stream = sim_stream_get(call, handle);
  CUresult result = call->result;
  if (!stream)
    goto fail;
  if (op->width == 0 || op->height == 0 || op->depth == 0) {
    sim_op_delete(op);
    return CUDA_SUCCESS;
  }
  if (stream->capture && async)
    return sim_submit(call, stream, op);
  result = sim_capture_refuses(stream);
  if (result != CUDA_SUCCESS)
    goto fail;
  uint64_t source = op->src.address, target = op->dst.address;
  bool to_device = is_device(op->dst.address), from_device = is_device(op->src.address);
  bool pageable_src = is_pageable(op->src.address), pageable_dst = is_pageable(op->dst.address);
  bool wait;
  if (to_device && from_device)
    wait = false;
  else if (to_device)
    wait = !async && !pageable_src;
  else if (from_device)
    wait = !async || pageable_dst;
  else
    wait = !async || pageable_src || pageable_dst;
  if (to_device && pageable_src && !async)
    sim_sched_wait(sim_dep_now(stream));
  if (to_device && pageable_src && !stage(op)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
    goto fail;
  }
  if (op->staged) { /* the staged bytes stand for the source from here on */
    op->src.address = 0;
    op->src.block = 0;
  }
  result = sim_op_prepare(op);
  if (result != CUDA_SUCCESS)
    goto fail;
  sim_sched_submit(stream, op);
  bool tells = !async && is_plain_device(source) && is_ordinary_host(target);
  sim_clock_t *clock = tells ? sim_oracle_stream_clock(stream) : NULL;
  if (wait)
    sim_sched_wait(sim_dep_now(stream));
  sim_oracle_know(clock); /* the only copies that give a fact: they return "once the copy has completed" */
  free(clock);
  return CUDA_SUCCESS;
fail:
  sim_op_delete(op);
  return result;
}

enum { ANY, HOST, DEVICE };

static bool is_acceptable(uint64_t address, int where)
{
  return where != DEVICE || sim_arena_find(address);
}

static CUresult copy_1d(
    sim_call_t *call, uint64_t dst, int to, uint64_t src, int from, size_t bytes, CUstream stream, bool async)
{
  if (bytes == 0)
    return CUDA_SUCCESS;
  if (!dst || !src || !is_acceptable(dst, to) || !is_acceptable(src, from))
    return CUDA_ERROR_INVALID_VALUE;
  sim_op_t *op = sim_op_new(SIM_OP_COPY);
  op->dst = (sim_span_t){.address = dst, .pitch = bytes, .slice = bytes};
  op->src = (sim_span_t){.address = src, .pitch = bytes, .slice = bytes};
  op->width = bytes;
  op->height = op->depth = 1;
  return copy(call, op, stream, async);
}

#define LOG_1D "%s %s %zu", sim_str_ptr((uintptr_t)dst), sim_str_ptr((uintptr_t)src), bytes
#define LOG_1D_STREAM                                                                                        \
  "%s %s %zu %s", sim_str_ptr((uintptr_t)dst), sim_str_ptr((uintptr_t)src), bytes, sim_str_stream(stream)

SIM_FN2(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
    copy_1d(&call, dst, ANY, src, ANY, bytes, NULL, false), LOG_1D)
SIM_FN2(cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
    copy_1d(&call, dst, ANY, src, ANY, bytes, stream, true), LOG_1D_STREAM)
SIM_FN2(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t bytes),
    copy_1d(&call, dst, DEVICE, (uintptr_t)src, HOST, bytes, NULL, false), LOG_1D)
SIM_FN2(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
    (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
    copy_1d(&call, dst, DEVICE, (uintptr_t)src, HOST, bytes, stream, true), LOG_1D_STREAM)
SIM_FN2(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t bytes),
    copy_1d(&call, (uintptr_t)dst, HOST, src, DEVICE, bytes, NULL, false), LOG_1D)
SIM_FN2(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
    (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
    copy_1d(&call, (uintptr_t)dst, HOST, src, DEVICE, bytes, stream, true), LOG_1D_STREAM)
SIM_FN2(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
    copy_1d(&call, dst, DEVICE, src, DEVICE, bytes, NULL, false), LOG_1D)
SIM_FN2(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
    copy_1d(&call, dst, DEVICE, src, DEVICE, bytes, stream, true), LOG_1D_STREAM)
SIM_FN2(cuMemcpyPeer, cuMemcpyPeer_ptds,
    (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),
    copy_1d(&call, dst, DEVICE, src, DEVICE, bytes, NULL, false), LOG_1D)
SIM_FN2(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
    (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes, CUstream stream),
    copy_1d(&call, dst, DEVICE, src, DEVICE, bytes, stream, true), LOG_1D_STREAM)

/* ---- 2D and 3D ---- */

static bool side(sim_span_t *span, CUmemorytype type, const void *host, CUdeviceptr device, size_t x,
    size_t y, size_t z, size_t pitch, size_t height, size_t width)
{
  if (type == CU_MEMORYTYPE_ARRAY)
    return false;
  uint64_t base = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
  if (pitch == 0)
    pitch = width;
  span->pitch = pitch;
  span->slice = pitch * (height ? height : 1);
  span->address = base + z * span->slice + y * pitch + x;
  return base != 0 && pitch >= width && (type != CU_MEMORYTYPE_DEVICE || sim_arena_find(base));
}

static CUresult copy_2d(sim_call_t *call, const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
  if (!c)
    return CUDA_ERROR_INVALID_VALUE;
  if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (c->WidthInBytes == 0 || c->Height == 0)
    return CUDA_SUCCESS;
  sim_op_t *op = sim_op_new(SIM_OP_COPY);
  op->width = c->WidthInBytes;
  op->height = c->Height;
  op->depth = 1;
  if (!side(&op->src, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0,
          c->WidthInBytes) ||
      !side(&op->dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0,
          c->WidthInBytes)) {
    sim_op_delete(op);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return copy(call, op, stream, async);
}

#define LOG_2D "%zu %zu", c ? c->WidthInBytes : 0, c ? c->Height : 0

SIM_FN2(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *c), copy_2d(&call, c, NULL, false), LOG_2D)
SIM_FN2(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *c),
    copy_2d(&call, c, NULL, false), LOG_2D)
SIM_FN2(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *c, CUstream stream),
    copy_2d(&call, c, stream, true), LOG_2D)

/* *ret_op NULL: there is nothing to copy. */
#define PLAN_3D(fn, type)                                                                                    \
  CUresult fn(const type *c, sim_op_t **ret_op)                                                              \
  {                                                                                                          \
    *ret_op = NULL;                                                                                          \
    if (!c)                                                                                                  \
      return CUDA_ERROR_INVALID_VALUE;                                                                       \
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)                  \
      return CUDA_ERROR_NOT_SUPPORTED;                                                                       \
    if (c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0)                                             \
      return CUDA_SUCCESS;                                                                                   \
    sim_op_t *op = sim_op_new(SIM_OP_COPY);                                                                  \
    op->width = c->WidthInBytes;                                                                             \
    op->height = c->Height;                                                                                  \
    op->depth = c->Depth;                                                                                    \
    if (!side(&op->src, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ,        \
            c->srcPitch, c->srcHeight, c->WidthInBytes) ||                                                   \
        !side(&op->dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ,        \
            c->dstPitch, c->dstHeight, c->WidthInBytes)) {                                                   \
      sim_op_delete(op);                                                                                     \
      return CUDA_ERROR_INVALID_VALUE;                                                                       \
    }                                                                                                        \
    *ret_op = op;                                                                                            \
    return CUDA_SUCCESS;                                                                                     \
  }
PLAN_3D(sim_copy_plan, CUDA_MEMCPY3D)
static PLAN_3D(plan_3d_peer, CUDA_MEMCPY3D_PEER)

    static CUresult copy_3d(sim_call_t *call, const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
  sim_op_t *op;
  CUresult result = sim_copy_plan(c, &op);
  return op ? copy(call, op, stream, async) : result;
}

static CUresult copy_3d_peer(sim_call_t *call, const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool async)
{
  sim_op_t *op;
  CUresult result = plan_3d_peer(c, &op);
  return op ? copy(call, op, stream, async) : result;
}

#define LOG_3D "%zu %zu %zu", c ? c->WidthInBytes : 0, c ? c->Height : 0, c ? c->Depth : 0

SIM_FN2(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *c), copy_3d(&call, c, NULL, false), LOG_3D)
SIM_FN2(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *c, CUstream stream),
    copy_3d(&call, c, stream, true), LOG_3D)
SIM_FN2(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *c),
    copy_3d_peer(&call, c, NULL, false), LOG_3D)
SIM_FN2(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *c, CUstream stream),
    copy_3d_peer(&call, c, stream, true), LOG_3D)
