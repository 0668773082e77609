/*
 * Replaces functions that glibc 2.17 lacks, or has only in its static part; see interpose/libc/replaced.c.
 */
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not a cancellation point, unlike glibc's. Kernels before 3.17 lack the system call as well. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
  return syscall(SYS_getrandom, buffer, length, flags);
}

extern int __cxa_atexit(void (*handler)(void *arg), void *arg, void *library);
extern void *__dso_handle __attribute__((visibility("hidden")));

int atexit(void (*handler)(void))
{
  return __cxa_atexit((void (*)(void *))handler, NULL, &__dso_handle);
}

/* With the headers of glibc 2.38 and newer, calls to strtoll call this function. Unlike glibc's, it does not
 * accept the prefix 0b; the tool never passes base 2. */
#if __GLIBC_PREREQ(2, 38)
long long old_strtoll(const char *restrict text, char **restrict ret_end, int base) __asm__("strtoll");
long long __isoc23_strtoll(const char *restrict text, char **restrict ret_end, int base);

long long __isoc23_strtoll(const char *restrict text, char **restrict ret_end, int base)
{
  return old_strtoll(text, ret_end, base);
}
#endif
