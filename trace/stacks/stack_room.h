/* Checks how much of its stack the calling thread can read and write. */
#ifndef GP_TRACE_STACK_ROOM_H
#define GP_TRACE_STACK_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns true if the thread can use `bytes` more of its stack and is not on an alternate signal stack.
 * Queries the kernel about each page once per thread. Allocates nothing. Cannot detect the end of a stack
 * without a guard page, such as a stack allocated from a heap.
 */
bool gp_stack_has_room(size_t bytes);

/* Returns true if the kernel can read the 8 bytes at address. Preserves errno. */
bool gp_word_is_readable(uintptr_t address);

/* Returns true if the two words at `address` are readable, and all memory between them and the thread's
 * current stack, too. `address` must be above this function's frame. */
bool gp_stack_holds_words(uintptr_t address);

#endif
