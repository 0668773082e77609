/*
 * How far the calling thread's stack can be read and written around here.
 */
#ifndef GP_TRACE_STACK_ROOM_H
#define GP_TRACE_STACK_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * True if the thread can use `bytes` more of its stack, and is not on an alternate signal stack. Asks the
 * kernel about pages that it has not asked about before, in this thread; allocates nothing. Stacks that come
 * from a heap without a guard page have no end that could be seen.
 */
bool gp_stack_has_room(size_t bytes);

/*
 * True if the two words at address, above this function's frame, are in the memory that begins with the
 * thread's stack here and has no hole up to them.
 */
bool gp_stack_holds_words(uintptr_t address);

#endif
