/*
 * The threads that recorded something, in the order in which they first did. Entries stay after the thread's
 * end: its events refer to them.
 */
#ifndef GP_TRACE_THREADS_H
#define GP_TRACE_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define GP_THREADS_MAX        4096
#define GP_THREAD_NAME_BYTES  16
#define GP_THREADS_OTHER_NAME "(others)"

typedef struct gp_thread_entry {
  int32_t tid;                     /* 0: all threads for which there was no entry left */
  char name[GP_THREAD_NAME_BYTES]; /* any bytes, terminated */
} gp_thread_entry_t;

/* Zeroed memory plus gp_threads_init. Entries below count never change. */
typedef struct gp_threads {
  pthread_mutex_t mutex;
  _Atomic uint32_t count;
  gp_thread_entry_t entries[GP_THREADS_MAX];
} gp_threads_t;

int gp_threads_init(gp_threads_t *threads);
void gp_threads_fini(gp_threads_t *threads);

/*
 * Makes an entry for the calling thread and returns its index. The last entry stands for all threads that
 * come when the table is full. Safe from any thread.
 */
uint16_t gp_threads_add_caller(gp_threads_t *threads);

#endif
