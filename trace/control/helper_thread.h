/*
 * Threads of our own in a program that knows nothing of us.
 */
#ifndef GP_TRACE_HELPER_THREAD_H
#define GP_TRACE_HELPER_THREAD_H

/*
 * Starts a thread that runs fn(arg). It takes none of the process's signals, shows itself as "gpupool", is
 * never joined, and ends with the process, wherever it is. Returns 0 or an errno.
 */
int gp_helper_thread_start(void *(*fn)(void *arg), void *arg);

#endif
