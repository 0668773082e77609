/*
 * The pipe of libunwind. To ask whether memory can be read it writes a byte of it to a pipe that it opened
 * once and knows by number. A program that closes what it does not know, as daemons do, and opens files of
 * its own, would get these bytes in its files, and lose what is read back. So the pipe is looked at before
 * each use.
 */
#ifndef GP_TRACE_UNWIND_PIPE_H
#define GP_TRACE_UNWIND_PIPE_H

#include <stdbool.h>

/*
 * Calls open(arg), which is to make libunwind open its pipe, and takes note of it. Returns false if no pipe
 * was seen: it was there before, there are no descriptors left, or another thread opened something in the
 * same moment. Then its number is not known, and libunwind is not to be used. Once a process; changes errno.
 */
bool gp_unwind_pipe_note(void (*open)(void *arg), void *arg);

/* True if both ends are still what they were. Two short system calls; changes errno. Thread-safe. */
bool gp_unwind_pipe_is_whole(void);

#endif
