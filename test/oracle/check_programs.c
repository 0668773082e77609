/*
 * The generator, the shrinker and the turns of threads by themselves, without a driver: programs are legal,
 * all kinds of steps and of nesting occur, what is not legal is refused, and a shrunk program has what it
 * needs and no more.
 */
#include "program.h"
#include "turns.h"
#include "test/pool/check_main.h"

#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const options_t all_options = {.ctx_events = true, .programmatic = true, .devices = 2};
static program_t program;

/* Of the seed: also kernels that wait, on both kinds of drivers, memory that is short, and memory of
 * cudaMallocAsync */
static options_t options_of(uint64_t seed)
{
  options_t options = all_options;
  options.ordered = seed > 5000;
  options.pool_orders = options.ordered && seed % 3;
  options.leaving = options.ordered && seed % 5 == 0;
  options.waits = seed > 3000 && seed % 8;
  options.free_is_async = options.waits && seed % 2;
  options.tight = options.waits && seed % 4 > 1 ? 6u << 20 : 0;
  return options;
}

START_TEST(test_programs_are_legal_and_of_all_kinds)
{
  unsigned kinds[STEP_KINDS] = {0}, nested = 0, threads[THREADS] = {0};
  for (uint64_t seed = 1; seed <= 8000; seed++) {
    static program_t again;
    const options_t options = options_of(seed);
    generate(&program, seed, &options);
    ck_assert_int_ge(program.count, 10);
    again = program;
    ck_assert_msg(model_check(&again), "seed %d is not legal", (int)seed);
    ck_assert_int_eq(memcmp(&again, &program, sizeof again), 0);
    for (int i = 0; i < program.count; i++) {
      kinds[program.steps[i].kind]++;
      nested += program.steps[i].inside > 0;
      threads[program.steps[i].thread]++;
    }
  }
  for (int kind = 0; kind < STEP_KINDS; kind++)
    ck_assert_msg(kinds[kind] >= 30, "%s occurs %u times", step_infos[kind].name, kinds[kind]);
  ck_assert_uint_ge(nested, 2000);
  for (int t = 0; t < THREADS; t++)
    ck_assert_uint_ge(threads[t], 10000);
}
END_TEST

START_TEST(test_a_seed_repeats)
{
  static program_t other;
  generate(&program, 5, &all_options);
  generate(&other, 6, &all_options);
  ck_assert_int_ne(memcmp(&program.steps, &other.steps, sizeof other.steps), 0);
  generate(&other, 5, &all_options);
  ck_assert_int_eq(program.count, other.count);
  ck_assert_int_eq(memcmp(&program.steps, &other.steps, (size_t)other.count * sizeof *other.steps), 0);
}
END_TEST

START_TEST(test_dependencies_name_earlier_steps)
{
  for (uint64_t seed = 1; seed <= 200; seed++) {
    generate(&program, seed, &all_options);
    for (int i = 0; i < program.count; i++) {
      for (int j = i; j < MAX_STEPS; j++)
        ck_assert_msg(!(program.after[i][j / 64] >> (j % 64) & 1), "step %d waits for %d", i, j);
    }
  }
}
END_TEST

/* ---- programs by hand ---- */

enum { BLOCKED = LANE_CREATED, OTHER, THIRD };

static bool take(model_t *model, step_t step)
{
  return model_append(model, &step);
}

static model_t *begin_under(options_t options)
{
  model_t *model = model_new();
  program.options = options;
  model_reset(model, &program);
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_CREATE, .lane = BLOCKED}));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_CREATE, .lane = OTHER, .flags = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_CREATE, .lane = THIRD, .flags = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_CREATE, .event = 0}));
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 0, .bytes = 4096}));
  return model;
}

static model_t *begin(void)
{
  return begin_under(all_options);
}

static bool sync_lane(model_t *model, int lane)
{
  return take(model, (step_t){.kind = STEP_STREAM_SYNC, .lane = (uint8_t)lane});
}

static bool fill(model_t *model, int lane)
{
  return take(model, (step_t){.kind = STEP_FILL, .lane = (uint8_t)lane});
}

