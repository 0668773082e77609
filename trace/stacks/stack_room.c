#include "trace/stacks/stack_room.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES UINT64_C(4096) /* the real page size is a multiple of this */

/*
 * The known part of the thread's stack: all of [low, high) is readable. pthread_getattr_np is not used: it
 * allocates, reads /proc for the main thread, and does not know stacks that the program creates itself.
 */
typedef struct known {
  uintptr_t low;
  uintptr_t high;
  bool ends; /* the page below `low` is not readable */
} known_t;

static __thread known_t tls_known __attribute__((tls_model("initial-exec")));

/* Returns true if the page is readable, by a system call that reads memory but has no effect: rt_sigprocmask
 * reads the set before it rejects the invalid operation. A stack that grows on demand also grows when the
 * kernel reads it, so readable stack is writable, too. */
static bool is_readable(uintptr_t page)
{
  return syscall(SYS_rt_sigprocmask, ~0, page, NULL, 8) == 0 || errno != EFAULT;
}

static bool is_on_alternate_stack(void)
{
  stack_t stack;
  return sigaltstack(NULL, &stack) != 0 || stack.ss_flags & SS_ONSTACK;
}

/* Updates tls_known for a thread that is on another stack, or in an unknown part of its stack. Returns false
 * on an alternate signal stack. */
static __attribute__((noinline)) bool look_around(uintptr_t here)
{
  if (is_on_alternate_stack())
    return false; /* tls_known still describes the thread's own stack */
  uintptr_t page = here & ~(PAGE_BYTES - 1);
  /* If the known part ends shortly below, this is an outer part of the same stack, so the known part is
   * extended. */
  if (tls_known.high <= here && here - tls_known.high < PAGE_BYTES * 16 && tls_known.high) {
    while (tls_known.high <= here && is_readable(tls_known.high))
      tls_known.high += PAGE_BYTES;
    if (tls_known.high > here)
      return true;
  }
  tls_known = (known_t){page, page + PAGE_BYTES, false};
  return true;
}

bool gp_stack_has_room(size_t bytes)
{
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  int saved_errno = errno;

  bool good = (here >= tls_known.low && here < tls_known.high) || look_around(here);
  while (good && here - tls_known.low < bytes && !tls_known.ends) {
    if (is_readable(tls_known.low - PAGE_BYTES))
      tls_known.low -= PAGE_BYTES;
    else
      tls_known.ends = true;
  }
  errno = saved_errno;
  return good && here - tls_known.low >= bytes;
}

bool gp_word_is_readable(uintptr_t address)
{
  int saved_errno = errno;
  bool readable = is_readable(address);
  errno = saved_errno;
  return readable;
}

bool gp_stack_holds_words(uintptr_t address)
{
  uintptr_t last = address + 2 * sizeof(uintptr_t) - 1;

  if (address < tls_known.low)
    return false;
  while (last >= tls_known.high) {
    if (!is_readable(tls_known.high))
      return false;
    tls_known.high += PAGE_BYTES;
  }
  return true;
}
