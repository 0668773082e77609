/*
 * Fixtures of Check: a test that ends with more file descriptors, or more pages of gp_pages_map, than it
 * began with has lost them.
 */
#ifndef GP_TEST_TRACE_LEAKS_H
#define GP_TEST_TRACE_LEAKS_H

#include <check.h>
#include <fcntl.h>

#include "base/pages.h"

#define GP_DESCRIPTORS 1024

static unsigned descriptors_before;
static size_t pages_before __attribute__((unused));

static inline unsigned gp_count_descriptors(void)
{
  unsigned count = 0;
  for (int fd = 0; fd < GP_DESCRIPTORS; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static inline size_t pages_held(void)
{
#if GP_DEBUG_LEVEL >= 1
  return atomic_load(&gp_pages_held_bytes);
#else
  return 0;
#endif
}

static void note_descriptors(void)
{
  descriptors_before = gp_count_descriptors();
}

static void expect_no_more_descriptors(void)
{
  ck_assert_uint_le(gp_count_descriptors(), descriptors_before);
}

static inline void note_pages(void)
{
  ck_assert(gp_emergency_pages_prepare()); /* which stay for good */
  pages_before = pages_held();
}

static inline void expect_no_more_pages(void)
{
  ck_assert_uint_le(pages_held(), pages_before);
}

/* Before the other fixtures of the case: its end comes after theirs. Pages are another fixture, for cases
 * without a thread that the library ends: its own pages go with it, later. */
static inline void gp_add_descriptor_fixture(TCase *tcase)
{
  tcase_add_checked_fixture(tcase, note_descriptors, expect_no_more_descriptors);
}

static inline void gp_add_leak_fixtures(TCase *tcase)
{
  gp_add_descriptor_fixture(tcase);
  tcase_add_checked_fixture(tcase, note_pages, expect_no_more_pages);
}

#endif
