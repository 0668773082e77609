/*
 * What other settings would have done: the sizes that the tool computes are those that the pool makes.
 */
#include <check.h>

#include <cjson/cJSON.h>

#include "pool/space/size_classes.h"
#include "test/pool/check_main.h"
#include "tools/model/what_if.h"

static void expect_same(const char *settings_text, const gp_pool_type_t *type, const gp_type_config_t *config)
{
  cJSON *settings = cJSON_Parse(settings_text);
  gp_block_sizes_t sizes;
  ck_assert(gp_block_sizes_init(&sizes, settings));
  for (unsigned log2 = 0; log2 < 36; log2++) {
    const uint64_t base = UINT64_C(1) << log2;
    const uint64_t requests[] = {
        base - (base > 1), base, base + 1, base + base / 3, base + base / 2 + 1, base + base / 8};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
      ck_assert_uint_eq(gp_block_bytes(&sizes, requests[i]), type->block_bytes(config, requests[i]));
  }
  cJSON_Delete(settings);
}

START_TEST(test_sizes_are_those_of_the_pool)
{
  gp_type_config_t config = {.page = 4096, .large_round = 2 << 20, .divisions = 8, .cutoff = 64};
  expect_same(
      "{\"type\":\"round\",\"page\":\"4KiB\",\"large_round\":\"2MiB\",\"round_divisions\":\"8\",\"round_cutoff\":\"none\"}",
      &gp_pool_type_round, &config);
  expect_same(
      "{\"type\":\"naive\",\"page\":\"4KiB\",\"large_round\":\"2MiB\"}", &gp_pool_type_naive, &config);
  /* What no setting of the pool can be is its default. */
  expect_same(
      "{\"type\":\"round\",\"page\":\"4KiB\",\"round_divisions\":\"0\"}", &gp_pool_type_round, &config);
  expect_same(
      "{\"type\":\"round\",\"page\":\"4KiB\",\"round_divisions\":\"65\"}", &gp_pool_type_round, &config);
  config = (gp_type_config_t){.page = 8192, .large_round = 64 << 20, .divisions = 1, .cutoff = 24};
  expect_same("{\"type\":\"round\",\"page\":\"8KiB\",\"round_divisions\":\"1\",\"round_cutoff\":\"24\"}",
      &gp_pool_type_round, &config);
  expect_same(
      "{\"type\":\"naive\",\"page\":\"8KiB\",\"large_round\":\"64MiB\"}", &gp_pool_type_naive, &config);
}
END_TEST

START_TEST(test_other_pools_have_no_sizes)
{
  static const char *const others[] = {"{}", "{\"type\":\"unpooled\"}", "{\"type\":7}",
      "{\"PYTORCH_CUDA_ALLOC_CONF\":\"\",\"expandable_segments\":\"0\"}"};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
    cJSON *settings = cJSON_Parse(others[i]);
    gp_block_sizes_t sizes;
    ck_assert(!gp_block_sizes_init(&sizes, settings));
    cJSON_Delete(settings);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("what_if");
  TCase *tcase = tcase_create("sizes");
  tcase_add_test(tcase, test_sizes_are_those_of_the_pool);
  tcase_add_test(tcase, test_other_pools_have_no_sizes);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
