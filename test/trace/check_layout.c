/*
 * The hash of the record's layout (format/layout.h): any change of a name, of the order, of a place or
 * of a size gives another one.
 */
#include <check.h>
#include <string.h>

#include "format/layout.h"
#include "test/pool/check_main.h"

#define ENTRIES_MOST 1000

static gp_layout_entry_t changed[ENTRIES_MOST];
static size_t count;

static void copy_entries(void)
{
  const gp_layout_entry_t *entries = gp_layout_entries(&count);
  ck_assert_uint_ge(count, 100);
  ck_assert_uint_lt(count, ENTRIES_MOST);
  memcpy(changed, entries, count * sizeof(*entries));
}

static void expect_another_hash(const char *what, size_t entry)
{
  ck_assert_msg(gp_layout_hash_of(changed, count) != gp_layout_hash(), "%s of %s", what, changed[entry].name);
  copy_entries();
}

START_TEST(each_entry_counts)
{
  copy_entries();
  ck_assert_uint_eq(gp_layout_hash_of(changed, count), gp_layout_hash());
  for (size_t i = 0; i < count; i++) {
    changed[i].name = "renamed";
    expect_another_hash("a new name", i);
    changed[i].value++;
    expect_another_hash("another value or offset", i);
    changed[i].bytes *= 2;
    changed[i].bytes += !changed[i].bytes;
    expect_another_hash("another size", i);
    memmove(&changed[i], &changed[i + 1], (count - i - 1) * sizeof(changed[0]));
    count--;
    expect_another_hash("the lack", i);
  }
}
END_TEST

/* As after a change in a .def file: the later codes are one more, the names as they were. */
START_TEST(an_enumerator_in_the_middle_counts)
{
  copy_entries();
  for (size_t i = count / 4; i < count / 2; i++)
    changed[i].value++;
  expect_another_hash("an enumerator before it", count / 4);
  for (size_t i = 0; i + 1 < count; i++) {
    gp_layout_entry_t moved = changed[i];
    changed[i] = changed[i + 1];
    changed[i + 1] = moved;
    expect_another_hash("the place in the order", i);
  }
}
END_TEST

static size_t find(const char *name)
{
  size_t i = 0;
  while (i < count && strcmp(changed[i].name, name) != 0)
    i++;
  return i;
}

/* One of each kind is there; that no member is missing, the compiler sees (layout.c). */
START_TEST(the_lists_are_in_it)
{
  static const char *const names[] = {"GP_LAYOUT_REVISION", "GP_SECTION_EVENTS", "GP_RECORDING_ALL",
      "GP_ACTION_FORWARDED_FREE", "GP_DETAIL_FORWARDED_CAPTURE", "GP_LIVE_PENDING", "GP_CHUNK_SHARED",
      "gp_stats_t", "num_ooms", "gp_event_record_t", "flags"};
  copy_entries();
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    ck_assert_msg(find(names[i]) < count, "%s is not in the hash", names[i]);
  ck_assert_uint_eq(changed[find("gp_event_record_t")].bytes, 64);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("layout");
  TCase *tcase = tcase_create("hash");
  tcase_add_test(tcase, each_entry_counts);
  tcase_add_test(tcase, an_enumerator_in_the_middle_counts);
  tcase_add_test(tcase, the_lists_are_in_it);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