START_TEST(test_unordered_accesses_are_refused)
{
  model_t *model = begin();
  ck_assert(!take(model, (step_t){.kind = STEP_EXPECT, .lane = OTHER})); /* nothing was written */
  ck_assert(fill(model, OTHER));
  ck_assert(!fill(model, THIRD));
  ck_assert(!fill(model, BLOCKED));
  ck_assert(!fill(model, LANE_LEGACY(0)));
  ck_assert(
      take(model, (step_t){.kind = STEP_STREAM_QUERY, .lane = OTHER})); /* its answer is not looked at */
  ck_assert(!fill(model, THIRD));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .lane = OTHER}));
  ck_assert(!fill(model, THIRD));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_WAIT, .lane = THIRD}));
  ck_assert(!fill(model, BLOCKED));
  ck_assert(fill(model, THIRD));
  ck_assert(
      take(model, (step_t){.kind = STEP_EVENT_WAIT, .lane = BLOCKED})); /* of a record before that access */
  ck_assert(!fill(model, BLOCKED));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_SYNC, .lane = THIRD}));
  ck_assert(fill(model, BLOCKED));
  ck_assert(fill(model, LANE_LEGACY(0))); /* which waits for it */
  ck_assert(!fill(model, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_FREE}));
  ck_assert(!fill(model, LANE_LEGACY(0)));
  ck_assert(!take(model, (step_t){.kind = STEP_FREE}));
  free(model);
}
END_TEST

START_TEST(test_what_a_call_in_progress_tells_is_known_when_it_ends)
{
  model_t *model = begin();
  step_t around = {.kind = STEP_CTX_SYNC, .inside = 2};
  step_t query = {.kind = STEP_STREAM_QUERY, .thread = 1, .lane = LANE_THREAD(0, 1)};
  ck_assert(fill(model, OTHER));
  ck_assert(take(model, around));
  ck_assert(!take(model, (step_t){.kind = STEP_FILL, .thread = 1, .lane = THIRD}));
  ck_assert(
      !take(model, (step_t){.kind = STEP_STREAM_QUERY, .lane = LANE_THREAD(0, 0)})); /* the same thread */
  ck_assert(take(model, query));
  ck_assert(take(model, query));
  ck_assert(fill(model, THIRD));
  ck_assert(take(model, around));
  ck_assert(take(
      model, (step_t){.kind = STEP_FILL, .thread = 1, .lane = THIRD})); /* behind its beginning, perhaps */
  ck_assert(take(model, query));
  ck_assert(!fill(model, OTHER));
  free(model);
}
END_TEST

START_TEST(test_during_a_capture)
{
  model_t *model = begin();
  ck_assert(take(model, (step_t){.kind = STEP_CAPTURE_BEGIN, .lane = OTHER, .flags = 1}));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_SYNC, .thread = 1}));
  ck_assert(!take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 8})); /* by this thread */
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 8, .thread = 1}));
  ck_assert(!fill(model, LANE_LEGACY(0)));
  ck_assert(fill(model, OTHER));
  ck_assert(fill(model, THIRD)); /* the captured work has not run */
  ck_assert(take(model, (step_t){.kind = STEP_CAPTURE_END, .lane = OTHER}));
  ck_assert(!take(model, (step_t){.kind = STEP_GRAPH_LAUNCH, .lane = OTHER}));
  ck_assert(take(model, (step_t){.kind = STEP_GRAPH_LAUNCH, .lane = THIRD}));
  ck_assert(take(model, (step_t){.kind = STEP_FREE}));
  ck_assert(!take(model, (step_t){.kind = STEP_GRAPH_LAUNCH, .lane = THIRD}));
  free(model);
}
END_TEST

/* ---- memory of cudaMallocAsync ---- */

static model_t *begin_async(bool pool_orders)
{
  options_t options = all_options;
  options.ordered = true;
  options.pool_orders = pool_orders;
  return begin_under(options);
}

static bool take_async(model_t *model, int m, int lane)
{
  return take(
      model, (step_t){.kind = STEP_ALLOC_ASYNC, .mem = (uint8_t)m, .lane = (uint8_t)lane, .bytes = 4096});
}

static bool on(model_t *model, step_kind_t kind, int m, int lane)
{
  return take(model, (step_t){.kind = kind, .mem = (uint8_t)m, .lane = (uint8_t)lane});
}

