/*
 * What every pool type owes its users, whatever the reuse mode and the driver: the same random program runs
 * on each.
 *
 * The model: memory handed out never overlaps live memory, holds at least what was asked for, is aligned, and
 * no work of an earlier owner is pending on it; counts and sums are what the program did; nothing is lost at
 * the end.
 */
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "test/pool/fake_driver.h"

#define OPERATIONS 20000
#define LIVE_MAX   200
#define CAPACITY   (256 * GP_MIB)

typedef struct config {
  const char *name;
  const char *settings[6];
  bool with_fence;
} config_t;

#define TYPE(type) "GPUPOOL_TYPE=" type
/* name, and the settings that choose the pool */
#define CONFIGS(name, ...)                                                                                   \
  {name " context fence", {__VA_ARGS__, NULL}, true},                                                        \
      {name " context no fence", {__VA_ARGS__, NULL}, false},                                                \
      {name " strict", {__VA_ARGS__, "GPUPOOL_REUSE=strict", NULL}, true},                                   \
      {name " tight",                                                                                        \
          {__VA_ARGS__, "GPUPOOL_LIMIT=48MiB", "GPUPOOL_MAX_DEFERRED=1MiB", "GPUPOOL_RESERVE=0", NULL},      \
          true},                                                                                             \
      {name " prewarmed", {__VA_ARGS__, "GPUPOOL_PREWARM=3MiB*8,70000*9,20MiB", "GPUPOOL_RESERVE=0", NULL},  \
          true},                                                                                             \
      {name " filled", {__VA_ARGS__, "GPUPOOL_FILL=zero", "GPUPOOL_RESERVE=0", NULL}, true},                 \
  {                                                                                                          \
    name " trimming", {__VA_ARGS__, "GPUPOOL_MAX_CACHED=8MiB", "GPUPOOL_IDLE_RELEASE=1", NULL}, true         \
  }

static const config_t configs[] = {
    CONFIGS("round", TYPE("round")),
    CONFIGS("naive", TYPE("naive")),
    CONFIGS("unpooled", TYPE("unpooled")),
    CONFIGS("segment", TYPE("segment")),
    CONFIGS("vmm", TYPE("vmm")),
    {"round budget", {"GPUPOOL_SLACK=0", "GPUPOOL_RESERVE=0", NULL}, true},
    {"naive budget", {TYPE("naive"), "GPUPOOL_SLACK=1MiB", NULL}, true},
    {"round mxnet", {"GPUPOOL_ROUND_CUTOFF=20", NULL}, true},
};
#define CONFIG_COUNT (int)(sizeof(configs) / sizeof(configs[0]))

typedef struct owned {
  uint64_t address;
  uint64_t bytes;
  int context;
} owned_t;

typedef struct model {
  fake_driver_t driver;
  gp_engine_t *engine;
  gp_context_t *contexts[2];
  bool fills;
  owned_t live[LIVE_MAX];
  int live_count;
  uint64_t requested;
  uint64_t peak_requested;
  uint64_t allocations;
  uint64_t frees;
  uint64_t refused;
} model_t;

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (random_state >> 33) % bound;
}

static uint64_t random_size(void)
{
  switch (random_below(4)) {
  case 0: return 1 + random_below(4096);
  case 1: return 1 + random_below(GP_MIB);
  case 2: return UINT64_C(1) << (9 + random_below(13)); /* repeating sizes: these hit */
  default: return 1 + random_below(6 * GP_MIB);
  }
}

static void expect_disjoint(const model_t *model, uint64_t address, uint64_t bytes)
{
  for (int i = 0; i < model->live_count; i++) {
    const owned_t *other = &model->live[i];
    /* Not an assert each: Check writes to a pipe for every one that holds. */
    if (address + bytes > other->address && other->address + other->bytes > address)
      ck_abort_msg(
          "block %#llx overlaps live %#llx", (unsigned long long)address, (unsigned long long)other->address);
  }
}

/* The device's work ends by itself while the engine waits: soon, late, too late for
 * its patience; or never. */
static void submit(model_t *model, int index, uint64_t address, uint64_t bytes)
{
  static const uint64_t takes_ns[] = {100000, 1000000, 50000000, 3000000000};

  fake_submit_on(&model->driver, index, address, bytes);
  fake_complete_in(&model->driver, index, random_below(16) > 0 ? takes_ns[random_below(4)] : 0);
}

static void do_alloc(model_t *model)
{
  int index = (int)random_below(2);
  uint64_t bytes = random_size();
  uint64_t address = 0;

  if (model->live_count == LIVE_MAX)
    return;
  int code = gp_engine_alloc(model->engine, model->contexts[index], bytes, &address);
  if (code != 0) {
    ck_assert_int_eq(code, FAKE_OUT_OF_MEMORY);
    model->refused++;
    return;
  }
  ck_assert_uint_eq(address % 512, 0);
  expect_disjoint(model, address, bytes);
#ifndef GP_UNSAFE_REUSE
  ck_assert_msg(!fake_is_any_in_use(&model->driver, address, bytes),
      "handed out while work of an earlier owner is pending");
#endif
  if (model->fills) {
    const fake_fill_t *fill = fake_fill_at(&model->driver, address);
    ck_assert_msg(fill && fill->is_done && fill->bytes == bytes, "handed out and not filled");
  }
  model->live[model->live_count++] = (owned_t){address, bytes, index};
  model->allocations++;
  model->requested += bytes;
  if (model->requested > model->peak_requested)
    model->peak_requested = model->requested;
  if (random_below(4) > 0)
    submit(model, (int)random_below(2), address, bytes);
}

