/*
 * For the unit tests of the simulated GPU: each test is a process of its own (Check forks), so it may choose
 * the knobs before its first driver call.
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <check.h>
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/pool/check_main.h"

#define OK(call) ck_assert_int_eq((call), CUDA_SUCCESS)

static inline CUcontext test_start(void)
{
  CUcontext ctx;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&ctx, 0));
  OK(cuCtxSetCurrent(ctx));
  return ctx;
}

/* Runs `fn` in a process of its own and returns a counter of the statistics that it leaves. */
static inline long test_stat(void (*fn)(void), const char *key)
{
  char path[] = "/tmp/simcuda-test-XXXXXX", text[8192], pattern[64];
  int fd = mkstemp(path), status;
  ck_assert_int_ge(fd, 0);
  close(fd);
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    setenv("SIMCUDA_STATS", path, 1);
    fn();
    exit(0);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  unlink(path);
  snprintf(pattern, sizeof pattern, "\"%s\": ", key);
  const char *found = strstr(text, pattern);
  ck_assert_msg(found != NULL, "no %s in the statistics", key);
  found += strlen(pattern);
  return strtol(found + (*found == '['), NULL, 10);
}

#endif
