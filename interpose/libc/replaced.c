/*
 * This library's own versions of C library functions that glibc 2.17 has under other names (stat), does not
 * have at all (fcntl64, C23's variant of strtol), or links statically (pthread_atfork). The version script
 * keeps them local to the library. All of them behave as the C library's functions do.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On both architectures struct stat64 is the kernel's structure. */
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict ret_status, int flags)
{
  return (int)syscall(SYS_newfstatat, folder, path, ret_status, flags);
}

int stat64(const char *restrict path, struct stat64 *restrict ret_status)
{
  return fstatat64(AT_FDCWD, path, ret_status, 0);
}

int lstat64(const char *restrict path, struct stat64 *restrict ret_status)
{
  return fstatat64(AT_FDCWD, path, ret_status, AT_SYMLINK_NOFOLLOW);
}

int fstat64(int fd, struct stat64 *ret_status)
{
  return (int)syscall(SYS_fstat, fd, ret_status);
}

/* Not a cancellation point, so the library must not use it for F_SETLKW. */
int fcntl64(int fd, int command, ...)
{
  va_list arguments;

  va_start(arguments, command);
  long argument = va_arg(arguments, long); /* a command without an argument ignores it */
  va_end(arguments);
  return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* The handlers below are registered with this library's handle, so that the C library removes them if this
 * library is ever unloaded. musl has neither function. */
extern void *__dso_handle __attribute__((visibility("hidden")));
extern __attribute__((weak)) int __register_atfork(
    void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
extern __attribute__((weak)) int __cxa_at_quick_exit(void (*handler)(void), void *library);

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  return __register_atfork ? __register_atfork(prepare, parent, child, &__dso_handle) : ENOSYS;
}

int at_quick_exit(void (*handler)(void))
{
  return __cxa_at_quick_exit ? __cxa_at_quick_exit(handler, &__dso_handle) : -1;
}

/* With headers of glibc 2.38 and newer, strtol and its relatives are bound to these names. The library never
 * passes them base 2. */
#if __GLIBC_PREREQ(2, 38)
long old_strtol(const char *restrict text, char **restrict ret_end, int base) __asm__("strtol");
unsigned long old_strtoul(const char *restrict text, char **restrict ret_end, int base) __asm__("strtoul");
unsigned long long old_strtoull(const char *restrict text, char **restrict ret_end, int base) __asm__(
    "strtoull");
int old_vsscanf(const char *restrict text, const char *restrict format, va_list arguments) __asm__(
    "__isoc99_vsscanf");
long __isoc23_strtol(const char *restrict text, char **restrict ret_end, int base);
unsigned long __isoc23_strtoul(const char *restrict text, char **restrict ret_end, int base);
unsigned long long __isoc23_strtoull(const char *restrict text, char **restrict ret_end, int base);
int __isoc23_sscanf(const char *restrict text, const char *restrict format, ...);

long __isoc23_strtol(const char *restrict text, char **restrict ret_end, int base)
{
  return old_strtol(text, ret_end, base);
}

unsigned long __isoc23_strtoul(const char *restrict text, char **restrict ret_end, int base)
{
  return old_strtoul(text, ret_end, base);
}

unsigned long long __isoc23_strtoull(const char *restrict text, char **restrict ret_end, int base)
{
  return old_strtoull(text, ret_end, base);
}

int __isoc23_sscanf(const char *restrict text, const char *restrict format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  int count = old_vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}
#endif
