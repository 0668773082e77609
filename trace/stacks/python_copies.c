#include "trace/stacks/python_copies.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define TRIES 4

/* An array of copies: how many it has room for, then pointers to them. */
typedef struct copies {
  int64_t capacity;
  uintptr_t starts[];
} copies_t;

/* The kernel reads two words, so that memory which is freed meanwhile is no fault. */
static bool read_two(const void *a, const void *b, uint64_t *ret_a, uint64_t *ret_b)
{
  const struct iovec here[] = {{ret_a, sizeof(*ret_a)}, {ret_b, sizeof(*ret_b)}};
  const struct iovec there[] = {
      {(void *)(uintptr_t)a, sizeof(*ret_a)}, {(void *)(uintptr_t)b, sizeof(*ret_b)}};
  int saved_errno = errno;
  long got = syscall(SYS_process_vm_readv, getpid(), here, 2L, there, 2L, 0L);
  errno = saved_errno;
  return got == (long)(sizeof(*ret_a) + sizeof(*ret_b));
}

/*
 * The frame's own copy stays while its thread lives. The array is another matter: when a thread with a higher
 * number comes, it gets a larger one, and the interpreter frees the old one when each thread that is attached
 * to it has been elsewhere. The calling thread is mostly not attached. So the array counts if it was the code
 * object's before and after it was read.
 */
uintptr_t gp_python_copy_of(const gp_python_t *python, uintptr_t frame, uintptr_t code)
{
  const _Atomic uintptr_t *place = (const _Atomic uintptr_t *)(code + python->code_copies);
  int32_t number = *(const int32_t *)(frame + python->frame_copy);

  for (int i = 0; i < TRIES && number > 0; i++) {
    uintptr_t array = atomic_load_explicit(place, memory_order_acquire);
    const copies_t *copies = (const copies_t *)array;
    uint64_t capacity, start;
    bool good = read_two(&copies->capacity, &copies->starts[number], &capacity, &start);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(place, memory_order_relaxed) == array)
      return good && (uint64_t)number < capacity ? start : 0;
  }
  return 0;
}