START_TEST(test_memory_is_used_between_its_allocation_and_its_free)
{
  model_t *model = begin_async(true);
  ck_assert(take_async(model, 1, OTHER));
  ck_assert(!on(model, STEP_FILL, 1, THIRD)); /* not before the allocation */
  ck_assert(!on(model, STEP_FREE, 1, OTHER)); /* which the host does not know to be complete */
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_SYNC, .lane = OTHER}));
  ck_assert(on(model, STEP_FILL, 1, THIRD));
  ck_assert(!on(model, STEP_FREE, 1, OTHER));
  ck_assert(!on(model, STEP_FREE_ASYNC, 1, OTHER));
  ck_assert(on(model, STEP_FREE_ASYNC, 1, THIRD));
  ck_assert(!on(model, STEP_FILL, 1, THIRD));
  ck_assert(take_async(model, 2, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_SYNC}));
  ck_assert(on(model, STEP_FREE, 2, 0));
  free(model);
}
END_TEST

START_TEST(test_what_overlaps_the_kernel_in_front)
{
  model_t *model = begin_async(true);
  ck_assert(take_async(model, 1, OTHER));
  ck_assert(!on(model, STEP_FILL_EARLY, 1, LANE_LEGACY(0)));
  ck_assert(on(model, STEP_FILL_EARLY, 1, OTHER)); /* an allocation is no kernel */
  ck_assert(!on(model, STEP_FILL_EARLY, 1, OTHER));
  free(model);
}
END_TEST

START_TEST(test_the_two_calls_and_the_default_stream)
{
  for (int pool_orders = 0; pool_orders < 2; pool_orders++) {
    model_t *model = begin_async(pool_orders);
    ck_assert(take_async(model, 1, BLOCKED));
    ck_assert_int_eq(on(model, STEP_FILL, 1, LANE_LEGACY(0)), pool_orders);
    ck_assert(on(model, STEP_FILL, 1, BLOCKED));
    ck_assert(on(model, STEP_FILL, 1, LANE_LEGACY(0)));
    ck_assert(on(model, STEP_FILL, 0, BLOCKED));
    ck_assert(take_async(model, 2, LANE_LEGACY(0))); /* behind that; and so what comes after it */
    ck_assert_int_eq(on(model, STEP_FILL, 0, LANE_THREAD(0, 0)), pool_orders);
    ck_assert_int_eq(on(model, STEP_FREE_ASYNC, 1, LANE_THREAD(0, 0)), pool_orders);
    ck_assert(on(model, STEP_FILL, 2, LANE_LEGACY(0)));
    ck_assert(take_async(model, 3, BLOCKED)); /* served from a pool, it is no operation */
    ck_assert(sync_lane(model, BLOCKED));
    ck_assert(!on(model, STEP_FILL, 2, OTHER));
    ck_assert(on(model, STEP_FILL, 3, OTHER));
    free(model);
  }
}
END_TEST

/* With GPUPOOL_ASYNC=plain. What others do with it has to be over, the free in one of their streams, too. */
START_TEST(test_memory_of_a_context_leaves_with_it)
{
  options_t options = all_options;
  options.ordered = options.pool_orders = options.leaving = true;
  model_t *model = begin_under(options);
  ck_assert(take(model, (step_t){.kind = STEP_CTX_CREATE, .ctx = 2}));
  ck_assert(take_async(model, 1, LANE_LEGACY(2)));
  ck_assert(take_async(model, 2, LANE_LEGACY(2)));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_SYNC, .ctx = 2}));
  ck_assert(!on(model, STEP_FILL, 1, LANE_LEGACY(0)));
  ck_assert(on(model, STEP_FREE_ASYNC, 1, LANE_LEGACY(0)));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 2}));
  ck_assert(on(model, STEP_FREE_ASYNC, 2, LANE_LEGACY(2)));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 2}));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_SYNC, .ctx = 0}));
  ck_assert(take_async(model, 3, LANE_LEGACY(2)));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 2})); /* what is left would be lost */
  ck_assert(on(model, STEP_FREE_ASYNC, 3, LANE_LEGACY(2)));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 2}));
  free(model);
}
END_TEST

