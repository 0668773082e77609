/*
 * Work on many files in several processes at once. Processes, because most of the tool is single-threaded,
 * and a fork is cheap compared with a file of a million events. Results are returned in shared memory.
 */
#ifndef GP_TOOLS_SIDE_BY_SIDE_H
#define GP_TOOLS_SIDE_BY_SIDE_H

#include <stddef.h>

/* Allocates zeroed memory that the processes share, aligned to 8 bytes. The page after it is inaccessible,
 * because sanitizers do not check such memory. Returns NULL if that fails. */
void *gp_shared_alloc(size_t bytes);
void gp_shared_free(void *memory, size_t bytes); /* NULL is legal */

/* Calls work once for each number below count: first for 0 in this process, then for the others in this
 * process and in forked copies, which share what the first call stored. Uses as many processes as there
 * are processors, at most 8. Returns when all calls have returned; if a process was killed, some calls are
 * missing. The copies neither return nor run exit handlers. */
void gp_side_by_side(size_t count, void (*work)(void *self, size_t number), void *self);

#endif
