/*
 * Threads of a test that begin at the same moment, one group at a time in a program.
 */
#ifndef GP_TEST_POOL_RUN_TOGETHER_H
#define GP_TEST_POOL_RUN_TOGETHER_H

#include <check.h>
#include <pthread.h>
#include <stdint.h>

#define GP_TOGETHER_MAX 16

static pthread_barrier_t gp_together_barrier;
static void (*gp_together_work)(uintptr_t number);

/* For the group: each thread waits here for all others. */
static inline void gp_meet(void)
{
  pthread_barrier_wait(&gp_together_barrier);
}

static inline void *gp_together_run(void *number)
{
  gp_meet();
  gp_together_work((uintptr_t)number);
  return NULL;
}

/* Runs work(0) to work(count - 1), each in a thread of its own, and waits for their ends. */
static inline void gp_run_together(uintptr_t count, void (*work)(uintptr_t number))
{
  pthread_t threads[GP_TOGETHER_MAX];

  ck_assert_uint_le(count, GP_TOGETHER_MAX);
  gp_together_work = work;
  pthread_barrier_init(&gp_together_barrier, NULL, (unsigned)count);
  for (uintptr_t i = 0; i < count; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, gp_together_run, (void *)i), 0);
  for (uintptr_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&gp_together_barrier);
}

#endif
