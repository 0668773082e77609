/* The library's own threads, in a program that does not know about them. */
#ifndef GP_TRACE_HELPER_THREAD_H
#define GP_TRACE_HELPER_THREAD_H

/* Starts a thread that runs fn(arg). The thread takes none of the process's signals, is named "gpupool", is
 * never cancelled or joined, and ends with the process, whatever it is doing. Returns 0 or an errno. One call
 * at a time.
 *
 * The process ends with the last thread of the program, as without the library: exit(0) is called then. A
 * further thread, "gpupool-exit", sees to that. */
int gp_helper_thread_start(void *(*fn)(void *arg), void *arg);

#endif
