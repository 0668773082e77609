/*
 * Events from before the program first asks for memory (which mode the pool is in), kept back: the record,
 * and with it its file, begins with the first that tells of memory. A few are enough; with more the record
 * begins at once.
 */
#ifndef GP_TRACE_RECORD_PRESTART_H
#define GP_TRACE_RECORD_PRESTART_H

#include <stdbool.h>

#include "pool/observer.h"
#include "pool/util/lock.h"
#include "trace/record/threads.h"

#define GP_PRESTART_EVENTS 64

typedef struct gp_prestart_event {
  gp_event_t event; /* with the time that it is to have */
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

/* False: it has to be recorded now, because the record has begun or there is no more room. Thread safe. */
bool gp_prestart_keep(gp_prestart_t *prestart, const gp_event_t *event);

/*
 * Ends it. True for one caller only, which records events[0, count): from then on no other thread changes
 * them. Thread safe.
 */
bool gp_prestart_end(gp_prestart_t *prestart);

#endif
