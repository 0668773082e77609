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
  (256 * 1024) /* the recorder has the large buffers; this is address space, touched only as needed */
#define HELPERS_MOST 3
#define LOOK_MS      100 /* between two looks while the main thread lives */
#define LAST_LOOK_MS 5   /* the same once it has ended */
#define OTHER_LINKS  2   /* of /proc/self/task, which has one link for each thread besides */

typedef struct helper {
  void *(*fn)(void *arg);
  void *arg;
} helper_t;

/* Helpers start one after another, and all of them live in the process that started the first. */
static helper_t helpers[HELPERS_MOST];
static unsigned helper_count;
static sigset_t program_mask; /* of the program's thread that started the first */

/* The helpers that live. One is counted after its start, while the program's thread that starts it still
 * lives, and not after it has returned: so the number is never too high. */
static atomic_int living;

static void *run(void *arg)
{
  const helper_t *helper = arg;
  (void)gp_cancel_hold(); /* never undone: the thread lives until the process ends */
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
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* a legal state */
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);               /* else the default applies */
  (void)sigfillset(&all);                                                  /* cannot fail */
  (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it, from its start on */
  error = pthread_create(&thread, &attributes, run, helper);
  if (error == EINVAL) { /* the thread-local variables of the program's libraries take more than the stack */
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

/* True once the main thread has ended. The kernel's links of a process are those of its main thread, and gone
 * with that. Reading a link takes no descriptor, whose number the program may be about to get. */
static bool has_main_ended(void)
{
  char place;
  return readlink("/proc/self/cwd", &place, 1) < 0 && errno == ENOENT;
}

/* True if every thread of the program has ended. The kernel counts the main thread until the process ends. */
static bool is_program_over(void)
{
  struct stat tasks;
  return has_main_ended() && stat("/proc/self/task", &tasks) == 0 &&
         tasks.st_nlink == OTHER_LINKS + 1 + (nlink_t)atomic_load(&living);
}

/* What the C library does when the last thread of a process ends. */
static void *leave(void *unused)
{
  (void)unused;
  (void)pthread_sigmask(SIG_SETMASK, &program_mask, NULL);
  exit(0);
}

/*
 * Ends the process when no thread but helpers is left. The C library counts the helpers, so it does not do
 * that.
 *
 * This thread shares the program's open files, and so keeps them open for what runs at exit. That may need
 * more stack than a helper has, and gets a thread of its own if possible.
 */
static void *keep_watch(void *unused)
{
  pthread_t thread;

  while (!is_program_over())
    (void)poll(NULL, 0, has_main_ended() ? LAST_LOOK_MS : LOOK_MS); /* all signals are blocked */
  if (pthread_create(&thread, NULL, leave, NULL) != 0)
    return leave(unused);
  (void)pthread_detach(thread); /* it was just created */
  return NULL;
}

int gp_helper_thread_start(void *(*fn)(void *arg), void *arg)
{
  int error = 0;

  if (!helper_count) {
    (void)pthread_sigmask(SIG_SETMASK, NULL, &program_mask); /* reads it */
    error = start("gpupool-exit", keep_watch, NULL);
  }
  return error ? error : start("gpupool", fn, arg);
}
