/*
 * Times of one device are in the order of what happens there, although a request reads the clock before it
 * takes the device's lock: other requests may be served in between.
 */
#include "pool/engine_record.h"
#include "pool/events.h"
#include "pool/reuse/mode.h"
#include "test/pool/check_main.h"
#include "pool/reuse/drain.h"
#include "test/pool/async_fixture.h"

#define A_STREAM UINT64_C(0x10000010)

static uint64_t newest_ns; /* of all events */
static int events;
static int disorder; /* events that are older than the one before */
static bool interrupts;

static uint64_t look_at_event(void *self, const gp_event_t *event)
{
  events++;
  disorder += event->time_ns < newest_ns || event->alloc_ns > event->time_ns;
  newest_ns = event->time_ns;
  return event->time_ns;
}

/* A request that was served while another one has read the clock and does not have the lock yet. */
static uint64_t now_before_another(void *self)
{
  uint64_t now_ns = driver.now_ns;

  if (!interrupts)
    return now_ns;
  interrupts = false;
  driver.now_ns += 1000;
  uint64_t address = allocate(BYTES);
  driver.now_ns += 1000;
  free_code(address);
  synchronize();
  return now_ns;
}

static void begin(const char *mode)
{
  const gp_observer_t observer = {.event = look_at_event};
  gp_driver_context_t first = fake_context(0, 0);

  newest_ns = 0;
  events = disorder = 0;
  interrupts = false;
  fake_driver_init(&driver, GP_GIB, true);
  driver.ops.now_ns = now_before_another;
  engine = fake_engine(&driver, &observer, (const char *const[]){mode, NULL});
  context = gp_engine_context(engine, &first);
}

/* From now on each request of that size is a hit. */
static void begin_warm(void)
{
  begin("GPUPOOL_REUSE=context");
  free_code(allocate(BYTES));
  synchronize();
}

static void end(void)
{
  ck_assert_int_eq(disorder, 0);
  ck_assert_uint_eq(newest_ns, driver.now_ns);
  stop();
}

START_TEST(test_an_allocation_that_was_overtaken)
{
  begin_warm();
  int before = events;
  interrupts = true;
  uint64_t address = allocate(BYTES);
  ck_assert(!interrupts);
  ck_assert_uint_eq(stats().cache_misses, 1);
  ck_assert_int_eq(events - before, 5); /* completed, alloc, freed; completed, alloc */
  free_code(address);
  end();
}
END_TEST

START_TEST(test_a_free_that_was_overtaken)
{
  begin_warm();
  uint64_t address = allocate(BYTES);
  free_code(allocate(BYTES));
  synchronize();
  int before = events;
  interrupts = true;
  free_code(address);
  ck_assert(!interrupts);
  ck_assert_int_eq(events - before, 5); /* completed, alloc, freed; freed, completed */
  end();
}
END_TEST

START_TEST(test_a_holder_that_was_overtaken)
{
  begin_warm();
  uint64_t address = allocate(BYTES);
  ck_assert(gp_engine_retain(engine, address));
  free_code(address);
  interrupts = true;
  ck_assert(gp_engine_release(engine, address));
  synchronize();
  free_code(allocate(BYTES));
  end();
}
END_TEST

/* Blocks freed before the synchronization are idle since then, but become so after one that needs no
 * synchronization. */
START_TEST(test_idle_memory_is_in_the_order_of_its_age)
{
  const gp_observer_t observer = {.event = look_at_event};
  uint64_t blocks[3 * GP_DRAIN_SOME];

  fake_driver_init(&driver, GP_GIB, true);
  gp_driver_context_t first = fake_context(0, 0);
  engine = fake_engine(&driver, &observer,
      (const char *const[]){"GPUPOOL_REUSE=context", "GPUPOOL_ASYNC=plain", "GPUPOOL_IDLE_RELEASE=0", NULL});
  context = gp_engine_context(engine, &first);
  gp_stream_record_begin(engine, context, A_STREAM, false);
  uint64_t async_context = allocate_in(order(A_STREAM), BYTES);
  for (unsigned i = 0; i < 3 * GP_DRAIN_SOME; i++)
    blocks[i] = allocate(BYTES);
  for (unsigned i = 0; i < 3 * GP_DRAIN_SOME; i++)
    free_code(blocks[i]);
  driver.now_ns += 1000;
  synchronize();
  driver.now_ns += 1000;
  free_code(async_context);
  ck_assert_uint_gt(engine->devices[0].stats->deferred_bytes.current, 0);
  uint64_t other = allocate(GP_MIB);
  free_code(other);
  stop();
}
END_TEST

