/*
 * Stacks that a thread has captured before: recognizes them without an unwinder, exactly.
 *
 * An entry has the words that an unwinder would read of the stack, in its order: the place and value of
 * each return address, and the words in between that lead to the next one. While the same code is
 * loaded, each word determines where the next one is: if all words so far are unchanged, the next one is
 * at the same place. So the comparison goes from the innermost word outwards and stops at the first
 * difference. It always reads live stack, and if all words are equal, the stack is the same.
 * doc/stacks.md has the argument.
 *
 * All functions are about the calling thread, take no lock of the library and allocate nothing but
 * the thread's table, from the kernel. In a signal handler that interrupts one of them, find returns
 * 0 and learn keeps nothing.
 */
#ifndef GP_TRACE_KNOWN_STACKS_H
#define GP_TRACE_KNOWN_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function where walks begin, and the state for which its stacks are valid. */
typedef struct gp_known_site {
  const void *frame; /* __builtin_frame_address(0) of a function that has one, on x86-64: the caller's rbp,
                        the return address */
  uint64_t table_id; /* of the table of stacks that has the numbers */
  uint64_t unloads;  /* dlpi_subs, read in this call */
} gp_known_site_t;

/* The number of the stack, if the thread knows it; else 0. */
uint32_t gp_known_stacks_find(const gp_known_site_t *site);

/*
 * The unwinder found addresses[0..count) in this call, in the function's callees and callers; number
 * is the stack's number in the table. Keeps the stack if the thread has captured it before, and if
 * its unwind rules depend on nothing beyond an entry's words. is_cut: the unwinder may have stopped
 * before the outermost frame.
 */
void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut);

/* Frees the thread's table; to be called at the thread's end if it has learnt anything. */
void gp_known_stacks_thread_ended(void);

/* For tests and benchmarks. */
typedef struct gp_known_counts {
  uint64_t found;
  uint64_t learnt;
  uint64_t refused; /* stacks that it could not keep */
} gp_known_counts_t;

gp_known_counts_t gp_known_stacks_counts(void);

#endif
