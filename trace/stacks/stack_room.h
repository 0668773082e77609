/* Checks how far the calling thread can read and write its stack from here. */
#ifndef GP_TRACE_STACK_ROOM_H
#define GP_TRACE_STACK_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * True if the thread can use `bytes` more of its stack, and is not on an alternate signal stack.
 * Asks the kernel about each page once per thread; allocates nothing. Stacks from a heap without a
 * guard page have no visible end.
 */
bool gp_stack_has_room(size_t bytes);

/* True if the kernel can read the 8 bytes at address. Preserves errno. */
bool gp_word_is_readable(uintptr_t address);

/* True if the two words at address, above this function's frame, are readable, with no hole between the
 * thread's stack here and them. */
bool gp_stack_holds_words(uintptr_t address);

#endif
