/* Starts the library's own threads, of which the program is unaware. */
#ifndef GP_TRACE_HELPER_THREAD_H
#define GP_TRACE_HELPER_THREAD_H

/* Starts a thread that runs fn(arg). Returns 0 or an errno. The thread is named "gpupool", blocks all
 * signals, and is never cancelled or joined. It ends with the process, whatever it is doing then. The caller
 * serializes calls.
 *
 * The process ends with the last thread of the program, as it would without the library. For this, another
 * thread, "gpupool-exit", calls exit(0). */
int gp_helper_thread_start(void *(*fn)(void *arg), void *arg);

#endif
