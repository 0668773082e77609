/*
 * The main function of a Check program with one suite.
 */
#ifndef GP_TEST_POOL_CHECK_MAIN_H
#define GP_TEST_POOL_CHECK_MAIN_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int gp_check_run(Suite *suite, enum fork_status fork_status)
{
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, fork_status);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  if (failed > 0) {
    /* Without the leak checker: the memory that a failed test leaves would hide why it failed. */
    fflush(NULL);
    _exit(EXIT_FAILURE);
  }
  return EXIT_SUCCESS;
}

/* Without fork, so that sanitizers and debuggers see one process. */
static inline int gp_check_main(Suite *suite)
{
  return gp_check_run(suite, CK_NOFORK);
}

/* For tests of what a process does once, as the first look at its libraries: each in a process of its own,
 * unless CK_FORK=no. */
static inline int gp_check_main_apart(Suite *suite)
{
  return gp_check_run(suite, CK_FORK_GETENV);
}

#endif
