/*
 * One thing fails: driver call N, or host allocation N, for N = 1, 2, ... until a run no longer gets that
 * far. Each time the engine must stay consistent, lose nothing, and give the program the driver's own code.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/reuse/stream_records.h"
#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"

/* The linker sends the engine's allocations here (--wrap). */
static long host_calls;
static long host_fail_at; /* 0: none */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
  return ++host_calls == host_fail_at ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
  return ++host_calls == host_fail_at ? NULL : __real_calloc(count, bytes);
}

#define DRIVER_CODE    217
#define DRIVER_WORK_NS 3000000 /* of what is submitted; long enough that some waits find it pending */
#define LIVE           24

static fake_driver_t driver;

/* What the last run got, if nothing failed: even the settings with a limit grant most of it. */
#define LEAST_GRANTED   (3 * LIVE * 3 / 4)
#define ORDERED_GRANTED (2 * LIVE / 4)
static long granted, granted_ordered;
static bool is_checked; /* since the fault */

/* The books balance right after the operation in which something failed, too, not only at the end. */
static void check_after_fault(gp_engine_t *engine)
{
  bool has_failed = (driver.fail_at > 0 && driver.calls >= driver.fail_at) ||
                    (host_fail_at > 0 && host_calls >= host_fail_at);
  if (!has_failed || is_checked)
    return;
  is_checked = true;
  ck_assert_msg(
      gp_engine_check(engine), "after driver call %ld, host call %ld failed", driver.fail_at, host_fail_at);
}

static bool is_mapped(uint64_t address)
{
  return fake_may_use(&driver, address, 1, 0);
}

/* A free in stream order, as the driver does it. */
typedef struct stream_free {
  uint64_t address;
  gp_driver_context_t owner;
} stream_free_t;

static int free_in_driver(void *arg, bool is_cut)
{
  const stream_free_t *call = arg;
  return is_cut ? 0 : driver.ops.free(&driver, &call->owner, call->address);
}

/* What the program got goes back, also where the driver refuses once, and where the
 * engine lost sight of it. */
static void free_of_stream(
    gp_engine_t *engine, const gp_stream_order_t *order, stream_free_t *call, bool by_host)
{
  gp_free_result_t result;
  int code = DRIVER_CODE;

  for (int attempts = 0; attempts < 2 && code == DRIVER_CODE; attempts++) {
    result = by_host ? gp_engine_free(engine, call->address, &code)
                     : gp_engine_free_async(engine, order, call->address, free_in_driver, call, &code);
    if (result == GP_FREE_UNKNOWN)
      code = free_in_driver(call, false);
  }
  if (is_mapped(call->address) && code == DRIVER_CODE)
    (void)free_in_driver(call, false);
}

#define STREAM(i)    UINT64_C(0x1000) * ((uint64_t)(i) + 1)
#define STREAM_BYTES (300 * GP_KIB)

/* Memory that is asked for in streams, one of which is a blocking one, and how it may be freed. */
static void use_streams(gp_engine_t *engine, gp_context_t *const *contexts, const gp_driver_context_t *keys)
{
  stream_free_t held[LIVE / 4];
  gp_stream_order_t orders[2];

  for (int i = 0; i < 2; i++) {
    if (contexts[i])
      gp_stream_record_begin(engine, contexts[i], STREAM(i), i == 1);
    orders[i] = (gp_stream_order_t){
        .context = contexts[i], .stream_record = gp_stream_record_of(engine, STREAM(i)), .stream = STREAM(i)};
  }
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < LIVE / 4; i++) {
      int code;
      held[i] = (stream_free_t){.owner = keys[i % 2]};
      uint64_t bytes = (uint64_t)(i + 1) * STREAM_BYTES;
      if (!contexts[i % 2])
        continue;
      if (!gp_engine_alloc_async(engine, &orders[i % 2], bytes, &held[i].address, &code))
        code = DRIVER_CODE; /* the program gets the driver's memory */
      if (code != 0)
        held[i].address = 0;
      check_after_fault(engine);
      if (held[i].address == 0)
        continue;
      granted_ordered++;
      fake_submit_on(&driver, i % 2, held[i].address, STREAM_BYTES);
      fake_complete_in(&driver, i % 2, DRIVER_WORK_NS);
      if (i == 2) /* the driver frees it in the stream's order: here at once */
        fake_complete(&driver, i % 2);
      if (i == 2)
        gp_engine_taint(engine, held[i].address);
    }
    for (int i = 0; i < LIVE / 4; i++)
      if (held[i].address != 0) {
        if (i == 3) /* cudaFree does not wait for such memory: the program has */
          fake_complete(&driver, i % 2);
        free_of_stream(engine, &orders[i % 2], &held[i], i == 3);
        if (i == 2 && is_mapped(held[i].address))
          gp_engine_release(engine, held[i].address); /* which the pool kept for good */
      }
    check_after_fault(engine);
  }
}

