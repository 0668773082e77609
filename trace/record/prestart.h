/*
 * Events from before the program first asks for memory (which mode the pool is in), kept back: the record,
 * and with it its file, begins with the first that tells of memory. A few are enough; with more the record
 * begins at once.
 */
#ifndef GP_TRACE_RECORD_PRESTART_H
#define GP_TRACE_RECORD_PRESTART_H

#include <pthread.h>
#include <stdbool.h>

#include "pool/observer.h"
#include "trace/record/threads.h"

#define GP_EARLY_EVENTS 64

typedef struct gp_early_event {
  gp_event_t event; /* with the time that it is to have */
  gp_thread_entry_t thread;
} gp_early_event_t;

/* Zeroed memory is an empty one. */
typedef struct gp_early {
  pthread_mutex_t mutex; /* a leaf */
  unsigned count;
  bool is_over;
  gp_early_event_t events[GP_EARLY_EVENTS];
} gp_early_t;

/* False: it has to be recorded now, because the record has begun or there is no more room. Thread safe. */
bool gp_early_keep(gp_early_t *early, const gp_event_t *event);

/*
 * Ends it. True for one caller only, who records events[0, count): they are his from then on, and nobody
 * changes them. Thread safe.
 */
bool gp_early_end(gp_early_t *early);

#endif
