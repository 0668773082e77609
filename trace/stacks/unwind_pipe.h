/*
 * The pipe of libunwind. To find out whether memory is readable, libunwind writes a byte of it to a pipe,
 * which it opens once and knows by number. A program that closes unknown descriptors, as daemons do, and
 * then opens its own files would get these bytes in its files, and lose the bytes read back. So this
 * library checks the pipe before each use.
 */
#ifndef GP_TRACE_UNWIND_PIPE_H
#define GP_TRACE_UNWIND_PIPE_H

#include <stdbool.h>

/*
 * Calls open(arg), which must make libunwind open its pipe, and notes the pipe. Returns false if it
 * saw no new pipe: the pipe was open before, no descriptors are left, or another thread opened
 * something in the same moment. Then its number is unknown, and the caller must not use libunwind.
 * Once per process; changes errno.
 */
bool gp_unwind_pipe_note(void (*open)(void *arg), void *arg);

/* True if both ends are unchanged. Two short system calls; changes errno. Thread-safe. */
bool gp_unwind_pipe_is_whole(void);

#endif
