/*
 * What a report of an out of memory says of idle memory in pieces.
 */
#include <string.h>

#include "pool/engine_record.h"
#include "pool/limits/oom.h"
#include "pool/space/block_slab.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

static gp_segment_t segments[4];
static gp_oom_t oom;

/* The segment's blocks by address, a letter for each MiB: a block goes on while the letter is the same. L:
 * live, R: retained, D: deferred, I: idle. */
static void add(gp_segment_t *segment, const char *states)
{
  static const char letters[] = {
      [GP_STATE_LIVE] = 'L', [GP_STATE_RETAINED] = 'R', [GP_STATE_DEFERRED] = 'D', [GP_STATE_IDLE] = 'I'};
  for (size_t i = 0; states[i];) {
    gp_block_t *block = gp_block_slab_take(engine);
    size_t length = strspn(states + i, (const char[]){states[i], '\0'});
    ck_assert_ptr_nonnull(block);
    block->size = length * GP_MIB;
    block->state = (gp_state_t)((const char *)memchr(letters, states[i], sizeof(letters)) - letters);
    block->segment = segment;
    gp_list_push_back(&context->blocks, &block->all);
    i += length;
  }
}

static void count(void)
{
  oom = (gp_oom_t){.requested = GP_MIB};
  gp_oom_count_pieces(context->device, &oom);
}

static void setup(void)
{
  start(NULL, GP_GIB, true);
  memset(segments, 0, sizeof(segments));
  gp_lock_take(&context->device->lock);
}

static void teardown(void)
{
  gp_list_init(&context->blocks);
  gp_lock_release(&context->device->lock);
  stop();
}

START_TEST(test_whole_blocks_are_never_in_pieces)
{
  add(NULL, "LIDRI");
  count();
  ck_assert_uint_eq(oom.in_pieces + oom.quiet_in_pieces + oom.quiet_largest, 0);
}
END_TEST

START_TEST(test_what_the_device_uses_joins_what_is_idle)
{
  context->device->stats->inactive_split_bytes.current = 3 * GP_MIB;
  add(&segments[0], "LIIDDDRI");
  count();
  ck_assert_uint_eq(oom.in_pieces, 3 * GP_MIB);
  ck_assert_uint_eq(oom.quiet_in_pieces, 6 * GP_MIB);
  ck_assert_uint_eq(oom.quiet_largest, 5 * GP_MIB);
  context->device->stats->inactive_split_bytes.current = 0;
}
END_TEST

START_TEST(test_a_segment_without_holders_can_go_back)
{
  add(&segments[0], "DDDDIIII");
  add(&segments[1], "ILD");
  add(NULL, "LI");
  add(&segments[2], "IIII");
  count();
  ck_assert_uint_eq(oom.quiet_in_pieces, 2 * GP_MIB);
  ck_assert_uint_eq(oom.quiet_largest, GP_MIB);
}
END_TEST

START_TEST(test_nothing_is_cut_from_a_closed_segment)
{
  segments[0].is_closed = true;
  add(&segments[0], "LIIII");
  count();
  ck_assert_uint_eq(oom.quiet_in_pieces, 4 * GP_MIB);
  ck_assert_uint_eq(oom.quiet_largest, 0);
}
END_TEST

/* Whole chunks of mapped memory that lie in a run of idle blocks can go back; what a chunk has beyond the run
 * cannot. */
START_TEST(test_of_mapped_memory_whole_chunks_can_go_back)
{
  enum { FIRST = 64 * GP_MIB };
  gp_chunk_t chunks[4];
  gp_range_t range = {.chunks = chunks, .count = 4, .capacity = 4};

  for (size_t i = 0; i < 4; i++)
    chunks[i] = (gp_chunk_t){.address = FIRST + i * 4 * GP_MIB, .size = 4 * GP_MIB};
  range.segment = (gp_segment_t){.context = context, .range = &range};
  add(&range.segment, "LLIIIIIIIIILIIII"); /* a chunk has four of them */
  uint64_t address = FIRST;
  GP_LIST_EACH(&context->blocks, gp_block_t, all, block) {
    block->address = address;
    address += block->size;
  }
  count();
  ck_assert_uint_eq(oom.quiet_in_pieces, (2 + 3) * GP_MIB);
  ck_assert_uint_eq(oom.quiet_largest, 9 * GP_MIB);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("oom_pieces");
  TCase *tcase = tcase_create("segments");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_whole_blocks_are_never_in_pieces);
  tcase_add_test(tcase, test_what_the_device_uses_joins_what_is_idle);
  tcase_add_test(tcase, test_a_segment_without_holders_can_go_back);
  tcase_add_test(tcase, test_nothing_is_cut_from_a_closed_segment);
  tcase_add_test(tcase, test_of_mapped_memory_whole_chunks_can_go_back);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