/* Memory that is not pooled, come and gone, in the order of an unknown stream. */
static void forward(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind)
{
  gp_forwarded_t memory = {.address = 0x5000, .size = bytes, .kind = kind};

  if (!gp_engine_forwarded_reserve(engine, context, memory.size, kind))
    return;
  gp_engine_forwarded_commit(engine, context, &memory, 1);
  check_after_fault(engine);
  if (gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x5000, &memory)) {
    memory.is_freed_in_order = true;
    gp_engine_forwarded_freed(engine, &memory, 0, 1);
  }
  check_after_fault(engine);
}

/* Touches every module: misses, hits, fences, waits, trims, limits, passthrough, captures, taint, context
 * loss. */
static void run_scenario(gp_engine_t *engine)
{
  gp_driver_context_t keys[2] = {fake_context(0, 0), fake_context(1, 0)};
  gp_context_t *contexts[2];
  uint64_t blocks[LIVE] = {0};
  int code;

  for (int i = 0; i < 2; i++)
    contexts[i] = gp_engine_context(engine, &keys[i]);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < LIVE; i++) {
      gp_context_t *context = contexts[i % 2];
      uint64_t address = 0;
      bool got = context && gp_engine_alloc(engine, context, (uint64_t)(i + 1) * 300 * GP_KIB, &address) == 0;
      check_after_fault(engine);
      if (!got)
        continue;
      granted++;
      blocks[i] = address;
      fake_submit_on(&driver, i % 2, address, (uint64_t)(i + 1) * 300 * GP_KIB);
      fake_complete_in(&driver, i % 2, DRIVER_WORK_NS);
      if (i == 5)
        gp_engine_taint(engine, address);
      if (i == 6)
        gp_engine_retain(engine, address);
    }
    for (int i = 0; i < LIVE; i++) {
      if (blocks[i] == 0)
        continue;
      uint64_t address = blocks[i];
      gp_free_result_t result = gp_engine_free(engine, address, &code);
      if (result == GP_FREE_UNKNOWN)
        code = driver.ops.free(&driver, &keys[i % 2], address); /* untracked: the hook asks the driver */
      if (i == 5 && is_mapped(address))
        gp_engine_release(engine, address); /* which the pool kept for good */
      if (i == 6 && !gp_engine_release(engine, address))
        gp_engine_release(engine, address); /* the driver refused: once more */
      gp_engine_search(engine, contexts[i % 2]);
      if (code == DRIVER_CODE && gp_engine_free(engine, address, &code) == GP_FREE_UNKNOWN)
        code = driver.ops.free(&driver, &keys[i % 2], address); /* the program tries again */
      check_after_fault(engine);
      blocks[i] = 0;
    }
    if (contexts[0] && round == 1) {
      uint64_t token = gp_engine_sync_begin(engine);
      fake_complete(&driver, 0);
      gp_engine_sync_end(engine, contexts[0], token);
    }
    driver.now_ns += UINT64_C(2000000000);
    if (contexts[0]) {
      forward(engine, contexts[0], 3 * GP_MIB, GP_FORWARDED_MANAGED);
      forward(engine, contexts[0], 4096, GP_FORWARDED_PITCH);
      forward(engine, contexts[0], 3 * GP_MIB, GP_FORWARDED_HOST);
    }
    gp_engine_suspend(engine);
    uint64_t captured = 0;
    if (contexts[1] && gp_engine_alloc(engine, contexts[1], 1000, &captured) == 0) {
      gp_forwarded_t memory;
      bool known = gp_engine_forwarded_take(engine, GP_SPACE_POINTER, captured, &memory);
      if (driver.ops.free(&driver, &keys[1], captured) != 0)
        (void)driver.ops.free(&driver, &keys[1], captured);
      if (known)
        gp_engine_forwarded_freed(engine, &memory, 0, 1);
    }
    gp_engine_resume(engine);
    check_after_fault(engine);
  }
  use_streams(engine, contexts, keys);
  for (int i = 0; i < 2; i++)
    if (contexts[i])
      while (gp_engine_trim(engine, contexts[i], UINT64_MAX, GP_TRIM_REQUESTED) > 0) {
      }
  /* What a failed wait left deferred: */
  for (int i = 0; i < 2; i++) {
    if (!contexts[i])
      continue;
    uint64_t token = gp_engine_sync_begin(engine);
    fake_complete(&driver, i);
    gp_engine_sync_end(engine, contexts[i], token);
  }
  for (int i = 0; i < 2; i++) {
    if (!contexts[i])
      continue;
    while (gp_engine_trim(engine, contexts[i], UINT64_MAX, GP_TRIM_REQUESTED) > 0) {
    }
    (void)gp_engine_trim(engine, contexts[i], UINT64_MAX, GP_TRIM_REQUESTED); /* once more, after a failure */
  }
}

