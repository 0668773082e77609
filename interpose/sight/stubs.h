/*
 * sight/: follows what reuse depends on and only the program's calls show: submissions (stubs, work; for
 * mode `single`) and events. May include whatever hooks may.
 *
 * Which functions of the driver have a stub that sees work (work.def), and whether look-ups hand the stubs
 * out. Any thread; nothing here starts the library, so look-ups may call these functions.
 */
#ifndef GP_INTERPOSE_SIGHT_STUBS_H
#define GP_INTERPOSE_SIGHT_STUBS_H

#include <stdbool.h>

/* The stubs, for their addresses only: not to be called from C. Absent on processors without stubs. */
#if defined(__x86_64__)
#define GP_HAS_WORK_STUBS                            1
#define WORK(symbol, base, since, per_thread, where) extern const char gp_work_##symbol[];
#include "interpose/sight/work.def"
#else
#define GP_HAS_WORK_STUBS 0
#endif

/* True if the requested reuse mode needs to see all work (GPUPOOL_REUSE=single). */
bool gp_stubs_are_wanted(void);

/*
 * GPUPOOL_DISABLE=1 is in the environment: look-ups in the driver find its own functions, the runtime's
 * look-up of cuGetProcAddress first of all, so that calls cost nothing more. The hooks still forward the
 * calls of a program that is linked to the driver, and all calls where a file of settings disables the
 * library.
 */
bool gp_hooks_are_left_out(void);

/* How many of the first functions of gp_function_t look-ups replace: the hooks, and the stubs if wanted.
 * Without stubs a launch costs nothing more. */
int gp_stubs_replaced_count(void);

/* False if another library stands between the stubs and the driver: it may submit work of its own past the
 * stubs, as tools that watch launches do. Takes the loader's lock. */
bool gp_stubs_reach_driver(void);

#endif
