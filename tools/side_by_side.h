/*
 * Work on many files in several processes at once. Most of the tool is for one thread, and a process costs
 * little beside a file of a million events. What the work leaves for the caller is in shared memory.
 */
#ifndef GP_TOOLS_SIDE_BY_SIDE_H
#define GP_TOOLS_SIDE_BY_SIDE_H

#include <stddef.h>

/* Memory of zeros that the processes share, for objects that are aligned by 8 bytes at most. What is behind
 * it cannot be read: sanitizers do not know such memory. NULL: there is none. */
void *gp_shared_alloc(size_t bytes);
void gp_shared_free(void *memory, size_t bytes); /* NULL is legal */

/* Calls work once for each number below count: for 0 in this process, and then for the others in this one and
 * in copies of it, which know what it has learned by then. There are as many as processors, and at most 8.
 * Returns when all calls have returned; of a process that was killed some have not. The copies neither return
 * nor run what a process does at its exit. */
void gp_side_by_side(size_t count, void (*work)(void *self, size_t number), void *self);

#endif
