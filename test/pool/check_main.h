/*
 * The main function of a Check program with one suite. Without fork, so that sanitizers and debuggers see one
 * process.
 */
#ifndef GP_TEST_POOL_CHECK_MAIN_H
#define GP_TEST_POOL_CHECK_MAIN_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int gp_check_main(Suite *suite)
{
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  if (failed >
      0) { /* without the leak checker: the memory that a failed test leaves would hide why it failed */
    fflush(NULL);
    _exit(EXIT_FAILURE);
  }
  return EXIT_SUCCESS;
}

#endif
