/*
 * What the pool needs of a driver. The real one is interpose/driver_cuda.c; unit tests have one that fakes
 * memory, completion and time. All functions may be called by many threads at once, and never with a lock of
 * the pool held.
 *
 * Results are the driver's own codes: 0 is success, everything else is given to the program unchanged. The
 * codes that the pool must tell apart or answer by itself are members of the table.
 */
#ifndef GP_POOL_DRIVER_H
#define GP_POOL_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A context of the driver: work and memory belong to it. handle may be reused after its end, id never is. */
typedef struct gp_driver_context {
  void *handle;
  uint64_t id;
  int device;
  bool is_primary; /* the device's own context, which a device reset ends */
} gp_driver_context_t;

typedef struct gp_driver_ops {
  /* Mandatory. Allocates bytes (> 0) in the context, which is current in the calling thread. */
  int (*alloc)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);

  /* Optional. The same, whatever context is current. */
  int (*alloc_in)(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);

  /* Mandatory. Gives an allocation of the context back, whatever context is current. */
  int (*free)(void *self, const gp_driver_context_t *context, uint64_t address);

  /* Mandatory. Returns when all work submitted to the context before the call is complete. */
  int (*wait)(void *self, const gp_driver_context_t *context);

  /*
   * Mandatory. Waits for the device as the driver's own free of an allocation of the context does, whatever
   * that waits for. code_out_of_memory: there is no memory with which to do so, and it has not waited.
   */
  int (*wait_as_free)(void *self, const gp_driver_context_t *context);

  /*
   * Optional, both or none but for what follows them (a driver that has no fence over a whole context). A
   * fence is passed when all work submitted to any stream of the context before fence_record() is complete.
   * *fence is NULL at first; the driver makes it then and uses it again later: a record ends the one before.
   * fence_query() gives 0 or code_not_ready. A fence ends with its context, never before: a few small
   * objects of the driver for each context.
   */
  int (*fence_record)(void *self, const gp_driver_context_t *context, void **fence);
  int (*fence_query)(void *self, const gp_driver_context_t *context, void *fence);

  /*
   * Optional, both or none, for drivers without fence_record, and with fence_query. A fence of one stream
   * that the program created; the driver's handle says which. And whether the default stream has no work, 0,
   * or code_not_ready: a fence in it would hold other streams up.
   */
  int (*stream_fence_record)(void *self, const gp_driver_context_t *context, uint64_t stream, void **fence);
  int (*default_query)(void *self, const gp_driver_context_t *context);

  /* Optional, for drivers without fence_record. Whether a stream that the program created has no work. */
  int (*stream_query)(void *self, const gp_driver_context_t *context, uint64_t stream);

  /*
   * Optional, for the same drivers. Makes a stream of the context whose work begins after what was submitted
   * to the default stream before, and that other streams do not wait for. It ends with its context.
   */
  int (*side_stream)(void *self, const gp_driver_context_t *context, uint64_t *ret_stream);

  /* Optional. Has a stream of the context, by the driver's handle, wait for an event of enter_stream(). */
  int (*stream_wait)(void *self, const gp_driver_context_t *context, uint64_t stream, void *event);

  /*
   * Optional, all or none: physical memory that is mapped at addresses of the pool's choice. Sizes and
   * addresses are multiples of 2 MiB.
   *
   * reserve() gives addresses without memory; a failure means that the driver has no such memory. create()
   * makes physical memory of the context's device, destroy() gives its handle up: the memory stays while it
   * is mapped. map() maps all of a handle's memory, allow() lets a device use what is mapped in a range, and
   * unmap() undoes map(). Work that uses the memory must be complete before unmap(), which does not wait for
   * it. The context need not be current, and may have ended.
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
   * Optional, all or none: memory of the device's own pool of stream-ordered memory. alloc_ordered()
   * allocates bytes (> 0) in the order of a stream of the context; a default stream is named by the handle
   * that CUDA has for it (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). free() takes such memory with a context
   * whose handle is NULL, and does not wait for the device then; work that uses the memory must be complete.
   * free_ordered() takes it in the order of a stream. enter_stream() puts an operation into a stream that
   * does nothing; *event is NULL at first, and the driver's to make and use again. fence_query() tells of it.
   */
  int (*alloc_ordered)(
      void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t bytes, uint64_t *ret_address);
  int (*free_ordered)(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address);
  int (*enter_stream)(void *self, const gp_driver_context_t *context, uint64_t stream, void **event);

  /*
   * Optional, all or none. fill_stream() makes a stream of the context that waits for no other, and no other
   * for it; it ends with its context. fill() sets all bytes to `value`, in the order of that stream or of one
   * of the program's, a default stream named as above; memory and stream are of the context. fill_query()
   * says whether a stream of fill_stream() has no work, 0, or code_not_ready.
   */
  int (*fill_stream)(void *self, const gp_driver_context_t *context, uint64_t *ret_stream);
  int (*fill)(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
      uint64_t bytes, uint8_t value);
  int (*fill_query)(void *self, const gp_driver_context_t *context, uint64_t stream);

  /* Mandatory. Free and total bytes of the context's device, as the driver tells them. */
  int (*memory_info)(void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

  /*
   * Optional. For a device that shares the host's memory: bytes that the host could still give, which may be
   * more than memory_info calls free. 0: the device has memory of its own, or the host does not say.
   */
  uint64_t (*host_available)(void *self, const gp_driver_context_t *context);

  /* Optional. Makes the driver give back what its own stream-ordered pool of that device holds idle. */
  void (*trim_async)(void *self, const gp_driver_context_t *context);

  /* Optional. Bytes that this pool holds from the device, and how much of that is in use, with what the
   * driver adds to each size. */
  int (*async_reserved)(
      void *self, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used);

  /*
   * Optional. Asks in another way than by a wait or a fence whether a context has ended, after one of these
   * gave code_is_context_gone. NULL: the code is believed.
   */
  bool (*context_has_ended)(void *self, const gp_driver_context_t *context);

  /* Mandatory. A clock that never goes backwards, in nanoseconds, the same for all threads. */
  uint64_t (*now_ns)(void *self);

  /* Mandatory. The calling thread sleeps for about so long by that clock. */
  void (*pause)(void *self, uint64_t ns);

  int code_out_of_memory;
  int code_invalid_value;
  int code_not_ready;
  int code_ended;                   /* the driver's own end, which is sticky, too; 0: there is none */
  bool (*code_is_sticky)(int code); /* Optional. True if nothing works in the context after such a result */
  bool (*code_is_context_gone)(
      int code); /* Optional. True if such a result of a wait or fence may mean that it has ended */
} gp_driver_ops_t;

typedef struct gp_driver {
  const gp_driver_ops_t *ops;
  void *self;
} gp_driver_t;

#endif
