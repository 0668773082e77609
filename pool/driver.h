/*
 * What the pool needs of a driver. The real one is interpose/driver_cuda.c; unit tests have a table that
 * fakes memory, completion and time. Any number of threads may call these functions at once. The caller
 * never holds a lock of the pool.
 *
 * Results are the driver's own codes: 0 is success, the program gets everything else unchanged. The codes
 * that the pool must tell apart or return by itself are members of the table.
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

  /* Mandatory. Frees an allocation of the context, whatever context is current. */
  int (*free)(void *self, const gp_driver_context_t *context, uint64_t address);

  /* Mandatory. Returns when all work submitted to the context before the call is complete. */
  int (*wait)(void *self, const gp_driver_context_t *context);

  /* Mandatory. Waits for exactly what the driver's own free of an allocation of the context waits for.
   * code_out_of_memory: this takes some memory, there was none, and it has not waited. */
  int (*wait_as_free)(void *self, const gp_driver_context_t *context);

  /*
   * Optional, for drivers with a fence over a whole context. fence_record() needs fence_query(), which may
   * also come with enter_stream() alone. A fence passes when all work submitted to any stream of the context
   * before fence_record() is complete. *fence is NULL at first. The driver then makes it and uses it again
   * later: each record replaces the one before. fence_query() returns 0 or code_not_ready. A fence ends with
   * its context, never before: it costs a few small driver objects per context.
   */
  int (*fence_record)(void *self, const gp_driver_context_t *context, void **fence);
  int (*fence_query)(void *self, const gp_driver_context_t *context, void *fence);

  /* Optional, both or none. Whether a stream that the program created, or the default stream, has no work: 0,
   * else code_not_ready. */
  int (*stream_query)(void *self, const gp_driver_context_t *context, uint64_t stream);
  int (*default_query)(void *self, const gp_driver_context_t *context);

  /*
   * Optional, all or none: physical memory that is mapped at addresses of the pool's choice. Sizes and
   * addresses are multiples of 2 MiB.
   *
   * reserve() returns addresses without memory; it fails on a driver that cannot map memory. create() makes
   * physical memory on the context's device. destroy() gives up its handle: the memory stays while it is
   * mapped. map() maps all of a handle's memory, allow() lets a device use the memory mapped in a range,
   * and unmap() undoes map(). unmap() does not wait: work that uses the memory must be complete before. The
   * context need not be current, and may have ended.
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
   * Optional. Puts an operation that does nothing into a stream of the context; a default stream is named by
   * the handle that CUDA has for it (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). *event is NULL at first, and
   * the driver's to make and use again. fence_query() answers whether the operation is complete.
   */
  int (*enter_stream)(void *self, const gp_driver_context_t *context, uint64_t stream, void **event);

  /* Optional. Later work in the stream waits until an event of enter_stream() has passed; the host does not.
   */
  int (*stream_wait)(void *self, const gp_driver_context_t *context, uint64_t stream, void *event);

  /*
   * Optional, all or none. fill_stream() makes a stream of the context that neither waits for other streams
   * nor holds them up. It ends with its context. fill() sets all bytes to `value`, in the order of that
   * stream or of a stream of the program's, with default streams named as above. Memory and stream belong
   * to the context. fill_query() returns 0 if a stream of fill_stream() has no work, else code_not_ready.
   */
  int (*fill_stream)(void *self, const gp_driver_context_t *context, uint64_t *ret_stream);
  int (*fill)(void *self, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
      uint64_t bytes, uint8_t value);
  int (*fill_query)(void *self, const gp_driver_context_t *context, uint64_t stream);

  /* Mandatory. Free and total bytes of the context's device, as the driver reports them. */
  int (*memory_info)(void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

  /*
   * Optional. For a device that shares the host's memory: bytes that the host could still
   * provide, which may be more than memory_info reports as free. 0: the device has memory of its
   * own, or the host does not say.
   */
  uint64_t (*host_available)(void *self, const gp_driver_context_t *context);

  /* Optional. Makes the driver give back the idle memory of its own stream-ordered pool of the device. */
  void (*trim_async)(void *self, const gp_driver_context_t *context);

  /* Optional. Bytes that the driver's own pool holds from the device, and the part of them in use,
   * including the driver's overhead for each size. */
  int (*async_reserved)(
      void *self, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used);

  /*
   * Optional. Called before the program gets memory of the driver, with no lock and in no call that
   * gp_engine_enter announced: looks for libraries that came meanwhile and whose work no hook sees, and ends
   * what that bars.
   */
  void (*look_for_escapes)(void *self);

  /* Optional. Asks whether a context has ended, after code_is_context_gone was true for the result of a
   * wait or a fence. Asks in another way than by these. NULL: the pool believes the code. */
  bool (*context_has_ended)(void *self, const gp_driver_context_t *context);

  /* Mandatory. A clock that never goes backwards, in nanoseconds, the same for all threads. */
  uint64_t (*now_ns)(void *self);

  /* Mandatory. Lets the calling thread sleep for about ns nanoseconds of that clock. */
  void (*pause)(void *self, uint64_t ns);

  int code_out_of_memory;
  int code_invalid_value;
  int code_not_ready;
  int code_ended;                   /* the driver itself has ended, which is sticky, too; 0: no such code */
  bool (*code_is_sticky)(int code); /* Optional. True if nothing works in the context after such a result */
  bool (*code_is_context_gone)(
      int code); /* Optional. True if such a result of a wait or fence may mean that it has ended */
} gp_driver_ops_t;

typedef struct gp_driver {
  const gp_driver_ops_t *ops;
  void *self;
} gp_driver_t;

#endif
