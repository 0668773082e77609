#include "pool/reuse/submitters.h"

#include <pthread.h>
#include <stdlib.h>

_Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

static _Atomic(gp_submitter_t *) submitters;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* All calls of the thread have returned. */
static void thread_ended(void *value)
{
  gp_submitter_t *submitter = value;

  gp_own_submitter = NULL; /* another destructor may submit work, and then gets a new submitter */
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
  /* Without the key the submitter stays in use when the thread ends: that loses one
   * record, and is harmless. */
  if (has_key)
    (void)pthread_setspecific(key, submitter);
  gp_own_submitter = submitter;
  return true;
}
