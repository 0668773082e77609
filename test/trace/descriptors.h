/*
 * A fixture of Check: a test that ends with more file descriptors than it began with has lost one.
 */
#ifndef GP_TEST_TRACE_DESCRIPTORS_H
#define GP_TEST_TRACE_DESCRIPTORS_H

#include <check.h>
#include <fcntl.h>

#define GP_DESCRIPTORS 1024

static unsigned descriptors_before;

static inline unsigned gp_count_descriptors(void)
{
  unsigned count = 0;
  for (int fd = 0; fd < GP_DESCRIPTORS; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static void note_descriptors(void)
{
  descriptors_before = gp_count_descriptors();
}

static void expect_no_more_descriptors(void)
{
  ck_assert_uint_le(gp_count_descriptors(), descriptors_before);
}

/* Before the other fixtures of the case: its end comes after theirs. */
static inline void gp_add_descriptor_fixture(TCase *tcase)
{
  tcase_add_checked_fixture(tcase, note_descriptors, expect_no_more_descriptors);
}

#endif
