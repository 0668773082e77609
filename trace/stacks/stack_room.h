/* Checks how far the calling thread can read and write its stack from here. */
#ifndef GP_TRACE_STACK_ROOM_H
#define GP_TRACE_STACK_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns true if the thread can use `bytes` more of its stack and is not on an alternate signal stack. Asks
 * the kernel about each page once per thread; allocates nothing. Cannot see the end of a stack without a
 * guard page, such as one allocated from a heap.
 */
bool gp_stack_has_room(size_t bytes);

/* Returns true if the kernel can read the 8 bytes at address. Preserves errno. */
bool gp_word_is_readable(uintptr_t address);

/* Returns true if the two words at address, which is above this function's frame, are readable, and so is all
 * memory between them and the thread's current stack. */
bool gp_stack_holds_words(uintptr_t address);

#endif
