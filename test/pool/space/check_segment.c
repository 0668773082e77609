/*
 * Segments by themselves, without the engine's verbs: cut, joined, closed, and against a plain map of bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/engine_record.h"
#include "pool/space/block_slab.h"
#include "pool/space/segment.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define GRANULE GP_CUT_GRANULE
#define BASE    UINT64_C(0x700000000000)

static gp_segment_t segments[8];

static void begin(void)
{
  start(NULL, GP_GIB, true);
  gp_lock_take(&context->device->lock);
}

static void end(void)
{
  ck_assert(gp_list_is_empty(&context->blocks));
  gp_lock_release(&context->device->lock);
  stop();
}

/* A segment that is idle as a whole. */
static gp_block_t *add(int index, uint64_t address, uint64_t size)
{
  gp_block_t *block = gp_block_slab_take(engine);
  ck_assert_ptr_nonnull(block);
  segments[index] = (gp_segment_t){.address = address, .size = size, .context = context};
  block->address = address;
  block->size = size;
  block->context = context;
  block->free_epoch = 0;
  gp_segment_add(&segments[index], block);
  return gp_segment_enter_idle(engine, block, 0);
}

static void drop(gp_block_t *block)
{
  ck_assert_int_eq(block->state, GP_STATE_IDLE);
  gp_segment_leave_idle(block);
  gp_segment_remove(block->segment, block);
  gp_block_slab_give(engine, block);
}

static gp_block_t *take(uint64_t bytes)
{
  gp_block_t *block = gp_segment_take(engine, context, bytes);
  if (block) {
    block->state = GP_STATE_LIVE;
    ck_assert_uint_eq(block->size, bytes);
  }
  return block;
}

static gp_block_t *give(gp_block_t *block, uint64_t free_epoch)
{
  block->free_epoch = free_epoch;
  return gp_segment_enter_idle(engine, block, 1);
}

static uint64_t cached(void)
{
  return context->device->stats->cached_bytes.current;
}

static uint64_t in_parts(void)
{
  return context->device->stats->inactive_split_bytes.current;
}

START_TEST(test_split_and_join)
{
  begin();
  (void)add(0, BASE, 8 * GRANULE);
  ck_assert_uint_eq(cached(), 8 * GRANULE);
  ck_assert_uint_eq(in_parts(), 0);
  ck_assert(!gp_list_is_empty(&context->device->idle));
  gp_block_t *a = take(GRANULE), *b = take(2 * GRANULE), *c = take(GRANULE);
  ck_assert_uint_eq(a->address, BASE);
  ck_assert_uint_eq(b->address, BASE + GRANULE);
  ck_assert_uint_eq(c->address, BASE + 3 * GRANULE);
  ck_assert_uint_eq(cached(), 4 * GRANULE);
  ck_assert_uint_eq(in_parts(), 4 * GRANULE);
  ck_assert(gp_list_is_empty(&context->device->idle));
  ck_assert(gp_segment_check(context));
  ck_assert_uint_eq(give(b, 0)->size, 2 * GRANULE); /* alone: both neighbours are in use */
  ck_assert_ptr_null(take(5 * GRANULE));
  gp_block_t *joined = give(c, 0); /* both of its neighbours are idle */
  ck_assert_uint_eq(joined->address, BASE + GRANULE);
  ck_assert_uint_eq(joined->size, 7 * GRANULE);
  ck_assert_uint_eq(in_parts(), 7 * GRANULE);
  ck_assert(gp_segment_check(context));
  joined = give(a, 0);
  ck_assert(gp_segment_is_whole(joined));
  ck_assert_uint_eq(in_parts(), 0);
  ck_assert_uint_eq(cached(), 8 * GRANULE);
  ck_assert(!gp_list_is_empty(&context->device->idle));
  ck_assert(gp_segment_check(context));
  drop(joined);
  ck_assert_uint_eq(cached(), 0);
  end();
}
END_TEST

START_TEST(test_segments_side_by_side_stay_apart)
{
  begin();
  (void)add(0, BASE, 4 * GRANULE);
  (void)add(1, BASE + 4 * GRANULE, 4 * GRANULE);
  ck_assert_ptr_null(take(5 * GRANULE));
  gp_block_t *a = take(4 * GRANULE), *b = take(4 * GRANULE);
  a = give(a, 0);
  b = give(b, 0);
  ck_assert(gp_segment_is_whole(a));
  ck_assert(gp_segment_is_whole(b));
  ck_assert_ptr_eq(gp_segment_at(context, BASE + 4 * GRANULE - 1), a->segment);
  ck_assert_ptr_eq(gp_segment_at(context, BASE + 4 * GRANULE), b->segment);
  ck_assert_ptr_null(gp_segment_at(context, BASE + 8 * GRANULE));
  ck_assert_ptr_null(gp_segment_at(context, BASE - 1));
  ck_assert(gp_segment_check(context));
  drop(a);
  drop(b);
  end();
}
END_TEST

