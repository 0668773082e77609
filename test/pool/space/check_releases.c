/*
 * Memory on its way to the driver: who gets part of it waits until its release is recorded.
 */
#include <check.h>
#include <pthread.h>

#include "pool/space/releases.h"
#include "test/pool/check_main.h"

static gp_lock_t lock;
static gp_releases_t releases;
static gp_release_t release = {.address = 4096, .size = 1024};
static bool is_finished;

static void *finish(void *arg)
{
  (void)arg;
  gp_lock_take(&lock);
  gp_releases_finish(&releases, &release);
  is_finished = true;
  gp_lock_release(&lock);
  return NULL;
}

/* Whether a wait for these bytes ends behind the release, which needs the lock that only the wait lets go. */
static bool waits(uint64_t address, uint64_t size)
{
  pthread_t thread;

  is_finished = false;
  gp_releases_init(&releases, &lock);
  gp_lock_take(&lock);
  gp_releases_announce(&releases, &release);
  ck_assert_int_eq(pthread_create(&thread, NULL, finish, NULL), 0);
  gp_releases_await(&releases, address, size);
  bool waited = is_finished;
  gp_lock_release(&lock);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  return waited;
}

START_TEST(test_any_part_of_it_is_waited_for)
{
  gp_lock_init(&lock, GP_RANK_DEVICE);
  ck_assert(waits(4096, 1024));
  ck_assert(waits(4096, 1));
  ck_assert(waits(5119, 1));
  ck_assert(waits(4608, 4096));
  ck_assert(waits(2048, 2049));
  ck_assert(waits(0, 16384));
  ck_assert(!waits(2048, 2048));
  ck_assert(!waits(5120, 1024));
  ck_assert(gp_lock_is_free(&lock));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("releases");
  TCase *cases = tcase_create("releases");
  tcase_add_test(cases, test_any_part_of_it_is_waited_for);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
