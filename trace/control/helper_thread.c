#include "trace/control/helper_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define STACK_BYTES                                                                                          \
  (256 * 1024) /* the recorder has the large buffers; this is address space, touched only as needed */

int gp_helper_thread_start(void *(*fn)(void *arg), void *arg)
{
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;

  int error = pthread_attr_init(&attributes);
  if (error)
    return error;
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED); /* a legal state */
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);               /* else the default applies */
  (void)sigfillset(&all);                                                  /* cannot fail */
  (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it, from its start on */
  error = pthread_create(&thread, &attributes, fn, arg);
  if (error == EINVAL) { /* the thread-local variables of the program's libraries take more than the stack */
    (void)pthread_attr_destroy(&attributes); /* neither call can fail */
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, fn, arg);
  }
  if (!error)
    (void)pthread_setname_np(thread, "gpupool"); /* the name is only a convenience */
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attributes); /* cannot fail */
  return error;
}
