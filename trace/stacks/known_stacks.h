/*
 * Stacks that a thread has captured before: found again without an unwinder, exactly.
 *
 * An entry is what an unwinder would read of the stack, in its order: where each return address is, and what
 * it is; and the words in between that it takes to get to the next one. While the code is loaded that was,
 * each word says where the next one is: if the words up to here are what they were, the next one is where it
 * was. So they are compared from the innermost on, and the first that differs ends it: what is read is the
 * live stack always, and if all are the same the stack is. doc/stacks.md has the argument.
 *
 * All functions are about the calling thread, take no lock of the library and allocate nothing but the
 * thread's table, from the kernel. A signal handler that interrupts one of them finds nothing, and nothing of
 * it is kept.
 */
#ifndef GP_TRACE_KNOWN_STACKS_H
#define GP_TRACE_KNOWN_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A function that will be walked from, and of what its stacks are good.
 */
typedef struct gp_known_site {
  const void *frame; /* __builtin_frame_address(0) of a function that has one, on x86-64: the caller's rbp,
                        the return address */
  uint64_t table_id; /* of the table of stacks that gives the numbers */
  uint64_t unloads;  /* dlpi_subs, asked for in this call */
} gp_known_site_t;

/* The number of the stack, if it is one of those that the thread knows; 0: not. */
uint32_t gp_known_stacks_find(const gp_known_site_t *site);

/*
 * The unwinder found addresses[0..count) in this call, in the function's callees and callers; number is that
 * of the stack in the table. It is kept if the thread has captured it before, and if the rules by which it
 * was walked hang on nothing but what an entry has. is_cut: the unwinder may have stopped before the
 * outermost frame.
 */
void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut);

/* Gives the thread's table back: at its end, if it has learnt anything. */
void gp_known_stacks_thread_ended(void);

/* For tests and benchmarks. */
typedef struct gp_known_counts {
  uint64_t found;
  uint64_t learnt;
  uint64_t refused; /* stacks that cannot be kept */
} gp_known_counts_t;

gp_known_counts_t gp_known_stacks_counts(void);

#endif
