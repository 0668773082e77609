/*
 * Numbers that several processes take: each once, and what they leave is in shared memory.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "tools/side_by_side.h"

#define NUMBERS 500

typedef struct shared {
  _Atomic int times[NUMBERS];
  _Atomic int in_copies; /* calls that another process than the test's made */
} shared_t;

typedef struct work {
  shared_t *shared;
  pid_t test;
  bool copies_end; /* each by its first call */
  int own;         /* calls of this process */
} work_t;

static void take(void *self, size_t number)
{
  work_t *work = self;
  work->own++;
  atomic_fetch_add(&work->shared->times[number], 1);
  if (getpid() == work->test) { /* after the first leaves a number for the copies, if there are any */
    while (work->own == 2 && sysconf(_SC_NPROCESSORS_ONLN) > 1 && !atomic_load(&work->shared->in_copies))
      usleep(100);
    return;
  }
  atomic_fetch_add(&work->shared->in_copies, 1);
  if (work->copies_end) {
    atomic_store(&work->shared->times[number], 0);
    (void)kill(getpid(), SIGKILL);
  }
}

static work_t run(bool copies_end)
{
  work_t work = {gp_shared_alloc(sizeof(*work.shared)), getpid(), copies_end, 0};
  ck_assert_ptr_nonnull(work.shared);
  gp_side_by_side(NUMBERS, take, &work);
  return work;
}

START_TEST(test_each_number_is_taken_once)
{
  work_t work = run(false);
  for (size_t i = 0; i < NUMBERS; i++)
    ck_assert_int_eq(work.shared->times[i], 1);
  ck_assert_int_eq(work.own + work.shared->in_copies, NUMBERS);
  ck_assert(work.own < NUMBERS || sysconf(_SC_NPROCESSORS_ONLN) == 1);
  gp_shared_free(work.shared, sizeof(*work.shared));
}
END_TEST

/* This process takes what is left. */
START_TEST(test_a_copy_that_is_killed_loses_one_number)
{
  work_t work = run(true);
  int lost = 0;
  for (size_t i = 0; i < NUMBERS; i++)
    lost += work.shared->times[i] == 0;
  ck_assert_int_eq(lost, work.shared->in_copies);
  ck_assert_int_eq(work.own, NUMBERS - lost);
  ck_assert_int_le(lost, 7);
  gp_shared_free(work.shared, sizeof(*work.shared));
}
END_TEST

START_TEST(test_few_numbers)
{
  work_t work = {
      gp_shared_alloc(sizeof(*work.shared)), 0, false, 0}; /* no process is the test's: nothing waits */
  for (size_t count = 0; count < 3; count++)
    gp_side_by_side(count, take, &work);
  ck_assert_int_eq(work.shared->times[0], 2);
  ck_assert_int_eq(work.shared->times[1], 1);
  ck_assert_int_eq(work.shared->times[2], 0);
  gp_shared_free(work.shared, sizeof(*work.shared));
}
END_TEST

START_TEST(test_what_is_behind_shared_memory_cannot_be_read)
{
  static const size_t sizes[] = {8, 40, 4096, 5000};
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    char *memory = gp_shared_alloc(sizes[i]);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_eq(write(ends[1], memory, sizes[i]), (int)sizes[i]);
    ck_assert_int_eq(write(ends[1], memory + sizes[i], 1), -1);
    ck_assert_int_eq(errno, EFAULT);
    gp_shared_free(memory, sizes[i]);
    ck_assert_int_eq(write(ends[1], memory, 1), -1); /* all of it is gone */
  }
  (void)close(ends[0]);
  (void)close(ends[1]);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("side by side");
  TCase *cases = tcase_create("numbers");
  tcase_add_test(cases, test_each_number_is_taken_once);
  tcase_add_test(cases, test_a_copy_that_is_killed_loses_one_number);
  tcase_add_test(cases, test_few_numbers);
  tcase_add_test(cases, test_what_is_behind_shared_memory_cannot_be_read);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
