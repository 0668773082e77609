/*
 * Recognizes stacks that a thread has captured before, exactly and without an unwinder.
 *
 * An entry contains the words that an unwinder would read from the stack, in the same order: the position and
 * value of each return address, and the words in between that lead to the next return address. While the same
 * code is loaded, each word determines the position of the next word. So if all words so far are unchanged,
 * the next word is at the same position. The comparison goes from the innermost word outwards and stops at
 * the first difference. So it reads only memory that is still part of the stack. If all words are equal, the
 * stack is the same. doc/stacks.md contains the proof.
 *
 * All functions use the calling thread's table. They take no lock of the library and allocate only that
 * table, directly from the kernel. In a signal handler that interrupts one of these functions,
 * gp_known_stacks_find returns 0 and gp_known_stacks_learn stores nothing.
 */
#ifndef GP_TRACE_KNOWN_STACKS_H
#define GP_TRACE_KNOWN_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function in which captures begin, and the state for which its known stacks are valid. */
typedef struct gp_known_site {
  const void *frame; /* __builtin_frame_address(0) of a function with a frame pointer; on x86-64 it points to
                      * the caller's rbp and the return address */
  uint64_t table_id; /* id of the table of stacks that assigned the numbers */
  uint64_t unloads;  /* dlpi_subs, read during this call */
} gp_known_site_t;

/* Returns the number of the current stack, or 0 if the thread does not know the stack. */
uint32_t gp_known_stacks_find(const gp_known_site_t *site);

/*
 * Stores the current stack if the thread has captured it before and if its unwind rules depend only on words
 * that an entry can contain. addresses[0..count) are the addresses that the unwinder found in this call, in
 * the function's callees and callers. `number` is the stack's number in the table. is_cut means that the
 * unwinder may have stopped before the outermost frame.
 */
void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut);

/* Frees the thread's table. Must be called at the end of every thread that may have stored a stack. */
void gp_known_stacks_thread_ended(void);

/* Counts for tests and benchmarks. */
typedef struct gp_known_counts {
  uint64_t found;
  uint64_t learnt;
  uint64_t refused; /* number of stacks that could not be stored */
} gp_known_counts_t;

gp_known_counts_t gp_known_stacks_counts(void);

#endif
