/*
 * The driver as the pool sees it: a table of functions. interpose/driver_cuda.c implements it with CUDA; unit
 * tests have a table that fakes memory, completion and time. Threads may call these functions concurrently.
 * The caller never holds a lock of the pool.
 *
 * Results are the driver's own codes: 0 is success, and the program gets any other code unchanged. The codes
 * that the pool has to recognize, or returns by itself, are members of the table.
 */
#ifndef GP_POOL_DRIVER_H
#define GP_POOL_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A context of the driver. The driver may reuse the handle after the context's end, but never the id. */
typedef struct gp_driver_context {
  void *handle;
  uint64_t id;
  int device;
  bool is_primary; /* the device's own context, which a device reset ends */
} gp_driver_context_t;

typedef struct gp_driver_ops {
  /* Mandatory. Allocates bytes (> 0) in the context, which is current in the calling thread. */
  int (*alloc)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);

  /* Optional. Allocates as alloc() does, whatever context is current. */
  int (*alloc_in)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);

  /* Mandatory. Frees an allocation of the context, whatever context is current. */
  int (*free)(void *self, const gp_driver_context_t *context, uint64_t address);

  /* Mandatory. Returns when all work submitted to the context before the call is complete. */
  int (*wait)(void *self, const gp_driver_context_t *context);

  /* Mandatory. Waits for exactly what the driver's own free of an allocation of the context waits for. It
   * needs a little memory to do so. If there is none, it returns code_out_of_memory and has not waited. */
  int (*wait_as_free)(void *self, const gp_driver_context_t *context);

  /*
   * Optional. Fences over a whole context, that is, events that cover all its streams. fence_record() needs
   * fence_query(), which enter_stream() needs, too. A fence is complete when all work submitted to any stream
   * of the context before fence_record() is complete. *fence is NULL at first; the driver creates the fence,
   * and a later record replaces the earlier one. fence_query() returns 0 or code_not_ready. A fence lives as
   * long as its context: it costs a few small driver objects per context.
   */
  int (*fence_record)(void *self, const gp_driver_context_t *context, void **fence);
  int (*fence_query)(void *self, const gp_driver_context_t *context, void *fence);

  /* Optional, both or none. Return 0 if a stream that the program created, or the default stream, has no
   * pending work; otherwise code_not_ready. */
  int (*stream_query)(void *self, const gp_driver_context_t *context, uint64_t stream);
  int (*default_query)(void *self, const gp_driver_context_t *context);

  /*
   * Optional, all or none: virtual memory management. Sizes and addresses are multiples of 2 MiB.
   *
   * reserve() returns an address range without memory; it fails on a driver that cannot map memory. create()
   * allocates physical memory on the context's device. destroy() releases the handle: the memory lives on
   * while it is mapped. map() maps all of a handle's memory, allow() gives a device access to the memory
   * mapped in a range, and unmap() undoes map(). unmap() does not wait: work that uses the memory must be
   * complete. The context need not be current, and may have ended.
   */
  int (*reserve)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
  int (*unreserve)(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
  int (*create)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle);
  int (*destroy)(void *self, const gp_driver_context_t *context, uint64_t handle);
  int (*map)(
      void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, uint64_t handle);
  int (*unmap)(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
  int (*allow)(void *self, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device);

  /*
   * Optional. Records an event in a stream of the context; CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the
   * default streams. *event is NULL at first; the driver creates the event, and records it again later.
   * fence_query() returns whether the event is complete.
   */
  int (*enter_stream)(void *self, const gp_driver_context_t *context, uint64_t stream, void **event);

  /* Optional. Makes later work in the stream wait for an event of enter_stream(); the host does not wait. */
  int (*stream_wait)(void *self, const gp_driver_context_t *context, uint64_t stream, void *event);

  /*
   * Optional, all or none. fill_stream() creates a non-blocking stream, which ends with its context. fill()
   * sets all bytes to `value`, in the order of that stream or of one of the program's streams, with default
   * streams as above. Memory and stream belong to the context. fill_query() returns 0 if a stream of
   * fill_stream() has no pending work; otherwise code_not_ready.
   */
  int (*fill_stream)(void *self, const gp_driver_context_t *context, uint64_t *ret_stream);
  int (*fill)(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
      uint64_t bytes, uint8_t value);
  int (*fill_query)(void *self, const gp_driver_context_t *context, uint64_t stream);

  /*
   * Optional, both or none, with fill(). host_alloc() allocates page-locked host memory, which ends with the
   * context. copy_out() copies `rows` pieces of `bytes` each, `pitch` bytes apart, to consecutive bytes at
   * `host`, in the order of a stream of fill_stream().
   */
  int (*host_alloc)(void *self, const gp_driver_context_t *context, uint64_t bytes, void **ret_host);
  int (*copy_out)(void *self, const gp_driver_context_t *context, uint64_t stream, void *host,
      uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch);

  /* Mandatory. Queries the free and total bytes of the context's device, as cuMemGetInfo reports them. */
  int (*memory_info)(void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

  /*
   * Optional. For a device that shares the host's memory, returns the bytes that the host could still
   * provide, which may be more than memory_info() reports as free. Returns 0 if the device has memory of its
   * own, or if the host does not report the number.
   */
  uint64_t (*host_available)(void *self, const gp_driver_context_t *context);

  /* Optional. Makes the driver release the idle memory of its own memory pools of the device. */
  void (*trim_async)(void *self, const gp_driver_context_t *context);

  /* Optional. Queries the bytes that the driver's own memory pools have reserved on the device, and how
   * many of them are in use, including the driver's overhead for each size. */
  int (*async_reserved)(
      void *self, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used);

  /*
   * Optional. Called before the program gets memory from the driver, with no lock held and outside of
   * gp_engine_enter. Looks for newly loaded libraries whose calls the hooks do not see, and turns off
   * features that are not safe with them.
   */
  void (*look_for_escapes)(void *self);

  /* Optional. Called when code_is_context_gone was true for the result of a wait or a fence: returns
   * whether the context has ended, which it determines in another way. NULL: the pool trusts the code. */
  bool (*context_has_ended)(void *self, const gp_driver_context_t *context);

  /* Mandatory. Returns the time in nanoseconds, from a clock that never goes backwards and that all
   * threads share. */
  uint64_t (*now_ns)(void *self);

  /* Mandatory. Puts the calling thread to sleep for about ns nanoseconds of that clock. */
  void (*pause)(void *self, uint64_t ns);

  int code_out_of_memory;
  int code_invalid_value;
  int code_not_ready;
  int code_ended;                   /* the driver itself has ended; also sticky; 0: no such code */
  bool (*code_is_sticky)(int code); /* Optional. True if no later call in the context succeeds */
  bool (*code_is_context_gone)(
      int code); /* Optional. True if such a result of a wait or fence may mean that the context has ended */
} gp_driver_ops_t;

typedef struct gp_driver {
  const gp_driver_ops_t *ops;
  void *self;
} gp_driver_t;

#endif
