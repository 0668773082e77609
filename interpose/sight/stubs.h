/*
 * sight/: what reuse depends on and only the program's calls show: submissions (stubs, work; for mode
 * `single`) and events. May include what hooks may.
 *
 * Which functions of the driver have a stub that sees work (work.def), and whether look-ups hand the stubs
 * out. Any thread; nothing here starts the library, so that a look-up may ask.
 */
#ifndef GP_INTERPOSE_SIGHT_STUBS_H
#define GP_INTERPOSE_SIGHT_STUBS_H

#include <stdbool.h>

/* The stubs, by address: not to be called from C. Absent on processors that they are not written for. */
#if defined(__x86_64__)
#define GP_HAS_WORK_STUBS                            1
#define WORK(symbol, base, since, per_thread, where) extern const char gp_work_##symbol[];
#include "interpose/sight/work.def"
#else
#define GP_HAS_WORK_STUBS 0
#endif

/* True if the reuse mode that is asked for has to know all work (GPUPOOL_REUSE=single). */
bool gp_stubs_are_wanted(void);

/*
 * How many functions, of those that gp_function_t begins with, look-ups replace: the hooks, and the stubs
 * where they are wanted. A launch pays for nothing else.
 */
int gp_stubs_replaced_count(void);

/*
 * False if another library stands between the stubs and the driver: it may submit work
 * of its own past them, as tools that watch launches do. Takes the loader's lock.
 */
bool gp_stubs_reach_driver(void);

#endif
