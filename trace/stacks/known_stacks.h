/*
 * Recognizes stacks that a thread has captured before, exactly and without an unwinder.
 *
 * An entry has the words that an unwinder would read from the stack, in the unwinder's order: the place and
 * value of each return address, and the words in between that lead to the next one. While the same code is
 * loaded, each word determines where the next one is: if all words so far are unchanged, the next one is
 * at the same place. So the comparison goes from the innermost word outwards and stops at the first
 * difference. It only reads memory that is still part of the stack, and if all words are equal, the stack is
 * the same. doc/stacks.md has the proof.
 *
 * All functions work on the calling thread's table, take no lock of the library and allocate only that table,
 * directly from the kernel. In a signal handler that interrupts one of them, find returns 0 and learn stores
 * nothing.
 */
#ifndef GP_TRACE_KNOWN_STACKS_H
#define GP_TRACE_KNOWN_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function where captures begin, and the state for which its known stacks are valid. */
typedef struct gp_known_site {
  const void *frame; /* __builtin_frame_address(0) of a function with a frame pointer; on x86-64 it points to
                        the caller's rbp and the return address */
  uint64_t table_id; /* id of the table of stacks to which the numbers belong */
  uint64_t unloads;  /* dlpi_subs, read in this call */
} gp_known_site_t;

/* Returns the number of the current stack if the thread knows the stack, else 0. */
uint32_t gp_known_stacks_find(const gp_known_site_t *site);

/*
 * Stores the current stack if the thread has captured it before and its unwind rules depend only on words
 * that an entry can have. addresses[0..count) are what the unwinder found in this call, in the function's
 * callees and callers; number is the stack's number in the table. is_cut: the unwinder may have stopped
 * before the outermost frame.
 */
void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut);

/* Frees the thread's table. Call it at the end of every thread that may have stored a stack. */
void gp_known_stacks_thread_ended(void);

/* For tests and benchmarks. */
typedef struct gp_known_counts {
  uint64_t found;
  uint64_t learnt;
  uint64_t refused; /* stacks that could not be stored */
} gp_known_counts_t;

gp_known_counts_t gp_known_stacks_counts(void);

#endif