static void do_free(model_t *model)
{
  int code = -1;

  if (model->live_count == 0)
    return;
  int index = (int)random_below((uint64_t)model->live_count);
  owned_t block = model->live[index];
  if (random_below(3) == 0)
    submit(model, block.context, block.address, block.bytes);
  ck_assert_int_eq(gp_engine_free(model->engine, block.address, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, 0);
  model->live[index] = model->live[--model->live_count];
  model->frees++;
  model->requested -= block.bytes;
}

static void do_sync(model_t *model)
{
  int index = (int)random_below(2);
  uint64_t token = gp_engine_sync_begin(model->engine);
  fake_complete(&model->driver, index);
  gp_engine_sync_end(model->engine, model->contexts[index], token);
}

static void do_step(model_t *model)
{
  uint64_t dice = random_below(100);

  model->driver.now_ns += random_below(2000000);
  if (dice < 50)
    do_alloc(model);
  else if (dice < 92)
    do_free(model);
  else if (dice < 95)
    do_sync(model);
  else if (dice < 98)
    fake_complete(
        &model->driver, (int)random_below(2)); /* the device completes some of it; the pool does not look */
  else if (dice < 99)
    gp_engine_trim(model->engine, model->contexts[0], random_below(8 * GP_MIB), GP_TRIM_REQUESTED);
}

START_TEST(test_random_program)
{
  const config_t *config = &configs[_i];
  static model_t model;
  gp_stats_t stats;

  memset(&model, 0, sizeof(model));
  random_state = 12345 + (uint64_t)_i;
  fake_driver_init(&model.driver, CAPACITY, config->with_fence);
  model.engine = fake_engine(&model.driver, NULL, config->settings);
  model.fills = strstr(config->name, "filled") != NULL;
  for (int i = 0; i < 2; i++) {
    gp_driver_context_t context = fake_context(i, 0);
    model.contexts[i] = gp_engine_context(model.engine, &context);
  }
  for (int i = 0; i < OPERATIONS; i++) {
    do_step(&model);
    if (i % 97 == 0)
      ck_assert_msg(gp_engine_check(model.engine), "%s: after operation %d", config->name, i);
    ck_assert_uint_le(model.driver.used, CAPACITY);
  }
  gp_engine_stats(model.engine, 0, &stats);
  ck_assert_uint_eq(stats.allocation.allocated, model.allocations);
  ck_assert_uint_eq(stats.allocation.freed, model.frees);
  ck_assert_uint_eq(stats.requested_bytes.peak, model.peak_requested);
  ck_assert_uint_eq(stats.requested_bytes.current, model.requested);
  ck_assert_uint_eq(stats.num_ooms, model.refused);
  /* Not a program that got nothing: of about as many requests as frees, few are refused even where it is
   * tight. */
  ck_assert_uint_gt(model.allocations, OPERATIONS * 2 / 5);
  ck_assert_uint_gt(model.allocations, 4 * model.refused);
  ck_assert((stats.cache_hits > OPERATIONS / 50) == (strstr(config->name, "unpooled") == NULL));
  ck_assert_uint_eq(stats.reserved_bytes.current, model.driver.used);
  ck_assert_uint_eq(stats.driver_allocs - stats.driver_frees,
      (uint64_t)(model.driver.allocation_count + model.driver.physical_count));
  uint64_t limit = gp_engine_limit(model.engine, 0);
  if (limit)
    ck_assert_uint_le(model.driver.peak, limit);

  while (model.live_count > 0)
    do_free(&model);
  for (int i = 0; i < 2; i++) {
    uint64_t token = gp_engine_sync_begin(model.engine);
    fake_complete(&model.driver, i);
    gp_engine_sync_end(model.engine, model.contexts[i], token);
  }
  gp_engine_trim(model.engine, model.contexts[0], UINT64_MAX, GP_TRIM_REQUESTED);
  ck_assert_uint_eq(model.driver.used, 0);
  ck_assert_int_eq(model.driver.errors, 0);
  ck_assert(gp_engine_check(model.engine));
  gp_engine_destroy(model.engine);
  fake_driver_fini(&model.driver);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("contract");
  TCase *random_programs = tcase_create("random programs");
  tcase_set_timeout(random_programs, 300);
  tcase_add_loop_test(random_programs, test_random_program, 0, CONFIG_COUNT);
  suite_add_tcase(suite, random_programs);
  return gp_check_main(suite);
}
