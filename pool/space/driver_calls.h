/*
 * Checked calls of the driver table (driver.h). No other code calls the table, so preconditions are asserted
 * only here. The caller holds no lock. Each function returns the driver's code unless its comment says
 * otherwise. Sizes are in bytes.
 *
 * A thread can be cancelled (pthread_cancel) in the calls that the program requested: gp_driver_alloc and
 * gp_driver_free_for_program. Their callers clean up after a cancelled call. A thread cannot be cancelled in
 * the other calls, because the program did not request them, or because they temporarily switch to another
 * context.
 */
#ifndef GP_POOL_SPACE_DRIVER_CALLS_H
#define GP_POOL_SPACE_DRIVER_CALLS_H

#include "pool/records.h"

int gp_driver_alloc(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
int gp_driver_alloc_in(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
int gp_driver_enter_stream(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void **event);
int gp_driver_stream_wait(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void *event);
int gp_driver_free(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address);
int gp_driver_free_for_program(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address);
int gp_driver_wait(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_wait_as_free(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_fence_record(gp_engine_t *engine, const gp_driver_context_t *context, void **fence);
int gp_driver_fence_query(gp_engine_t *engine, const gp_driver_context_t *context, void *fence);
int gp_driver_stream_query(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream);
int gp_driver_default_query(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_async_reserved(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_bytes, uint64_t *ret_used);
void gp_driver_trim_async(gp_engine_t *engine, const gp_driver_context_t *context);
int gp_driver_reserve(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address);
int gp_driver_unreserve(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
int gp_driver_create(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_handle);
int gp_driver_destroy(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t handle);
int gp_driver_map(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes,
    uint64_t handle);
int gp_driver_unmap(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes);
int gp_driver_allow(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t address, uint64_t bytes, int device);
int gp_driver_fill_stream(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_stream);
int gp_driver_fill(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, uint64_t address,
    uint64_t bytes, uint8_t value);
int gp_driver_fill_query(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream);
int gp_driver_host_alloc(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t bytes, void **ret_host);
int gp_driver_copy_out(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t stream, void *host,
    uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch);
int gp_driver_memory_info(
    gp_engine_t *engine, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/* Makes the calling thread sleep for about `ns` nanoseconds. */
void gp_driver_pause(gp_engine_t *engine, uint64_t ns);

/* First pause of a thread that polls. After each pause of `ns`, the next one is gp_next_pause(ns), at most a
 * millisecond. */
#define GP_FIRST_PAUSE_NS UINT64_C(20000)

static inline uint64_t gp_next_pause(uint64_t ns)
{
  const uint64_t longest_ns = 1000000;
  return 2 * ns < longest_ns ? 2 * ns : longest_ns;
}

/* Checks the code that a wait or a fence of the context has returned. If the context has ended unnoticed,
 * marks it as `gone`, so that memory of other contexts does not wait for it forever. contexts.c then drops
 * its memory. */
void gp_driver_note(gp_engine_t *engine, gp_context_t *context, int code);

/* Counts a fence, or a wait on the host, in the statistics of the context's device. */
typedef enum gp_count { GP_COUNT_FENCE, GP_COUNT_HOST_WAIT } gp_count_t;
void gp_driver_count(gp_context_t *context, gp_count_t what);

/* Returns the host's available memory, see host_available in driver.h. Makes no call to the device, so
 * gp_engine_enter is not needed before it. */
uint64_t gp_driver_host_available(gp_engine_t *engine, const gp_driver_context_t *context);

/* Returns the bytes available on a device of which free_bytes are free. The result is larger than free_bytes
 * if the device shares the host's memory. */
uint64_t gp_driver_available(gp_engine_t *engine, const gp_driver_context_t *context, uint64_t free_bytes);

#endif
