/*
 * Tools that the driver loads into a process to watch its calls: compute-sanitizer, Nsight Systems, Nsight
 * Compute. Memory that is handed out again without a driver call is allocated for them all the time: a
 * sanitizer misses uses after a free, a profiler misses calls.
 */
#ifndef GP_INTERPOSE_ROUTES_INJECTION_H
#define GP_INTERPOSE_ROUTES_INJECTION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True if such a tool is in this process or will be when the driver is initialized. text, of at least 256
 * bytes, then says by what that is known. Takes the loader's lock; calls no driver function.
 */
bool gp_injection_find(char *text, size_t capacity);

/*
 * True if CUPTI is loaded, by which a program can have itself called back in the middle of each driver call.
 * Pooling does not mind; marks of work do (pool/reuse/work_flags.h).
 */
bool gp_injection_watches_calls(void);

#endif
