/*
 * Copies and memsets.
 */
#include "rt.h"

static CUresult copy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, bool per_thread)
{
  if (bytes == 0)
    return CUDA_SUCCESS;
  switch (kind) {
  case cudaMemcpyHostToDevice: return PICK(cuMemcpyHtoD)(rt_address(dst), src, bytes);
  case cudaMemcpyDeviceToHost: return PICK(cuMemcpyDtoH)(dst, rt_address(src), bytes);
  case cudaMemcpyDeviceToDevice: return PICK(cuMemcpyDtoD)(rt_address(dst), rt_address(src), bytes);
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault: return PICK(cuMemcpy)(rt_address(dst), rt_address(src), bytes);
  default: return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

static CUresult copy_async(
    void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream, bool per_thread)
{
  if (bytes == 0)
    return CUDA_SUCCESS;
  switch (kind) {
  case cudaMemcpyHostToDevice: return PICK(cuMemcpyHtoDAsync)(rt_address(dst), src, bytes, stream);
  case cudaMemcpyDeviceToHost: return PICK(cuMemcpyDtoHAsync)(dst, rt_address(src), bytes, stream);
  case cudaMemcpyDeviceToDevice:
    return PICK(cuMemcpyDtoDAsync)(rt_address(dst), rt_address(src), bytes, stream);
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault: return PICK(cuMemcpyAsync)(rt_address(dst), rt_address(src), bytes, stream);
  default: return (CUresult)cudaErrorInvalidMemcpyDirection;
  }
}

RT_FN2(cudaMemcpy, cudaMemcpy_ptds, (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind),
    copy(dst, src, bytes, kind, per_thread))
RT_FN2(cudaMemcpyAsync, cudaMemcpyAsync_ptsz,
    (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
    copy_async(dst, src, bytes, kind, stream, per_thread))

static CUresult peer_contexts(int dst, int src, CUcontext *ret_dst, CUcontext *ret_src)
{
  CUresult code = rt_driver.cuDevicePrimaryCtxRetain(ret_dst, dst);
  if (code != CUDA_SUCCESS)
    return code;
  (void)rt_driver.cuDevicePrimaryCtxRelease(
      dst); /* the runtime holds its own reference while the device is in use */
  code = rt_driver.cuDevicePrimaryCtxRetain(ret_src, src);
  if (code == CUDA_SUCCESS)
    (void)rt_driver.cuDevicePrimaryCtxRelease(src);
  return code;
}

static CUresult copy_peer(
    void *dst, int dst_device, const void *src, int src_device, size_t bytes, cudaStream_t stream, bool async)
{
  CUcontext to, from;
  CUresult code = peer_contexts(dst_device, src_device, &to, &from);
  if (code != CUDA_SUCCESS)
    return code;
  return async ? rt_driver.cuMemcpyPeerAsync(rt_address(dst), to, rt_address(src), from, bytes, stream)
               : rt_driver.cuMemcpyPeer(rt_address(dst), to, rt_address(src), from, bytes);
}

RT_FN(cudaMemcpyPeer, (void *dst, int dst_device, const void *src, int src_device, size_t bytes),
    copy_peer(dst, dst_device, src, src_device, bytes, NULL, false))
RT_FN(cudaMemcpyPeerAsync,
    (void *dst, int dst_device, const void *src, int src_device, size_t bytes, cudaStream_t stream),
    copy_peer(dst, dst_device, src, src_device, bytes, stream, true))

/* ---- 2D and 3D ---- */

static CUmemorytype source_type(enum cudaMemcpyKind kind)
{
  return kind == cudaMemcpyDefault                                        ? CU_MEMORYTYPE_UNIFIED
         : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static CUmemorytype target_type(enum cudaMemcpyKind kind)
{
  return kind == cudaMemcpyDefault                                        ? CU_MEMORYTYPE_UNIFIED
         : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D plan_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
    size_t height, enum cudaMemcpyKind kind)
{
  return (CUDA_MEMCPY2D){.srcMemoryType = source_type(kind),
      .srcHost = src,
      .srcDevice = rt_address(src),
      .srcPitch = spitch,
      .dstMemoryType = target_type(kind),
      .dstHost = dst,
      .dstDevice = rt_address(dst),
      .dstPitch = dpitch,
      .WidthInBytes = width,
      .Height = height};
}

static CUresult copy_2d(CUDA_MEMCPY2D plan, bool per_thread)
{
  return PICK(cuMemcpy2DUnaligned)(&plan);
}

static CUresult copy_2d_async(CUDA_MEMCPY2D plan, cudaStream_t stream, bool per_thread)
{
  return PICK(cuMemcpy2DAsync)(&plan, stream);
}

RT_FN2(cudaMemcpy2D, cudaMemcpy2D_ptds,
    (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind),
    copy_2d(plan_2d(dst, dpitch, src, spitch, width, height, kind), per_thread))
RT_FN2(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz,
    (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, cudaStream_t stream),
    copy_2d_async(plan_2d(dst, dpitch, src, spitch, width, height, kind), stream, per_thread))

static CUresult plan_3d(CUDA_MEMCPY3D *ret, const struct cudaMemcpy3DParms *p)
{
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->srcArray || p->dstArray)
    return CUDA_ERROR_NOT_SUPPORTED;
  *ret = (CUDA_MEMCPY3D){.srcMemoryType = source_type(p->kind),
      .srcHost = p->srcPtr.ptr,
      .srcDevice = rt_address(p->srcPtr.ptr),
      .srcPitch = p->srcPtr.pitch,
      .srcHeight = p->srcPtr.ysize,
      .srcXInBytes = p->srcPos.x,
      .srcY = p->srcPos.y,
      .srcZ = p->srcPos.z,
      .dstMemoryType = target_type(p->kind),
      .dstHost = p->dstPtr.ptr,
      .dstDevice = rt_address(p->dstPtr.ptr),
      .dstPitch = p->dstPtr.pitch,
      .dstHeight = p->dstPtr.ysize,
      .dstXInBytes = p->dstPos.x,
      .dstY = p->dstPos.y,
      .dstZ = p->dstPos.z,
      .WidthInBytes = p->extent.width,
      .Height = p->extent.height,
      .Depth = p->extent.depth};
  return CUDA_SUCCESS;
}

static CUresult copy_3d(const struct cudaMemcpy3DParms *p, bool per_thread)
{
  CUDA_MEMCPY3D plan;
  CUresult code = plan_3d(&plan, p);
  return code == CUDA_SUCCESS ? PICK(cuMemcpy3D)(&plan) : code;
}

static CUresult copy_3d_async(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool per_thread)
{
  CUDA_MEMCPY3D plan;
  CUresult code = plan_3d(&plan, p);
  return code == CUDA_SUCCESS ? PICK(cuMemcpy3DAsync)(&plan, stream) : code;
}

RT_FN2(cudaMemcpy3D, cudaMemcpy3D_ptds, (const struct cudaMemcpy3DParms *p), copy_3d(p, per_thread))
RT_FN2(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
    copy_3d_async(p, stream, per_thread))

/* ---- memsets ---- */

RT_FN2(cudaMemset, cudaMemset_ptds, (void *p, int value, size_t bytes),
    bytes ? PICK(cuMemsetD8)(rt_address(p), (unsigned char)value, bytes) : CUDA_SUCCESS)
RT_FN2(cudaMemsetAsync, cudaMemsetAsync_ptsz, (void *p, int value, size_t bytes, cudaStream_t stream),
    bytes ? PICK(cuMemsetD8Async)(rt_address(p), (unsigned char)value, bytes, stream) : CUDA_SUCCESS)
RT_FN2(cudaMemset2D, cudaMemset2D_ptds, (void *p, size_t pitch, int value, size_t width, size_t height),
    PICK(cuMemsetD2D8)(rt_address(p), pitch, (unsigned char)value, width, height))
RT_FN2(cudaMemset2DAsync, cudaMemset2DAsync_ptsz,
    (void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
    PICK(cuMemsetD2D8Async)(rt_address(p), pitch, (unsigned char)value, width, height, stream))
RT_FN2(cudaMemset3D, cudaMemset3D_ptds, (struct cudaPitchedPtr p, int value, struct cudaExtent extent),
    PICK(cuMemsetD2D8)(rt_address(p.ptr), p.pitch, (unsigned char)value, extent.width, p.ysize *extent.depth))
RT_FN2(cudaMemset3DAsync, cudaMemset3DAsync_ptsz,
    (struct cudaPitchedPtr p, int value, struct cudaExtent extent, cudaStream_t stream),
    PICK(cuMemsetD2D8Async)(
        rt_address(p.ptr), p.pitch, (unsigned char)value, extent.width, p.ysize *extent.depth, stream))

/* ---- symbols ---- */

static CUresult symbol(const void *variable, size_t bytes, size_t offset, void **ret)
{
  CUdeviceptr address;
  size_t size;
  CUresult code = rt_variable_of(variable, &address, &size);
  if (code != CUDA_SUCCESS)
    return code;
  if (offset > size || bytes > size - offset)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = (void *)(uintptr_t)(address + offset);
  return CUDA_SUCCESS;
}

static CUresult to_symbol(const void *variable, const void *src, size_t bytes, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t stream, bool async, bool per_thread)
{
  void *dst;
  CUresult code = symbol(variable, bytes, offset, &dst);
  if (code != CUDA_SUCCESS)
    return code;
  return async ? copy_async(dst, src, bytes, kind, stream, per_thread)
               : copy(dst, src, bytes, kind, per_thread);
}

static CUresult from_symbol(void *dst, const void *variable, size_t bytes, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t stream, bool async, bool per_thread)
{
  void *src;
  CUresult code = symbol(variable, bytes, offset, &src);
  if (code != CUDA_SUCCESS)
    return code;
  return async ? copy_async(dst, src, bytes, kind, stream, per_thread)
               : copy(dst, src, bytes, kind, per_thread);
}

RT_FN2(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds,
    (const void *variable, const void *src, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
    to_symbol(variable, src, bytes, offset, kind, NULL, false, per_thread))
RT_FN2(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz,
    (const void *variable, const void *src, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
        cudaStream_t stream),
    to_symbol(variable, src, bytes, offset, kind, stream, true, per_thread))
RT_FN2(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds,
    (void *dst, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind),
    from_symbol(dst, variable, bytes, offset, kind, NULL, false, per_thread))
RT_FN2(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz,
    (void *dst, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
        cudaStream_t stream),
    from_symbol(dst, variable, bytes, offset, kind, stream, true, per_thread))

static CUresult symbol_address(void **ret, const void *variable)
{
  return ret ? symbol(variable, 0, 0, ret) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult symbol_size(size_t *ret, const void *variable)
{
  CUdeviceptr address;
  return ret ? rt_variable_of(variable, &address, ret) : CUDA_ERROR_INVALID_VALUE;
}

RT_FN(cudaGetSymbolAddress, (void **ret, const void *variable), symbol_address(ret, variable))
RT_FN(cudaGetSymbolSize, (size_t * ret, const void *variable), symbol_size(ret, variable))