/*
 * While no reader wants events
 */

static int readings;

static uint64_t count_reading(void *self)
{
  (void)self;
  readings++;
  return driver.now_ns;
}

static void begin_without_events(const char *mode, const char *setting)
{
  gp_driver_context_t first = fake_context(0, 0);

  fake_driver_init(&driver, GP_GIB, true);
  driver.now_ns = UINT64_C(1000000000);
  driver.ops.now_ns = count_reading;
  engine = fake_engine(&driver, NULL, (const char *const[]){mode, setting, NULL});
  context = gp_engine_context(engine, &first);
}

START_TEST(test_a_warm_pair_reads_no_clock_without_events)
{
  begin_without_events("GPUPOOL_REUSE=context", NULL);
  free_code(allocate(BYTES));
  synchronize();
  uint64_t address = allocate(BYTES);
  free_code(address);
  synchronize();
  address = allocate(BYTES); /* the first one of the thread's heap */
  free_code(address);
  synchronize();
  readings = 0;
  address = allocate(BYTES);
  free_code(address);
  ck_assert_int_eq(readings, 0);
  ck_assert_uint_eq(stats().cache_hits, 3);
  stop();
}
END_TEST

/* Idle memory goes back all the same. */
START_TEST(test_idle_memory_ages_without_events)
{
  begin_without_events("GPUPOOL_REUSE=context", "GPUPOOL_IDLE_RELEASE=1");
  uint64_t kept = allocate(BYTES);
  free_code(allocate(2 * GP_MIB));
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB);
  driver.now_ns += UINT64_C(2000000000);
  for (int i = 0; i < GP_REQUESTS_A_CLOCK && stats().cached_bytes.current > 0; i++) {
    free_code(kept);
    kept = allocate(BYTES);
  }
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert_uint_eq(stats().cache_misses, 2);
  free_code(kept);
  stop();
}
END_TEST

/* A miss reads the clock for its driver call. Later requests are not earlier than that, with each type. */
START_TEST(test_a_miss_tells_later_requests_the_time_without_events)
{
  static const char *const types[] = {"GPUPOOL_TYPE=round", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};

  begin_without_events("GPUPOOL_REUSE=context", types[_i]);
  (void)allocate(BYTES);
  driver.now_ns += 5000;
  (void)allocate(64 * GP_MIB);
  ck_assert_uint_ge(engine->devices[0].newest_ns, driver.now_ns);
  stop();
}
END_TEST

START_TEST(test_a_synchronization_tells_later_requests_the_time_without_events)
{
  begin_without_events("GPUPOOL_REUSE=context", NULL);
  uint64_t address = allocate(BYTES);
  driver.now_ns += 5000;
  synchronize();
  free_code(address);
  ck_assert_uint_eq(engine->devices[0].newest_ns, driver.now_ns);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("times");
  TCase *times = tcase_create("times");
  tcase_add_test(times, test_an_allocation_that_was_overtaken);
  tcase_add_test(times, test_a_free_that_was_overtaken);
  tcase_add_test(times, test_a_holder_that_was_overtaken);
  tcase_add_test(times, test_idle_memory_is_in_the_order_of_its_age);
  tcase_add_test(times, test_a_warm_pair_reads_no_clock_without_events);
  tcase_add_test(times, test_idle_memory_ages_without_events);
  tcase_add_loop_test(times, test_a_miss_tells_later_requests_the_time_without_events, 0, 3);
  tcase_add_test(times, test_a_synchronization_tells_later_requests_the_time_without_events);
  suite_add_tcase(suite, times);
  return gp_check_main(suite);
}