/* Joined memory may be used again when the newest of its frees may. */
START_TEST(test_joined_memory_has_the_highest_epoch)
{
  begin();
  (void)add(0, BASE, 3 * GRANULE);
  gp_block_t *a = take(GRANULE), *b = take(GRANULE), *c = take(GRANULE);
  (void)give(a, 7);
  (void)give(c, 3);
  ck_assert_ptr_nonnull(gp_cut_bins_find(&context->cut, GRANULE, 3));
  gp_block_t *joined = give(b, 5);
  ck_assert_uint_eq(joined->free_epoch, 7);
  a = take(GRANULE);
  ck_assert_ptr_null(gp_cut_bins_find(&context->cut, GRANULE, 6)); /* the rest has it, too */
  ck_assert(gp_segment_check(context));
  drop(give(a, 0));
  end();
}
END_TEST

START_TEST(test_closed_segment_hands_nothing_out)
{
  begin();
  (void)add(0, BASE, 4 * GRANULE);
  gp_block_t *a = take(GRANULE), *b = take(GRANULE);
  gp_segment_close(a->segment);
  gp_segment_close(a->segment);
  ck_assert_ptr_null(take(GRANULE));
  (void)give(a, 0);
  ck_assert_ptr_null(take(GRANULE));
  ck_assert(gp_segment_check(context));
  gp_block_t *joined = give(b, 0);
  ck_assert(gp_segment_is_whole(joined));
  ck_assert_ptr_null(take(GRANULE));
  ck_assert(gp_segment_check(context));
  drop(joined);
  end();
}
END_TEST

/* Random blocks in segments of 64 granules, each granule of which the model knows as free or not. */
#define MODEL_SEGMENTS 4
#define MODEL_GRANULES 64

static uint64_t random_state;

static uint64_t random_below(uint64_t bound)
{
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (random_state >> 33) % bound;
}

/* The longest run of free granules in one segment. */
static uint64_t longest_free(bool used[MODEL_SEGMENTS][MODEL_GRANULES])
{
  uint64_t longest = 0;
  for (int s = 0; s < MODEL_SEGMENTS; s++) {
    uint64_t run = 0;
    for (int g = 0; g < MODEL_GRANULES; g++) {
      run = used[s][g] ? 0 : run + 1;
      longest = run > longest ? run : longest;
    }
  }
  return longest;
}

static void mark(bool used[MODEL_SEGMENTS][MODEL_GRANULES], const gp_block_t *block, bool to)
{
  uint64_t index = (uint64_t)(block->segment - segments);
  uint64_t first = (block->address - block->segment->address) / GRANULE;
  for (uint64_t g = first; g < first + block->size / GRANULE; g++) {
    ck_assert(used[index][g] != to);
    used[index][g] = to;
  }
}

START_TEST(test_random_operations)
{
  static bool used[MODEL_SEGMENTS][MODEL_GRANULES];
  gp_block_t *live[MODEL_SEGMENTS * MODEL_GRANULES];
  uint64_t in_use = 0;
  int count = 0;

  begin();
  random_state = (uint64_t)_i;
  memset(used, 0, sizeof(used));
  for (int s = 0; s < MODEL_SEGMENTS; s++)
    (void)add(s, BASE + (uint64_t)s * MODEL_GRANULES * GRANULE, MODEL_GRANULES * GRANULE);
  for (int n = 0; n < 20000; n++) {
    uint64_t granules = 1 + random_below(random_below(4) ? 4 : MODEL_GRANULES);
    if (random_below(2)) {
      gp_block_t *block = take(granules * GRANULE);
      ck_assert_msg((block != NULL) == (longest_free(used) >= granules), "%d", n);
      if (block) {
        mark(used, block, true);
        live[count++] = block;
        in_use += block->size;
      }
    } else if (count > 0) {
      int i = (int)random_below((uint64_t)count);
      mark(used, live[i], false);
      in_use -= live[i]->size;
      (void)give(live[i], 0);
      live[i] = live[--count];
    }
    ck_assert_uint_eq(cached() + in_use, MODEL_SEGMENTS * MODEL_GRANULES * GRANULE);
    if (n % 16 == 0)
      ck_assert(gp_segment_check(context));
  }
  while (count > 0)
    (void)give(live[--count], 0);
  ck_assert_uint_eq(in_parts(), 0);
  for (int s = 0; s < MODEL_SEGMENTS; s++)
    drop(gp_list_entry(context->blocks.next, gp_block_t, all));
  end();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("segment");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_split_and_join);
  tcase_add_test(tests, test_segments_side_by_side_stay_apart);
  tcase_add_test(tests, test_joined_memory_has_the_highest_epoch);
  tcase_add_test(tests, test_closed_segment_hands_nothing_out);
  tcase_add_loop_test(tests, test_random_operations, 0, 4);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
