/*
 * Works on many files in several processes at once. Uses processes, because most of the tool is
 * single-threaded, and a fork is cheap compared with reading a file of a million events. The processes return
 * results in shared memory.
 */
#ifndef GP_TOOLS_SIDE_BY_SIDE_H
#define GP_TOOLS_SIDE_BY_SIDE_H

#include <stddef.h>

/* Allocates zeroed memory that the processes share, aligned to 8 bytes. The page after it is inaccessible,
 * because sanitizers do not check such memory. Returns NULL on failure. */
void *gp_shared_alloc(size_t bytes);
void gp_shared_free(void *memory, size_t bytes); /* `memory` may be NULL */

/* Calls `work` once for each number below `count`. Calls it for 0 first, in this process. The other calls run
 * in this process and in forked copies, which share the results of the first call. Uses as many processes as
 * there are processors, at most 8. Returns when all calls have returned. If a process was killed, some calls
 * were not made. The copies neither return nor run exit handlers. */
void gp_side_by_side(size_t count, void (*work)(void *self, size_t number), void *self);

#endif
