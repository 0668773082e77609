/*
 * Walks of the loader's list beside fork. Time passes only while the module sleeps: its nanosleep and
 * clock_gettime are those of this file.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/loader_walk.h"
#include "test/pool/check_main.h"

#ifdef __SANITIZE_THREAD__
/* A child of fork ends with the parent's thread unjoined, which TSan would take for a leak. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
  return "report_thread_leaks=0";
}
#endif

static atomic_uint pauses;
static atomic_llong pause_ns; /* by which each moves the clock */
static atomic_llong passed_ns;

int nanosleep(const struct timespec *time, struct timespec *rest)
{
  (void)time;
  (void)rest;
  atomic_fetch_add(&pauses, 1);
  atomic_fetch_add(&passed_ns, atomic_load(&pause_ns));
  return sched_yield();
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
  long long now_ns = atomic_load(&passed_ns);
  (void)clock;
  *time = (struct timespec){now_ns / 1000000000, now_ns % 1000000000};
  return 0;
}

/* Before the first walk, so that this handler runs after the module's. */
static void (*in_fork)(void);

static void before_fork(void)
{
  if (in_fork)
    in_fork();
}

__attribute__((constructor)) static void watch_forks(void)
{
  (void)pthread_atfork(before_fork, NULL, NULL);
}

static void setup(void)
{
  in_fork = NULL;
  atomic_store(&pauses, 0);
  atomic_store(&pause_ns, 100000000);
  ck_assert(gp_loader_walk_begin());
  gp_loader_walk_end();
}

/* Returns what the child returned. */
static int fork_child(int (*child)(void))
{
  int status;
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0)
    _exit(child ? child() : 0);
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int count(struct dl_phdr_info *info, size_t size, void *arg)
{
  (void)info;
  (void)size;
  ++*(int *)arg;
  return 7;
}

static bool other_has_begun, own_has_begun;
static int other_visits;

static void *try_to_walk(void *unused)
{
  other_has_begun = gp_loader_walk_begin();
  if (other_has_begun)
    gp_loader_walk_end();
  ck_assert_int_eq(gp_loader_walk(count, &other_visits), 7);
  return unused;
}

static void others_walk(void)
{
  pthread_t thread;
  own_has_begun = gp_loader_walk_begin();
  gp_loader_walk_end();
  ck_assert_int_eq(pthread_create(&thread, NULL, try_to_walk, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* A capture goes without its walk, other walks wait a while; the thread that forks
 * need not wait for itself. */
START_TEST(test_another_thread_does_not_begin)
{
  other_visits = 0;
  in_fork = others_walk;
  ck_assert_int_eq(fork_child(NULL), 0);
  ck_assert(own_has_begun && !other_has_begun);
  ck_assert_int_eq(other_visits, 1);
  ck_assert_uint_gt(atomic_load(&pauses), 0);
  ck_assert(gp_loader_walk_begin());
  gp_loader_walk_end();
}
END_TEST

static sem_t has_begun, may_end;
static atomic_bool has_ended;

static void *walk_until_fork_waits(void *unused)
{
  ck_assert(gp_loader_walk_begin());
  sem_post(&has_begun);
  while (atomic_load(&pauses) == 0)
    (void)sched_yield();
  atomic_store(&has_ended, true);
  gp_loader_walk_end();
  return unused;
}

static void expect_end(void)
{
  atomic_fetch_add(&pauses, 1); /* a thread that would still be there may end now */
  ck_assert(atomic_load(&has_ended));
}

START_TEST(test_a_fork_waits_for_a_walk)
{
  pthread_t thread;

  atomic_store(&pause_ns, 0);
  atomic_store(&has_ended, false);
  in_fork = expect_end;
  sem_init(&has_begun, 0, 0);
  ck_assert_int_eq(pthread_create(&thread, NULL, walk_until_fork_waits, NULL), 0);
  sem_wait(&has_begun);
  ck_assert_int_eq(fork_child(NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void *walk_until_told(void *unused)
{
  ck_assert(gp_loader_walk_begin());
  sem_post(&has_begun);
  sem_wait(&may_end);
  gp_loader_walk_end();
  return unused;
}

/* The other thread's walk is none in the child, whose own forks wait for nothing. */
static int fork_in_child(void)
{
  atomic_store(&pauses, 0);
  bool begins = gp_loader_walk_begin();
  if (begins)
    gp_loader_walk_end();
  return fork_child(NULL) == 0 && begins && atomic_load(&pauses) == 0 ? 0 : 1;
}

START_TEST(test_patience_ends)
{
  pthread_t thread;

  sem_init(&has_begun, 0, 0);
  sem_init(&may_end, 0, 0);
  ck_assert_int_eq(pthread_create(&thread, NULL, walk_until_told, NULL), 0);
  sem_wait(&has_begun);
  ck_assert_int_eq(fork_child(fork_in_child), 0);
  ck_assert_uint_gt(atomic_load(&pauses), 0);
  sem_post(&may_end);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static int fork_within(struct dl_phdr_info *info, size_t size, void *arg)
{
  (void)info;
  (void)size;
  (void)arg;
  return fork_child(fork_in_child);
}

/* As in a signal handler. */
START_TEST(test_a_fork_within_a_walk_waits_for_no_walk)
{
  ck_assert_int_eq(gp_loader_walk(fork_within, NULL), 0);
  ck_assert_uint_eq(atomic_load(&pauses), 0);
  ck_assert_int_eq(fork_child(NULL), 0);
  ck_assert_uint_eq(atomic_load(&pauses), 0); /* and the walk is over */
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("loader_walk");
  TCase *tests = tcase_create("loader_walk");
  tcase_add_checked_fixture(tests, setup, NULL);
  tcase_add_test(tests, test_another_thread_does_not_begin);
  tcase_add_test(tests, test_a_fork_waits_for_a_walk);
  tcase_add_test(tests, test_patience_ends);
  tcase_add_test(tests, test_a_fork_within_a_walk_waits_for_no_walk);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
