#include "pool/reuse/epoch/work_flags.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "pool/util/assert.h"

gp_mark_t gp_marks[GP_MARK_PLACES] = {[0 ... GP_MARK_PLACES - 1] = {.handle = GP_MARK_NOBODY}};

_Static_assert(offsetof(gp_mark_t, state) == 0 && offsetof(gp_mark_t, handle) == 8 && sizeof(gp_mark_t) == 16,
    "the stubs know these");
_Static_assert(offsetof(gp_marker_t, mark) == 0, "the stubs know this");

_Thread_local gp_marker_t *gp_own_marker __attribute__((tls_model("initial-exec")));

static _Atomic(gp_marker_t *) markers;
static _Atomic uint32_t last_token = GP_MARK_DIRTY;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* Its calls have all returned. */
static void thread_ended(void *marker)
{
  atomic_store(&((gp_marker_t *)marker)->mark, NULL);
  gp_own_marker = NULL; /* another destructor may submit work, and gets a marker again */
  atomic_fetch_add(&((gp_marker_t *)marker)->owners, 1);
  atomic_store(&((gp_marker_t *)marker)->in_use, false);
}

static void make_key(void)
{
  has_key = pthread_key_create(&key, thread_ended) == 0;
}

static gp_marker_t *take_over(void)
{
  for (gp_marker_t *marker = atomic_load(&markers); marker; marker = marker->next) {
    bool free_one = false;
    if (!atomic_load(&marker->in_use) && atomic_compare_exchange_strong(&marker->in_use, &free_one, true))
      return marker;
  }
  return NULL;
}

bool gp_marker_init(void)
{
  if (gp_own_marker)
    return true;
  pthread_once(&key_once, make_key);
  gp_marker_t *marker = take_over();
  if (!marker) {
    marker = calloc(1, sizeof(*marker));
    if (!marker)
      return false;
    atomic_init(&marker->in_use, true);
    marker->next = atomic_load(&markers);
    while (!atomic_compare_exchange_weak(&markers, &marker->next, marker)) {
    }
  }
  /* Without the key the marker stays in use when the thread ends: one record lost, nothing wrong. */
  if (has_key)
    (void)pthread_setspecific(key, marker);
  gp_own_marker = marker;
  return true;
}

void gp_mark_work(gp_mark_t *mark)
{
  gp_assert(gp_own_marker);
  atomic_store_explicit(&gp_own_marker->mark, mark, memory_order_relaxed);
  atomic_store_explicit(&mark->state, GP_MARK_DIRTY, memory_order_release);
}

static bool is_named_by_others(const gp_mark_t *mark)
{
  for (gp_marker_t *marker = atomic_load(&markers); marker; marker = marker->next)
    if (marker != gp_own_marker && atomic_load(&marker->mark) == mark)
      return true;
  return false;
}

static uint32_t new_token(void)
{
  uint32_t token;
  do {
    token = atomic_fetch_add(&last_token, 1) + 1;
  } while (token <= GP_MARK_DIRTY); /* after 2^32 synchronizations it begins anew */
  return token;
}

uint32_t gp_mark_sync_begin(gp_mark_t *mark)
{
  uint32_t state = atomic_load(&mark->state);
  if (state == GP_MARK_CLEAN)
    return 0; /* nothing to clear */
  uint32_t token = new_token();
  /* If a stub stores at this very moment, its work may or may not be covered: the mark stays. */
  if (!atomic_compare_exchange_strong(&mark->state, &state, token) || is_named_by_others(mark))
    return 0;
  return token;
}

void gp_mark_sync_end(gp_mark_t *mark, uint32_t token)
{
  if (token != 0)
    (void)atomic_compare_exchange_strong(&mark->state, &token, GP_MARK_CLEAN);
}
