#include "trace/control/helper_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/cancel.h"

#define STACK_BYTES                                                                                          \
  (256 * 1024) /* address space only; pages become resident when used, and large buffers are elsewhere */
#define HELPERS_MOST 3
#define LOOK_MS      100 /* polling interval while the main thread is running */
#define LAST_LOOK_MS 5   /* polling interval after the end of the main thread */
#define OTHER_LINKS  2   /* st_nlink of /proc/self/task is this number plus the number of threads */

typedef struct helper {
  void *(*fn)(void *arg);
  void *arg;
} helper_t;

/* Helpers are started one at a time, all by the same process. */
static helper_t helpers[HELPERS_MOST];
static unsigned helper_count;
static sigset_t program_mask; /* signal mask of the program's thread that started the first helper */

/* The number of running helpers. A helper is counted after its start, while the program's thread that starts
 * it is still running. It is uncounted when it returns. So the number is never too high. */
static atomic_int living;

static void *run(void *arg)
{
  const helper_t *helper = arg;
  (void)gp_cancel_hold(); /* not restored, because the thread lives until the process ends */
  void *result = helper->fn(helper->arg);
  atomic_fetch_sub(&living, 1);
  return result;
}

static int start(const char *name, void *(*fn)(void *arg), void *arg)
{
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;

  gp_assert(helper_count < HELPERS_MOST);
  helper_t *helper = &helpers[helper_count];
  *helper = (helper_t){fn, arg};
  int error = pthread_attr_init(&attributes);
  if (error)
    return error;
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* a valid state */
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);               /* else the default applies */
  (void)sigfillset(&all);                                                  /* cannot fail */
  (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
  error = pthread_create(&thread, &attributes, run, helper);
  if (error == EINVAL) { /* the stack is too small for the thread-local variables of the libraries */
    (void)pthread_attr_destroy(&attributes); /* neither call can fail */
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, run, helper);
  }
  if (!error) {
    (void)pthread_setname_np(thread, name); /* the name is only a convenience */
    helper_count++;
    atomic_fetch_add(&living, 1);
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attributes); /* cannot fail */
  return error;
}

/* Returns true if the main thread has ended. The links in /proc/self belong to the main thread, so reading
 * them fails after its end. Reading a link needs no descriptor, so the numbers of the program's descriptors
 * do not change. */
static bool has_main_ended(void)
{
  char place;
  return readlink("/proc/self/cwd", &place, 1) < 0 && errno == ENOENT;
}

/* Returns true if every thread of the program has ended. The kernel includes the main thread in the number of
 * threads until the process ends. */
static bool is_program_over(void)
{
  struct stat tasks;
  return has_main_ended() && stat("/proc/self/task", &tasks) == 0 &&
         tasks.st_nlink == OTHER_LINKS + 1 + (nlink_t)atomic_load(&living);
}

/* Calls exit(0), as the C library does when the last thread of a process ends. */
static void *leave(void *unused)
{
  (void)unused;
  (void)pthread_sigmask(SIG_SETMASK, &program_mask, NULL);
  exit(0);
}

/*
 * Ends the process when only helper threads are left. The C library does not do that, because it counts
 * helpers as threads of the program.
 *
 * This thread shares the program's open files, so they are still open when the exit handlers run. Exit
 * handlers may need more stack than a helper has, so they run in a thread of their own if possible.
 */
static void *keep_watch(void *unused)
{
  pthread_t thread;

  while (!is_program_over())
    (void)poll(NULL, 0, has_main_ended() ? LAST_LOOK_MS : LOOK_MS); /* all signals are blocked */
  if (pthread_create(&thread, NULL, leave, NULL) != 0)
    return leave(unused);
  (void)pthread_detach(thread); /* cannot fail: the thread was just created */
  return NULL;
}

int gp_helper_thread_start(void *(*fn)(void *arg), void *arg)
{
  int error = 0;

  if (!helper_count) {
    (void)pthread_sigmask(SIG_SETMASK, NULL, &program_mask); /* only reads the mask */
    error = start("gpupool-exit", keep_watch, NULL);
  }
  return error ? error : start("gpupool", fn, arg);
}
