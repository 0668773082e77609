/*
 * Device memory with an address that is not pooled: pitch, managed. And page-locked memory of the host.
 */
#include "interpose/hooks/copies.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/forward.h"
#include "interpose/routes/real.h"

/* Pitches are multiples of 512 on the devices of today (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT divides
 * it). */
#define PITCH_STEP 512

typedef struct pitch_call {
  CUdeviceptr *pointer;
  size_t *pitch;
  size_t width;
  size_t height;
  unsigned element;
} pitch_call_t;

static CUresult call_pitch(void *arg)
{
  const pitch_call_t *call = arg;
  return GP_REAL_CALL(
      cuMemAllocPitch_v2, call->pointer, call->pitch, call->width, call->height, call->element);
}

static uint64_t pitch_address(void *arg)
{
  return (uint64_t) * ((const pitch_call_t *)arg)->pointer;
}

static uint64_t pitch_bytes(void *arg)
{
  const pitch_call_t *call = arg;
  return (uint64_t)*call->pitch * call->height;
}

CUresult CUDAAPI hook_cuMemAllocPitch_v2(
    CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
  pitch_call_t arguments = {pointer, pitch, width, height, element};
  size_t most;
  /* The pitch is the driver's secret until it answers: rows are counted with the largest that it is known to
   * use. */
  size_t row =
      width > SIZE_MAX - (PITCH_STEP - 1) ? width : (width + PITCH_STEP - 1) / PITCH_STEP * PITCH_STEP;
  bool legal = pointer && pitch && !__builtin_mul_overflow(row, height, &most);
  return gp_forward_alloc(&(gp_forward_call_t){.call = call_pitch,
                              .address = pitch_address,
                              .bytes_got = pitch_bytes,
                              .arg = &arguments,
                              .bytes = legal ? most : 0,
                              .kind = GP_FORWARDED_PITCH,
                              .device = GP_CURRENT_DEVICE},
      NULL);
}

typedef struct managed_call {
  CUdeviceptr *pointer;
  size_t bytes;
  unsigned flags;
} managed_call_t;

static CUresult call_managed(void *arg)
{
  const managed_call_t *call = arg;
  return GP_REAL_CALL(cuMemAllocManaged, call->pointer, call->bytes, call->flags);
}

static uint64_t managed_address(void *arg)
{
  return (uint64_t) * ((const managed_call_t *)arg)->pointer;
}

CUresult CUDAAPI hook_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags)
{
  managed_call_t arguments = {pointer, bytes, flags};
  return gp_forward_alloc(&(gp_forward_call_t){.call = call_managed,
                              .address = managed_address,
                              .arg = &arguments,
                              .bytes = pointer ? bytes : 0,
                              .kind = GP_FORWARDED_MANAGED,
                              .device = GP_CURRENT_DEVICE},
      NULL);
}

/* The calls that page-lock host memory: new memory (pointer says where to store its address), or the
 * program's own. */
typedef struct host_call {
  gp_function_t function;
  void **pointer;
  void *memory;
  size_t bytes;
  unsigned flags;
} host_call_t;

static CUresult call_host(void *arg)
{
  const host_call_t *call = arg;
  switch (call->function) {
  case GP_FN_cuMemHostAlloc: return GP_REAL_CALL(cuMemHostAlloc, call->pointer, call->bytes, call->flags);
  case GP_FN_cuMemAllocHost_v2: return GP_REAL_CALL(cuMemAllocHost_v2, call->pointer, call->bytes);
  case GP_FN_cuMemHostRegister:
    return GP_REAL_CALL(cuMemHostRegister, call->memory, call->bytes, call->flags);
  default: return GP_REAL_CALL(cuMemHostRegister_v2, call->memory, call->bytes, call->flags);
  }
}

static uint64_t host_address(void *arg)
{
  const host_call_t *call = arg;
  return (uint64_t)(uintptr_t)(call->pointer ? *call->pointer : call->memory);
}

static CUresult lock_pages(host_call_t arguments)
{
  if (arguments.memory && arguments.flags & CU_MEMHOSTREGISTER_IOMEMORY)
    gp_copies_note_io_memory();
  return gp_forward_alloc(&(gp_forward_call_t){.call = call_host,
                              .address = host_address,
                              .arg = &arguments,
                              .bytes = arguments.pointer || arguments.memory ? arguments.bytes : 0,
                              .kind = GP_FORWARDED_HOST,
                              .device = GP_CURRENT_DEVICE},
      NULL);
}

CUresult CUDAAPI hook_cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
  return lock_pages((host_call_t){GP_FN_cuMemHostAlloc, pointer, NULL, bytes, flags});
}

CUresult CUDAAPI hook_cuMemAllocHost_v2(void **pointer, size_t bytes)
{
  return lock_pages((host_call_t){GP_FN_cuMemAllocHost_v2, pointer, NULL, bytes, 0});
}

CUresult CUDAAPI hook_cuMemHostRegister(void *pointer, size_t bytes, unsigned flags)
{
  return lock_pages((host_call_t){GP_FN_cuMemHostRegister, NULL, pointer, bytes, flags});
}

CUresult CUDAAPI hook_cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags)
{
  return lock_pages((host_call_t){GP_FN_cuMemHostRegister_v2, NULL, pointer, bytes, flags});
}

static int call_free_host(void *arg)
{
  return (int)GP_REAL_CALL(cuMemFreeHost, arg);
}

CUresult CUDAAPI hook_cuMemFreeHost(void *pointer)
{
  return gp_forward_free(GP_SPACE_POINTER, (uint64_t)(uintptr_t)pointer, call_free_host, pointer);
}

static int call_unregister(void *arg)
{
  return (int)GP_REAL_CALL(cuMemHostUnregister, arg);
}

CUresult CUDAAPI hook_cuMemHostUnregister(void *pointer)
{
  return gp_forward_free(GP_SPACE_POINTER, (uint64_t)(uintptr_t)pointer, call_unregister, pointer);
}
