/*
 * A host that has nothing left: the N-th time that libgpupool asks the C library for memory, a file or a
 * handler (FAIL_HOST=N; 0: never), it is refused. Preloaded in front of it. What the program and the driver
 * ask for is not counted: the return address says who asks. FAIL_HOST_FILE is written at the end: how often
 * was asked, and what was refused.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t first, last; /* of libgpupool */
static atomic_int asked;
static int refuse;
static const char *refused = "nothing";
static char *notes; /* FAIL_HOST_FILE, as the environment may be gone at the end */

static int find_library(struct dl_phdr_info *object, size_t size, void *unused)
{
  (void)size;
  (void)unused;
  if (!strstr(object->dlpi_name, "libgpupool"))
    return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
    if (object->dlpi_phdr[i].p_type == PT_LOAD && begin + object->dlpi_phdr[i].p_memsz > last)
      last = begin + object->dlpi_phdr[i].p_memsz;
  }
  first = object->dlpi_addr;
  return 1;
}

__attribute__((constructor)) static void begin(void)
{
  const char *number = getenv("FAIL_HOST");
  notes = getenv("FAIL_HOST_FILE");
  refuse = number ? atoi(number) : 0;
  dl_iterate_phdr(find_library, NULL);
}

__attribute__((destructor)) static void end(void)
{
  FILE *file = notes ? fopen(notes, "w") : NULL;
  if (!file)
    return;
  fprintf(file, "%d %s\n", atomic_load(&asked), refused);
  fclose(file);
}

static int is_refused(const char *what, const void *caller)
{
  if ((uintptr_t)caller < first || (uintptr_t)caller >= last || atomic_fetch_add(&asked, 1) + 1 != refuse)
    return 0;
  refused = what;
  return 1;
}

/* The C library's own, whatever it is called there: with 64-bit file offsets the names of mmap and open
 * change. */
#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
  return dlsym(RTLD_NEXT, name);
}

#define STAND_IN(result, name, parameters, arguments, failed, code)                                          \
  __attribute__((visibility("default"))) result name parameters                                              \
  {                                                                                                          \
    static __typeof__(&name) next;                                                                           \
    if (is_refused(#name, __builtin_return_address(0))) {                                                    \
      errno = code;                                                                                          \
      return failed;                                                                                         \
    }                                                                                                        \
    if (!next)                                                                                               \
      next = REAL(name);                                                                                     \
    return next arguments;                                                                                   \
  }

/* Not through dlsym, which may allocate. The leak checker's are there only if it is preloaded, too. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__interceptor_malloc(size_t bytes) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t bytes) __attribute__((weak));

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
  if (!is_refused("malloc", __builtin_return_address(0)))
    return __interceptor_malloc ? __interceptor_malloc(bytes) : __libc_malloc(bytes);
  errno = ENOMEM;
  return NULL;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
  if (!is_refused("calloc", __builtin_return_address(0)))
    return __interceptor_calloc ? __interceptor_calloc(count, bytes) : __libc_calloc(count, bytes);
  errno = ENOMEM;
  return NULL;
}

STAND_IN(void *, mmap64, (void *address, size_t bytes, int rights, int flags, int fd, off64_t offset),
    (address, bytes, rights, flags, fd, offset), MAP_FAILED, ENOMEM)
STAND_IN(int, madvise, (void *address, size_t bytes, int advice), (address, bytes, advice), -1, EINVAL)
STAND_IN(ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count), -1, ENOSPC)
STAND_IN(
    int, pthread_key_create, (pthread_key_t * key, void (*destructor)(void *)), (key, destructor), EAGAIN, 0)
STAND_IN(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), ENOMEM, 0)

STAND_IN(int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg),
    (thread, attributes, fn, arg), EAGAIN, 0)

STAND_IN(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
STAND_IN(
    int, bind, (int fd, const struct sockaddr *address, socklen_t bytes), (fd, address, bytes), -1, ENOSPC)
STAND_IN(int, listen, (int fd, int backlog), (fd, backlog), -1, EADDRINUSE)
STAND_IN(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, EROFS)
STAND_IN(DIR *, opendir, (const char *path), (path), NULL, ENOMEM)

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
int __cxa_at_quick_exit(void (*handler)(void *), void *object);
STAND_IN(int, __register_atfork,
    (void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object),
    (prepare, parent, child, object), ENOMEM, 0)
STAND_IN(int, __cxa_at_quick_exit, (void (*handler)(void *), void *object), (handler, object), -1, 0)

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (!is_refused("open", __builtin_return_address(0)))
    return REAL(open64)(path, flags, mode);
  errno = EMFILE;
  return -1;
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
  va_list arguments;
  long a[6];
  va_start(arguments, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(arguments, long); /* those that were not passed are not looked at by the kernel either */
  va_end(arguments);
  /* No requests for anything, and as many as chance will have it: a thread may have to sleep for a lock, and
   * on how many pages a stack lies (rt_sigprocmask: stack_room.c) depends on where it begins. */
  bool is_request = number != SYS_futex && number != SYS_rt_sigprocmask;
  if (!is_request || !is_refused("syscall", __builtin_return_address(0)))
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  errno = ENOSPC;
  return -1;
}
