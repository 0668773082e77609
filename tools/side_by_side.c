#include "tools/side_by_side.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8 /* most processes; each has a whole file in memory */

#define ALIGNMENT sizeof(uint64_t)

/* Returns the size of the mapping: `bytes` in whole pages, and an inaccessible guard page after them. */
static size_t mapped_bytes(size_t bytes, size_t page)
{
  return (bytes + page - 1) / page * page + page;
}

void *gp_shared_alloc(size_t bytes)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = mapped_bytes(bytes, page);
  char *pages = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return NULL;
  char *end = pages + mapped - page;
  (void)mprotect(end, page, PROT_NONE); /* on failure only the guard page is missing */
  return end - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gp_shared_free(void *memory, size_t bytes)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (memory) /* cannot fail for a whole mapping */
    (void)munmap((void *)((uintptr_t)memory & ~(uintptr_t)(page - 1)), mapped_bytes(bytes, page));
}

static void take_numbers(
    _Atomic size_t *next, size_t count, void (*work)(void *self, size_t number), void *self)
{
  size_t number;
  while ((number = atomic_fetch_add(next, 1)) < count)
    work(self, number);
}

/* Forks a copy of this process, which works until no number is left, and is killed if its parent ends.
 * Returns false if fork fails. */
static bool start(
    pid_t *ret_pid, _Atomic size_t *next, size_t count, void (*work)(void *self, size_t number), void *self)
{
  pid_t parent = getpid();
  *ret_pid = fork();
  if (*ret_pid != 0)
    return *ret_pid > 0;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
    take_numbers(next, count, work, self);
  _exit(0);
}

void gp_side_by_side(size_t count, void (*work)(void *self, size_t number), void *self)
{
  pid_t pids[PROCESSES - 1];
  size_t started = 0, most = 1;
  _Atomic size_t *next = gp_shared_alloc(sizeof(*next));
  _Atomic size_t alone = 1;

  if (count > 0)
    work(self, 0);
  if (next)
    atomic_store(next, 1);
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (processors > 1)
    most = processors < PROCESSES ? (size_t)processors : PROCESSES;
  while (next && started + 1 < most && started + 1 < count && start(&pids[started], next, count, work, self))
    started++;
  take_numbers(next ? next : &alone, count, work, self);
  for (size_t i = 0; i < started; i++) {
    while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
      ;
  }
  gp_shared_free(next, sizeof(*next));
}
