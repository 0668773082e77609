/*
 * Holds back events from before the program first asks for memory (such as the pool's mode): the
 * record, and its file, begins with the first event about memory. There is room for a few; with more
 * the record begins at once.
 */
#ifndef GP_TRACE_RECORD_PRESTART_H
#define GP_TRACE_RECORD_PRESTART_H

#include <stdbool.h>

#include "pool/observer.h"
#include "base/lock.h"
#include "trace/record/threads.h"

#define GP_PRESTART_EVENTS 64

typedef struct gp_prestart_event {
  gp_event_t event; /* with its final time */
  gp_thread_entry_t thread;
} gp_prestart_event_t;

/* Zeroed memory plus gp_prestart_init. */
typedef struct gp_prestart {
  gp_lock_t lock; /* a leaf */
  unsigned count;
  bool is_over;
  gp_prestart_event_t events[GP_PRESTART_EVENTS];
} gp_prestart_t;

void gp_prestart_init(gp_prestart_t *prestart);
void gp_prestart_fini(gp_prestart_t *prestart);

/* False: the caller must record the event now, because the record has begun or there is no
 * more room. Thread safe. */
bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event);

/* Ends the holding back. True for one caller only, which records events[0, count): from then on no other
 * thread changes them. Thread safe. */
bool gp_prestart_end(gp_prestart_t *prestart);

#endif