START_TEST(test_memory_of_a_device_outlives_a_context)
{
  model_t *model = begin_async(true);
  ck_assert(take(model, (step_t){.kind = STEP_CTX_CREATE, .ctx = 2}));
  ck_assert(take_async(model, 1, LANE_LEGACY(2)));
  ck_assert(!on(model, STEP_FILL, 1, LANE_LEGACY(0)));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 2}));
  ck_assert(on(model, STEP_FILL, 1, LANE_LEGACY(0)));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 0})); /* it would be the last */
  ck_assert(on(model, STEP_FREE_ASYNC, 1, LANE_LEGACY(0)));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_DESTROY, .ctx = 0}));
  free(model);
}
END_TEST

START_TEST(test_inside_an_allocation_in_a_stream)
{
  model_t *model = begin_async(true);
  ck_assert(on(model, STEP_FILL, 0, BLOCKED));
  ck_assert(take(
      model, (step_t){.kind = STEP_ALLOC_ASYNC, .mem = 1, .lane = LANE_LEGACY(0), .bytes = 8, .inside = 2}));
  ck_assert(!take(model, (step_t){.kind = STEP_FILL, .mem = 1, .lane = LANE_LEGACY(0), .thread = 1}));
  /* The operation in the legacy stream may not have come yet. */
  ck_assert(!take(model, (step_t){.kind = STEP_FILL, .lane = LANE_THREAD(0, 1), .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .lane = LANE_LEGACY(0), .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_QUERY, .lane = LANE_LEGACY(0), .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_WAIT, .lane = OTHER}));
  ck_assert(!on(model, STEP_FILL, 1, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_FILL, .mem = 1, .lane = LANE_LEGACY(0)}));
  ck_assert(!take(model, (step_t){.kind = STEP_FREE_ASYNC, .mem = 1, .lane = OTHER, .inside = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_FREE_ASYNC, .mem = 1, .lane = BLOCKED, .inside = 1}));
  ck_assert(!take(model, (step_t){.kind = STEP_STREAM_DESTROY, .lane = BLOCKED, .thread = 1}));
  ck_assert(
      !take(model, (step_t){.kind = STEP_STREAM_DESTROY, .lane = OTHER, .thread = 1})); /* may be asked */
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_QUERY, .lane = OTHER, .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_SYNC, .lane = BLOCKED, .inside = 1}));
  ck_assert(!take(model, (step_t){.kind = STEP_STREAM_DESTROY, .lane = BLOCKED, .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_DESTROY, .lane = OTHER, .thread = 1}));
  free(model);
}
END_TEST

/* What another thread launches inside a free in the legacy stream may come behind the free's operation. */
START_TEST(test_inside_a_free_nothing_is_put_in_order)
{
  model_t *model = begin_async(true);
  ck_assert(take_async(model, 1, LANE_LEGACY(0)));
  ck_assert(take_async(model, 2, BLOCKED));
  ck_assert(take(model, (step_t){.kind = STEP_FREE_ASYNC, .mem = 1, .lane = LANE_LEGACY(0), .inside = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_FILL, .mem = 2, .lane = BLOCKED, .thread = 1}));
  ck_assert(!on(model, STEP_FILL, 2, LANE_THREAD(0, 0)));
  ck_assert(take_async(model, 3, LANE_LEGACY(0))); /* this one comes behind the fill */
  ck_assert(on(model, STEP_FILL, 2, LANE_THREAD(0, 0)));
  free(model);
}
END_TEST

START_TEST(test_memory_of_a_graph)
{
  model_t *model = begin_async(true);
  ck_assert(!on(model, STEP_CAPTURE_MEMORY, 0, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_CAPTURE_BEGIN, .lane = OTHER, .flags = 1}));
  ck_assert(on(model, STEP_CAPTURE_MEMORY, 0, OTHER));
  ck_assert(!take_async(model, 1, THIRD)); /* by this thread */
  ck_assert(
      take(model, (step_t){.kind = STEP_ALLOC_ASYNC, .mem = 1, .lane = THIRD, .bytes = 8, .thread = 1}));
  ck_assert(take(model, (step_t){.kind = STEP_CAPTURE_END, .lane = OTHER}));
  ck_assert(on(model, STEP_FILL, 0, LANE_LEGACY(0)));
  ck_assert(!on(model, STEP_FILL, 0, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_GRAPH_LAUNCH, .lane = BLOCKED})); /* it has work */
  ck_assert(sync_lane(model, BLOCKED));
  ck_assert(on(model, STEP_FILL, 0, OTHER));
  free(model);
}
END_TEST

