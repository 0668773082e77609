#include "interpose/hooks/cuda_events.h"

#include <pthread.h>
#include <stdlib.h>

#include "pool/space/address_map.h"
#include "base/assert.h"
#include "base/lock.h"

/* The record of an event, guarded by the lock. */
typedef struct event {
  gp_stream_point_t point; /* valid if version is not 0 */
  uint64_t version;        /* never reused; 0: the event has no stream point */
  unsigned recording;      /* number of threads that are recording the event in the driver */
  bool overlapped;         /* set when two records overlap; cleared when no record is in progress */
  bool distrusted;
} event_t;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static gp_lock_t lock = GP_LOCK_INIT(GP_RANK_HOOKS);
static gp_address_map_t events;
static uint64_t last_version;

static void init_events(void)
{
  gp_address_map_init(&events);
}

static void enter(void)
{
  pthread_once(&once, init_events);
  gp_lock_take(&lock);
}

static void leave(void)
{
  gp_lock_release(&lock);
}

static event_t *find(CUevent event)
{
  gp_assert_internal(gp_lock_is_held(&lock));
  uint64_t key = (uint64_t)(uintptr_t)event;
  return key > 1 ? gp_address_map_find(&events, key) : NULL;
}

/* Returns the event's record, and creates it if there is none. Returns NULL if there is no host memory; the
 * event then proves nothing. */
static event_t *find_or_make(CUevent event)
{
  event_t *record = find(event);
  if (record || (uint64_t)(uintptr_t)event <= 1)
    return record;
  record = calloc(1, sizeof(*record));
  if (record && !gp_address_map_insert(&events, (uint64_t)(uintptr_t)event, record)) {
    free(record);
    return NULL;
  }
  return record;
}

void gp_event_record_begin(CUevent event)
{
  enter();
  event_t *record = find_or_make(event);
  if (record) {
    record->version = 0;
    record->overlapped |= record->recording++ > 0;
  }
  leave();
}

void gp_event_record_end(CUevent event, const gp_stream_point_t *point)
{
  enter();
  event_t *record = find(event);
  if (record && record->recording > 0) {
    gp_assert(record->version == 0); /* gp_event_record_begin reset it */
    record->recording--;
    if (point->stream_record && !record->overlapped && !record->distrusted) {
      record->point = *point;
      record->version = ++last_version;
    }
    if (record->recording == 0)
      record->overlapped = false;
  }
  leave();
}

void gp_event_distrust(CUevent event)
{
  enter();
  event_t *record = find_or_make(event);
  if (record) {
    record->version = 0;
    record->distrusted = true;
  }
  leave();
}

void gp_event_forget(CUevent event)
{
  enter();
  event_t *record = find(event);
  if (record)
    (void)gp_address_map_remove(&events, (uint64_t)(uintptr_t)event);
  leave();
  free(record);
}

gp_stream_point_t gp_event_take(CUevent event, uint64_t *ret_version)
{
  gp_stream_point_t point = {.stream_record = NULL};

  enter();
  const event_t *record = find(event);
  *ret_version = record ? record->version : 0;
  if (*ret_version)
    point = record->point;
  leave();
  return point;
}

bool gp_event_still_is(CUevent event, uint64_t version)
{
  enter();
  const event_t *record = find(event);
  bool same = record && version != 0 && record->version == version;
  leave();
  return same;
}