static const char *const settings[][5] = {
    {"GPUPOOL_LIMIT=70MiB", "GPUPOOL_MAX_DEFERRED=2MiB", "GPUPOOL_IDLE_RELEASE=1", NULL},
    {"GPUPOOL_REUSE=strict", "GPUPOOL_MAX_CACHED=10MiB", NULL},
    {"GPUPOOL_TYPE=naive", "GPUPOOL_RESERVE=20MiB", "GPUPOOL_MAX_DEFERRED=1MiB", NULL},
    {"GPUPOOL_SLACK=0", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_PREWARM=4MiB*3,300KiB*40", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_TYPE=unpooled", "GPUPOOL_LIMIT=70MiB", "GPUPOOL_HOST_LIMIT=70MiB", NULL},
    {"GPUPOOL_TYPE=segment", "GPUPOOL_LIMIT=80MiB", "GPUPOOL_MAX_DEFERRED=2MiB", NULL},
    {"GPUPOOL_TYPE=segment", "GPUPOOL_REUSE=strict", "GPUPOOL_MAX_CACHED=10MiB", NULL},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_LIMIT=80MiB", "GPUPOOL_MAX_DEFERRED=2MiB", NULL},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_MAX_CACHED=10MiB", "GPUPOOL_IDLE_RELEASE=1", NULL},
    {"GPUPOOL_PREWARM=4MiB*3,300KiB*40,90MiB", "GPUPOOL_LIMIT=70MiB", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_TYPE=segment", "GPUPOOL_PREWARM=4MiB*3,20MiB,90MiB", "GPUPOOL_RESERVE=20MiB", NULL},
    {"GPUPOOL_TYPE=vmm", "GPUPOOL_PREWARM=4MiB*3,20MiB,90MiB", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_FILL=zero", "GPUPOOL_LIMIT=70MiB", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_FILL=poison", "GPUPOOL_TYPE=vmm", "GPUPOOL_ASYNC=plain", NULL},
    {"GPUPOOL_ASYNC=plain", "GPUPOOL_LIMIT=70MiB", "GPUPOOL_MAX_DEFERRED=2MiB", NULL},
    {"GPUPOOL_ASYNC=plain", "GPUPOOL_TYPE=segment", "GPUPOOL_MAX_CACHED=10MiB", NULL},
    {"GPUPOOL_CHECK=edges,stale", "GPUPOOL_RESERVE=0", NULL},
    {"GPUPOOL_CHECK=stale", "GPUPOOL_TYPE=vmm", "GPUPOOL_ASYNC=plain", NULL},
    {"GPUPOOL_CHECK=edges,stale", "GPUPOOL_TYPE=segment", "GPUPOOL_LIMIT=80MiB", NULL},
};
#define SETTINGS_COUNT (int)(sizeof(settings) / sizeof(settings[0]))

