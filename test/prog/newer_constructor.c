/*
 * A library whose constructor waits for a thread that looks a function of the driver up: the loader's lock is
 * the first thread's all the while.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

int cuGetProcAddress_v2(
    const char *symbol, void **function, int version, unsigned long long flags, void *status);

static void *look_up(void *unused)
{
  void *function = NULL;
  (void)unused;
  return cuGetProcAddress_v2("cuLaunchFuture", &function, 14000, 0, NULL) == 0 ? function : NULL;
}

__attribute__((constructor)) static void start(void)
{
  pthread_t thread;
  void *function = NULL;
  if (pthread_create(&thread, NULL, look_up, NULL) != 0 || pthread_join(thread, &function) != 0 || !function)
    abort();
}
