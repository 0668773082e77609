/* Starts the library's own threads, which the program does not know about. */
#ifndef GP_TRACE_HELPER_THREAD_H
#define GP_TRACE_HELPER_THREAD_H

/* Starts a thread that runs fn(arg). The thread blocks all signals, is named "gpupool", is never cancelled or
 * joined, and ends with the process, whatever it is doing. Returns 0 or an errno. The caller serializes
 * calls.
 *
 * As without the library, the process ends with the last thread of the program: another thread,
 * "gpupool-exit", then calls exit(0). */
int gp_helper_thread_start(void *(*fn)(void *arg), void *arg);

#endif
