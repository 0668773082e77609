/*
 * In the place of libunwind. NEW=0, as 1.3: its addresses are those before the return addresses, and it opens
 * its pipe in its first call. NEW=1, as 1.8: it opens it in the first capture.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#define FRAMES_MAX 300

extern void *_ULx86_64_local_addr_space;
int _ULx86_64_set_caching_policy(void *space, int policy);
int unw_backtrace(void **addresses, int capacity);

void *_ULx86_64_local_addr_space = NULL;

static void open_pipe(void)
{
  static int ends[2];

  if (!ends[1])
    (void)!pipe2(ends, O_CLOEXEC);
}

int _ULx86_64_set_caching_policy(void *space, int policy)
{
  if (!NEW)
    open_pipe();
  return 0;
}

int unw_backtrace(void **addresses, int capacity)
{
  void *found[FRAMES_MAX]; /* this function's own frame comes first */
  int count = backtrace(found, capacity < FRAMES_MAX ? capacity + 1 : FRAMES_MAX) - 1;

  open_pipe();
  for (int i = 0; i < count; i++)
    addresses[i] = (char *)found[i + 1] - !NEW;
  return count;
}