/* ---- kernels that wait ---- */

static bool launch(model_t *model, step_kind_t kind, int number, int lane)
{
  return take(model, (step_t){.kind = kind, .wait = (uint8_t)number, .lane = (uint8_t)lane});
}

START_TEST(test_no_call_waits_for_a_kernel_that_does_not_end)
{
  model_t *model = begin();
  ck_assert(!take(model, (step_t){.kind = STEP_WRITE}));
  ck_assert(launch(model, STEP_WAIT, 0, OTHER));
  ck_assert(!sync_lane(model, OTHER));
  ck_assert(sync_lane(model, THIRD));
  ck_assert(sync_lane(model, LANE_LEGACY(0)));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_SYNC}));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_DESTROY}));
  ck_assert(!take(model, (step_t){.kind = STEP_FREE}));
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 4096}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .lane = OTHER}));
  ck_assert(!take(model, (step_t){.kind = STEP_EVENT_SYNC}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_WAIT, .lane = THIRD}));
  ck_assert(!sync_lane(model, THIRD));
  ck_assert(!model_check(&program)); /* it would not end */
  model_reset(model, &program);
  free(model);
  model = begin();
  ck_assert(launch(model, STEP_WAIT, 0, BLOCKED));
  ck_assert(sync_lane(model, OTHER));
  ck_assert(!sync_lane(model, LANE_LEGACY(0)));
  ck_assert(!take(model, (step_t){.kind = STEP_TO_DEVICE, .lane = LANE_LEGACY(0)}));
  ck_assert(fill(model, LANE_LEGACY(0)));
  ck_assert(sync_lane(model, LANE_THREAD(0, 0)));
  ck_assert(
      take(model, (step_t){.kind = STEP_MEMSET_SYNC, .lane = LANE_THREAD(0, 0)})); /* behind the legacy one */
  ck_assert(!sync_lane(model, LANE_THREAD(0, 0)));
  ck_assert(take(model, (step_t){.kind = STEP_WRITE}));
  ck_assert(!take(model, (step_t){.kind = STEP_WRITE}));
  ck_assert(sync_lane(model, LANE_THREAD(0, 0)));
  ck_assert(take(model, (step_t){.kind = STEP_FREE}));
  free(model);
}
END_TEST

START_TEST(test_a_free_that_waits_for_its_memory_only)
{
  options_t options = all_options;
  options.free_is_async = true;
  model_t *model = begin_under(options);
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 4096}));
  ck_assert(launch(model, STEP_WAIT, 0, OTHER));
  ck_assert(fill(model, OTHER));
  ck_assert(!take(model, (step_t){.kind = STEP_FREE}));
  ck_assert(take(model, (step_t){.kind = STEP_FREE, .mem = 1}));
  ck_assert(!take(model, (step_t){.kind = STEP_CTX_SYNC}));
  free(model);
}
END_TEST

START_TEST(test_collectives)
{
  model_t *model = begin();
  ck_assert(launch(model, STEP_MEET, 0, OTHER));
  ck_assert(!launch(model, STEP_MEET, 0, OTHER));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .lane = OTHER}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_WAIT, .lane = BLOCKED}));
  ck_assert(!launch(model, STEP_MEET, 0, BLOCKED));
  ck_assert(launch(model, STEP_MEET, 1, THIRD));
  ck_assert(launch(model, STEP_MEET, 0, THIRD)); /* has to wait for the other half of 1 */
  ck_assert(!sync_lane(model, OTHER));
  ck_assert(!launch(model, STEP_MEET, 1, OTHER)); /* and this half of 1 for 0 */
  ck_assert(!launch(model, STEP_MEET, 1, BLOCKED));
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_CREATE, .lane = THIRD + 1, .flags = 1}));
  ck_assert(launch(model, STEP_MEET, 1, THIRD + 1));
  ck_assert(sync_lane(model, OTHER));
  ck_assert(sync_lane(model, BLOCKED));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_SYNC}));
  ck_assert(model_check(&program));
  free(model);
}
END_TEST

