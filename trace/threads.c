#include "trace/threads.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int gp_threads_init(gp_threads_t *threads)
{
  return pthread_mutex_init(&threads->mutex, NULL);
}

void gp_threads_fini(gp_threads_t *threads)
{
  (void)pthread_mutex_destroy(&threads->mutex); /* nobody holds it */
}

uint16_t gp_threads_add_caller(gp_threads_t *threads)
{
  gp_thread_entry_t entry = {.tid = (int32_t)syscall(SYS_gettid)};
  if (prctl(PR_GET_NAME, entry.name, 0, 0, 0))
    entry.name[0] = '\0';
  entry.name[GP_THREAD_NAME_BYTES - 1] = '\0';

  (void)pthread_mutex_lock(&threads->mutex); /* a plain mutex cannot fail */
  uint32_t index = atomic_load_explicit(&threads->count, memory_order_relaxed);
  if (index == GP_THREADS_MAX) {
    index = GP_THREADS_MAX - 1;
  } else {
    if (index == GP_THREADS_MAX - 1) {
      entry.tid = 0;
      strcpy(entry.name, GP_THREADS_OTHER_NAME);
    }
    threads->entries[index] = entry;
    /* After the entry: readers take no lock. */
    atomic_store_explicit(&threads->count, index + 1, memory_order_release);
  }
  (void)pthread_mutex_unlock(&threads->mutex); /* held */
  return (uint16_t)index;
}