/* Runs once with the given faults; returns false if the engine could not even be made. */
static bool run_once(const char *const *setting, long driver_fail_at, long host_at)
{
  static gp_options_t options;

  fake_driver_init(&driver, 96 * GP_MIB, true);
  driver.fail_code = DRIVER_CODE;
  driver.fail_at = driver_fail_at;
  fake_options(&options, setting);
  gp_driver_t table = fake_driver_table(&driver);
  host_calls = 0;
  host_fail_at = host_at;
  gp_engine_t *engine = gp_engine_create(&table, NULL, &options);
  if (engine) {
    granted = granted_ordered = 0;
    is_checked = false;
    run_scenario(engine);
    host_fail_at = 0;
    ck_assert_msg(gp_engine_check(engine), "driver call %ld, host call %ld", driver_fail_at, host_at);
    ck_assert_msg(driver.used == 0, "%llu bytes leaked; driver call %ld, host call %ld",
        (unsigned long long)driver.used, driver_fail_at, host_at);
    ck_assert_int_eq(driver.errors, 0);
    gp_stats_t stats;
    gp_engine_stats(engine, 0, &stats);
    ck_assert_uint_eq(stats.num_damages, 0);
    gp_engine_destroy(engine);
  }
  host_fail_at = 0;
  return engine != NULL;
}

/* Each call or allocation, or every fifth or fifteenth where it is to be quick */
static int step(void)
{
  const char *quick = getenv("GP_QUICK");
  return !quick ? 1 : strcmp(quick, "2") == 0 ? 15 : 5;
}

/* Stream-ordered memory comes from the driver by a call of its own, unless the limit has no room for a piece
 * of the driver's pools, or nothing is pooled. */
static void expect_granted(const char *const *setting)
{
  ck_assert_int_ge(granted, LEAST_GRANTED);
  ck_assert_int_eq(granted_ordered, strcmp(setting[0], "GPUPOOL_TYPE=unpooled") == 0 ? 0 : ORDERED_GRANTED);
}

START_TEST(test_driver_call_fails)
{
  long n = 0;
  do {
    n += step();
    ck_assert(run_once(settings[_i], n, 0));
    bool reached = driver.calls >= n;
    fake_driver_fini(&driver);
    if (!reached)
      break;
  } while (true);
  expect_granted(settings[_i]);
  ck_assert_int_gt(n, 50); /* the scenario is worth its name */
  bool is_pooled = strcmp(settings[_i][0], "GPUPOOL_TYPE=unpooled") != 0;
  ck_assert(driver.count[FAKE_ALLOC_IN] + driver.count[FAKE_CREATE] > 0 || !is_pooled);
}
END_TEST

START_TEST(test_host_allocation_fails)
{
  long n = 0;
  bool reached = true;
  while (reached) {
    n += step();
    bool made = run_once(settings[_i], 0, n);
    reached = !made || host_calls >= n;
    fake_driver_fini(&driver);
  }
  expect_granted(settings[_i]);
  ck_assert_int_gt(n, 5);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("fault");
  TCase *calls = tcase_create("calls");
  tcase_set_timeout(calls, 300);
  tcase_add_loop_test(calls, test_driver_call_fails, 0, SETTINGS_COUNT);
  tcase_add_loop_test(calls, test_host_allocation_fails, 0, SETTINGS_COUNT);
  suite_add_tcase(suite, calls);
  return gp_check_main(suite);
}