START_TEST(test_kernels_that_wait_inside_calls)
{
  step_t inner = {.kind = STEP_WAIT, .thread = 1, .lane = OTHER};
  model_t *model = begin();
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 8, .inside = 1}));
  ck_assert(take(model, inner));
  inner.wait = 1;
  ck_assert(take(model, (step_t){.kind = STEP_STREAM_SYNC, .lane = THIRD, .inside = 2}));
  ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .thread = 1, .lane = OTHER}));
  /* That synchronization may come behind it. */
  ck_assert(!take(model, (step_t){.kind = STEP_EVENT_WAIT, .thread = 1, .lane = THIRD}));
  ck_assert(take(model, inner));
  free(model);
  options_t options = all_options;
  options.tight = 4096;
  model = begin_under(options);
  inner.wait = 0;
  ck_assert(!take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 8})); /* there is no room */
  ck_assert(take(model, (step_t){.kind = STEP_FREE}));
  ck_assert(take(model, (step_t){.kind = STEP_ALLOC, .mem = 1, .bytes = 8, .inside = 1}));
  ck_assert(!take(model, inner));
  free(model);
}
END_TEST

static bool comes_after(int index, int earlier)
{
  return program.after[index][earlier / 64] >> (earlier % 64) & 1;
}

START_TEST(test_kernels_that_wait_in_threads_that_run_freely)
{
  step_t query = {.kind = STEP_STREAM_QUERY, .thread = 1, .lane = LANE_THREAD(0, 1)};
  model_t *model = begin();
  ck_assert(take(model, query)); /* 5 */
  ck_assert(sync_lane(model, THIRD));
  ck_assert(launch(model, STEP_MEET, 0, OTHER)); /* 7 */
  ck_assert(take(model, query));
  ck_assert(launch(model, STEP_WAIT, 1, OTHER)); /* 9 */
  ck_assert(launch(model, STEP_MEET, 0, THIRD)); /* 10 */
  ck_assert(take(model, query));
  ck_assert(take(model, (step_t){.kind = STEP_WRITE, .wait = 1})); /* 12 */
  ck_assert(take(model, query));
  ck_assert(take(model, (step_t){.kind = STEP_CTX_SYNC, .thread = 1})); /* 14 */
  for (int i = 0; i < 7; i++)
    ck_assert(comes_after(7, i));
  for (int i = 0; i < 10; i++)
    ck_assert(comes_after(10, i));
  ck_assert(!comes_after(8, 7));
  for (int i = 11; i < 15; i++)
    ck_assert(comes_after(i, 10));
  ck_assert(comes_after(12, 9));
  ck_assert(!comes_after(13, 12));
  ck_assert(comes_after(14, 12));
  free(model);
}
END_TEST

/* Run freely, a lane that is put behind a kernel whose flag is written must not get there before the flag is:
 * a call before the write may wait for that lane, and the write may come after the call. */
START_TEST(test_nothing_gets_behind_a_kernel_before_its_flag_is_written)
{
  for (int way = 0; way < 3; way++) {
    model_t *model = begin();
    ck_assert(launch(model, STEP_WAIT, 0, OTHER));
    ck_assert(take(model, (step_t){.kind = STEP_EVENT_RECORD, .lane = OTHER}));
    ck_assert(take(model, (step_t){.kind = STEP_EVENT_CREATE, .event = 1}));
    ck_assert(sync_lane(model, LANE_LEGACY(0)));
    ck_assert(take(model, (step_t){.kind = STEP_WRITE}));
    int write = program.count - 1;
    const step_t behind[] = {
        {.kind = STEP_EVENT_WAIT, .lane = LANE_THREAD(0, 1), .thread = 1},
        {.kind = STEP_EVENT_RECORD, .lane = OTHER, .event = 1, .thread = 1},
        {.kind = STEP_CTX_WAIT, .thread = 1},
    };
    ck_assert(take(model, behind[way]));
    ck_assert_msg(comes_after(program.count - 1, write), "way %d", way);
    ck_assert(fill(model, THIRD)); /* which is behind nothing */
    ck_assert(way == 2 || !comes_after(program.count - 1, write));
    free(model);
  }
}
END_TEST

