/*
 * In front of libgpupool: sees each cancellation point of the C library (pthreads(7)) that libgpupool calls,
 * and whether the thread could be cancelled there. CANCEL_POINTS_FILE gets a line for each function when it
 * is called first, "held NAME" or "open NAME", and "open" is a mistake. What others call is not looked at:
 * the return address says who asks.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POINTS_MAX 32

static uintptr_t first, last; /* of libgpupool */
static char *notes;           /* CANCEL_POINTS_FILE, as the environment may be gone at the end */
static const char *_Atomic held[POINTS_MAX], *_Atomic open_to_all[POINTS_MAX];

static int find_library(struct dl_phdr_info *object, size_t size, void *unused)
{
  (void)size;
  (void)unused;
  if (!strstr(object->dlpi_name, "libgpupool"))
    return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    uintptr_t end = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz;
    if (object->dlpi_phdr[i].p_type == PT_LOAD && end > last)
      last = end;
  }
  first = object->dlpi_addr;
  return 1;
}

__attribute__((constructor)) static void begin(void)
{
  notes = getenv("CANCEL_POINTS_FILE");
  dl_iterate_phdr(find_library, NULL);
}

/* At once: libgpupool is still at work when the destructors of this library have run. */
static void note(const char *state, const char *name)
{
  char line[64];
  int length = snprintf(line, sizeof(line), "%s %s\n", state, name);
  int fd =
      notes ? (int)syscall(SYS_openat, AT_FDCWD, notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  if (fd < 0)
    return;
  if (syscall(SYS_write, fd, line, length) != length)
    abort();
  (void)syscall(SYS_close, fd);
}

static void add(const char *_Atomic *names, const char *state, const char *name)
{
  for (int i = 0; i < POINTS_MAX; i++) {
    const char *there = NULL;
    if (atomic_compare_exchange_strong(&names[i], &there, name)) {
      note(state, name);
      return;
    }
    if (there == name)
      return;
  }
}

static void look(const char *name, const void *caller)
{
  int state;
  if ((uintptr_t)caller < first || (uintptr_t)caller >= last)
    return;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  (void)pthread_setcancelstate(state, NULL);
  if (state == PTHREAD_CANCEL_DISABLE)
    add(held, "held", name);
  else
    add(open_to_all, "open", name);
}

static void *real(const char *name)
{
  return dlsym(RTLD_NEXT, name);
}

#define STAND_IN(result, name, parameters, arguments)                                                        \
  __attribute__((visibility("default"))) result name parameters                                              \
  {                                                                                                          \
    static __typeof__(&name) next;                                                                           \
    look(#name, __builtin_return_address(0));                                                                \
    if (!next)                                                                                               \
      *(void **)&next = real(#name);                                                                         \
    return next arguments;                                                                                   \
  }

STAND_IN(ssize_t, read, (int fd, void *bytes, size_t count), (fd, bytes, count))
STAND_IN(ssize_t, pread64, (int fd, void *bytes, size_t count, off64_t offset), (fd, bytes, count, offset))
STAND_IN(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))
STAND_IN(int, close, (int fd), (fd))
STAND_IN(int, nanosleep, (const struct timespec *wanted, struct timespec *left), (wanted, left))
STAND_IN(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
STAND_IN(ssize_t, recv, (int fd, void *bytes, size_t count, int flags), (fd, bytes, count, flags))
STAND_IN(
    int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *bytes, int flags), (fd, address, bytes, flags))
STAND_IN(int, connect, (int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes), (fd, address, bytes))
STAND_IN(int, sem_wait, (sem_t * semaphore), (semaphore))
STAND_IN(int, sem_timedwait, (sem_t * semaphore, const struct timespec *until), (semaphore, until))
STAND_IN(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *patience),
    (set, info, patience))
STAND_IN(DIR *, opendir, (const char *path), (path))
STAND_IN(int, closedir, (DIR * listing), (listing))
STAND_IN(struct dirent64 *, readdir64, (DIR * listing), (listing))
STAND_IN(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
STAND_IN(int, fclose, (FILE * file), (file))
STAND_IN(ssize_t, __getdelim, (char **line, size_t *room, int delimiter, FILE *file),
    (line, room, delimiter, file))
STAND_IN(int, posix_fallocate64, (int fd, off64_t offset, off64_t bytes), (fd, offset, bytes))
STAND_IN(void *, dlopen, (const char *path, int mode), (path, mode))
STAND_IN(int, dlclose, (void *handle), (handle))

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...)
{
  static __typeof__(&open64) next;
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  look("open64", __builtin_return_address(0));
  if (!next)
    *(void **)&next = real("open64");
  return next(path, flags, mode);
}

__attribute__((visibility("default"))) int openat64(int folder, const char *path, int flags, ...)
{
  static __typeof__(&openat64) next;
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  look("openat64", __builtin_return_address(0));
  if (!next)
    *(void **)&next = real("openat64");
  return next(folder, path, flags, mode);
}
