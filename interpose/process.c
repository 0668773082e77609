#include "interpose/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

static const unsigned char always = 1;
const unsigned char *gp_process_mark __attribute__((visibility("hidden"))) = &always;

static atomic_bool watching;

/* Creates a page that reads as zeros in children. Several threads may create one; the first page is used. */
static void make_mark(void)
{
  const unsigned char *expected = &always;
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (page == MAP_FAILED)
    return;
  *page = 1;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0 || !__atomic_compare_exchange_n(&gp_process_mark, &expected,
                                                        page, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    (void)munmap(page, bytes); /* no other thread uses the page */
}

void gp_process_watch(void (*child)(void))
{
  gp_assert(child && gp_locks_held() == 0); /* a child could inherit a held lock */
  if (atomic_load_explicit(&watching, memory_order_acquire))
    return;
  make_mark();
  (void)pthread_atfork(NULL, NULL, child); /* if this fails, only the page detects children */
  atomic_store_explicit(&watching, true, memory_order_release);
}