/* ---- shrinking ---- */

/* A free while another thread is in a synchronization, and a host function somewhere */
static bool has_both(const program_t *candidate)
{
  bool host = false, freed = false;
  for (int i = 0; i < candidate->count; i++) {
    const step_t *step = &candidate->steps[i];
    host |= step->kind == STEP_HOST_FUNC;
    for (int j = i + 1; j <= i + step->inside; j++)
      freed |= candidate->steps[j].kind == STEP_FREE;
  }
  return host && freed;
}

START_TEST(test_shrinking)
{
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 400 && shrunk < 5; seed++) {
    generate(&program, seed, &all_options);
    if (!has_both(&program))
      continue;
    shrunk++;
    shrink(&program, has_both);
    ck_assert(has_both(&program));
    ck_assert(model_check(&program));
    /* host function, allocation, call around, free; what an event call needs besides */
    ck_assert_msg(program.count <= 5, "seed %d: %d steps", (int)seed, program.count);
  }
  ck_assert_int_eq(shrunk, 5);
}
END_TEST

static atomic_bool is_over, has_seen_it;

/* Step 0 hands over steps 1 and 2 of another thread, of which 1 cannot be completed before step 0 goes on. */
static void take_turn(int index)
{
  if (index == 0) {
    ck_assert(!turns_take(1, 1));
    ck_assert(!atomic_load(&has_seen_it));
    atomic_store(&is_over, true);
    ck_assert(turns_take(1, 2));
    turns_await();
  } else if (index == 1) {
    while (!atomic_load(&is_over))
      (void)sched_yield();
    atomic_store(&has_seen_it, true);
  } else {
    ck_assert(atomic_load(&has_seen_it));
    if (index == 3)
      (void)sched_yield();
  }
}

START_TEST(test_a_turn_is_given_back)
{
  turns_begin(take_turn);
  ck_assert(turns_take(0, 0));
  ck_assert(turns_take(1, 3)); /* handed over by no step, so it has its turn to the end */
  turns_end();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("programs");
  TCase *tcase = tcase_create("programs");
  tcase_add_test(tcase, test_programs_are_legal_and_of_all_kinds);
  tcase_add_test(tcase, test_a_seed_repeats);
  tcase_add_test(tcase, test_dependencies_name_earlier_steps);
  tcase_add_test(tcase, test_unordered_accesses_are_refused);
  tcase_add_test(tcase, test_what_a_call_in_progress_tells_is_known_when_it_ends);
  tcase_add_test(tcase, test_during_a_capture);
  tcase_add_test(tcase, test_memory_is_used_between_its_allocation_and_its_free);
  tcase_add_test(tcase, test_what_overlaps_the_kernel_in_front);
  tcase_add_test(tcase, test_the_two_calls_and_the_default_stream);
  tcase_add_test(tcase, test_memory_of_a_device_outlives_a_context);
  tcase_add_test(tcase, test_memory_of_a_context_leaves_with_it);
  tcase_add_test(tcase, test_inside_an_allocation_in_a_stream);
  tcase_add_test(tcase, test_inside_a_free_nothing_is_put_in_order);
  tcase_add_test(tcase, test_memory_of_a_graph);
  tcase_add_test(tcase, test_no_call_waits_for_a_kernel_that_does_not_end);
  tcase_add_test(tcase, test_a_free_that_waits_for_its_memory_only);
  tcase_add_test(tcase, test_collectives);
  tcase_add_test(tcase, test_kernels_that_wait_inside_calls);
  tcase_add_test(tcase, test_kernels_that_wait_in_threads_that_run_freely);
  tcase_add_test(tcase, test_nothing_gets_behind_a_kernel_before_its_flag_is_written);
  tcase_add_test(tcase, test_shrinking);
  tcase_add_test(tcase, test_a_turn_is_given_back);
  tcase_set_timeout(tcase, 60);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
