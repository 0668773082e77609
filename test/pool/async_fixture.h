/*
 * Streams for the tests of stream-ordered memory, over the fixture of the engine; each includes it once.
 */
#ifndef GP_TEST_POOL_ASYNC_FIXTURE_H
#define GP_TEST_POOL_ASYNC_FIXTURE_H

#include "pool/reuse/stream_records.h"
#include "test/pool/engine_fixture.h"

#define FIRST  UINT64_C(0x1000)
#define SECOND UINT64_C(0x2000)
#ifndef BYTES
#define BYTES (UINT64_C(1) << 16)
#endif

/* A stream of the context, in the calling thread. */
static inline gp_stream_order_t order_in(gp_context_t *of, uint64_t stream)
{
  gp_stream_record_t *stream_record = stream > GP_STREAM_PER_THREAD
                                          ? gp_stream_record_of(engine, stream)
                                          : gp_stream_record_of_default(engine, of, stream);
  return (gp_stream_order_t){.context = of, .stream_record = stream_record, .stream = stream};
}

static inline gp_stream_order_t order(uint64_t stream)
{
  return order_in(context, stream);
}

static inline uint64_t allocate_in(gp_stream_order_t in, uint64_t bytes)
{
  uint64_t address = 0;
  int code = -1;
  ck_assert(gp_engine_alloc_async(engine, &in, bytes, &address, &code));
  ck_assert_int_eq(code, 0);
  return address;
}

/* A capture that begins in a pause of the library; for driver.on_pause. */
static gp_suspension_t meanwhile;

static inline void capture_begins(void)
{
  driver.on_pause = NULL;
  meanwhile = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
}

/* The driver's own free, where the engine calls for it. */
typedef struct driver_free {
  uint64_t address;
  int calls;
  int places; /* of these: in the place of a free */
  int code;
} driver_free_t;

static inline int call_driver_free(void *arg, bool is_cut)
{
  driver_free_t *call = arg;

  call->calls++;
  call->places += is_cut;
  if (is_cut || call->code != 0)
    return call->code;
  return driver.ops.free(&driver, &(gp_driver_context_t){.handle = NULL}, call->address);
}

static inline int free_with(gp_stream_order_t in, driver_free_t *call)
{
  int code = -1;
  ck_assert_int_eq(
      gp_engine_free_async(engine, &in, call->address, call_driver_free, call, &code), GP_FREE_DONE);
  return code;
}

/* A free that the pool serves by itself. */
static inline void free_in(gp_stream_order_t in, uint64_t address)
{
  driver_free_t call = {.address = address};
  ck_assert_int_eq(free_with(in, &call), 0);
  ck_assert_int_eq(call.calls, 0);
}

/* Whole blocks, of which none is joined with another: GPUPOOL_ASYNC=plain with the type round. */
#define WHOLE ((const char *const[]){"GPUPOOL_ASYNC=plain", NULL})

static inline void start_streams(const char *const *settings, uint64_t capacity)
{
  start(settings, capacity, true);
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_stream_record_begin(engine, context, SECOND, false);
}

#endif
