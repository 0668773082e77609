#include "pool/reuse/work_flags.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "pool/util/assert.h"

gp_work_flag_t gp_work_flags[GP_WORK_FLAG_PLACES] = {
    [0 ... GP_WORK_FLAG_PLACES - 1] = {.handle = GP_WORK_FLAG_FREE}};

_Static_assert(offsetof(gp_work_flag_t, state) == 0 && offsetof(gp_work_flag_t, handle) == 8 &&
                   sizeof(gp_work_flag_t) == 16,
    "the stubs know these");
_Static_assert(offsetof(gp_submitter_t, flag) == 0, "the stubs know this");

_Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

static _Atomic(gp_submitter_t *) submitters;
static _Atomic uint32_t last_token = GP_WORK_FLAG_DIRTY;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* The thread's calls have all returned. */
static void thread_ended(void *value)
{
  gp_submitter_t *submitter = value;

  atomic_store(&submitter->flag, NULL);
  gp_own_submitter = NULL; /* another destructor may submit work, and gets a submitter again */
  atomic_fetch_add(&submitter->owners, 1);
  atomic_store(&submitter->in_use, false);
}

static void make_key(void)
{
  has_key = pthread_key_create(&key, thread_ended) == 0;
}

static gp_submitter_t *take_over(void)
{
  for (gp_submitter_t *submitter = atomic_load(&submitters); submitter; submitter = submitter->next) {
    bool free_one = false;
    if (!atomic_load(&submitter->in_use) &&
        atomic_compare_exchange_strong(&submitter->in_use, &free_one, true))
      return submitter;
  }
  return NULL;
}

bool gp_submitter_init(void)
{
  if (gp_own_submitter)
    return true;
  pthread_once(&key_once, make_key);
  gp_submitter_t *submitter = take_over();
  if (!submitter) {
    submitter = calloc(1, sizeof(*submitter));
    if (!submitter)
      return false;
    atomic_init(&submitter->in_use, true);
    submitter->next = atomic_load(&submitters);
    while (!atomic_compare_exchange_weak(&submitters, &submitter->next, submitter)) {
    }
  }
  /* Without the key the submitter stays in use when the thread ends: one record lost, nothing wrong. */
  if (has_key)
    (void)pthread_setspecific(key, submitter);
  gp_own_submitter = submitter;
  return true;
}

void gp_work_flag_set(gp_work_flag_t *flag)
{
  gp_assert(gp_own_submitter);
  atomic_store_explicit(&gp_own_submitter->flag, flag, memory_order_relaxed);
  atomic_store_explicit(&flag->state, GP_WORK_FLAG_DIRTY, memory_order_release);
}

static bool is_named_by_others(const gp_work_flag_t *flag)
{
  for (gp_submitter_t *submitter = atomic_load(&submitters); submitter; submitter = submitter->next)
    if (submitter != gp_own_submitter && atomic_load(&submitter->flag) == flag)
      return true;
  return false;
}

static uint32_t new_token(void)
{
  uint32_t token;
  do {
    token = atomic_fetch_add(&last_token, 1) + 1;
  } while (token <= GP_WORK_FLAG_DIRTY); /* after 2^32 synchronizations it begins anew */
  return token;
}

uint32_t gp_work_flag_sync_begin(gp_work_flag_t *flag)
{
  uint32_t state = atomic_load(&flag->state);
  if (state == GP_WORK_FLAG_CLEAN)
    return 0; /* nothing to clear */
  uint32_t token = new_token();
  /* If a stub stores at this very moment, its work may or may not be covered: the flag stays set. */
  if (!atomic_compare_exchange_strong(&flag->state, &state, token) || is_named_by_others(flag))
    return 0;
  return token;
}

void gp_work_flag_sync_end(gp_work_flag_t *flag, uint32_t token)
{
  gp_assert(token != GP_WORK_FLAG_DIRTY);
  if (token != 0)
    (void)atomic_compare_exchange_strong(&flag->state, &token, GP_WORK_FLAG_CLEAN);
}
