/*
 * Functions of the driver that this library's tables do not know: those of a newer CUDA. A program that
 * looks one up gets a trampoline (unknown_x86_64.S, unknown_aarch64.S), which works for any parameters: it
 * leaves all argument registers and the stack unchanged, and jumps to the driver's function. A look-up has
 * no effect, because runtimes look up everything when they start. Before a call, the library does the
 * least that keeps the pool correct (gp_effect_t of classes.h):
 *
 *   WORK        it no longer takes idle streams as proof that work is complete (pool/reuse/known_streams.h)
 *   CONTEXT     as WORK, and the thread's next entry into the library checks the current context
 *   UNCOUNTED   as WORK, and it logs that no limit applies to memory of this function
 *   CAPTURE     as WORK, and it suspends the pool while the stream in the first argument captures
 *   ANYTHING    as CONTEXT, and each pooled block that an argument points into is released to the driver
 *               when it is freed
 *   ENDS        pooling ends
 *
 * If an unknown function frees memory and is passed memory of the pool, this library answers in the
 * driver's place. A function that frees as cuMemFree does has no effect beyond UNCOUNTED, because the
 * memory that reaches the driver is not the pool's.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_H

#include "interpose/routes/classes.h"

/*
 * Returns what a look-up of that name gives to the program for the driver's function: its trampoline, always
 * the same one; or the function itself, if a call has no effect, or if no trampoline is left (its calls then
 * count as already made). Any thread; takes no lock and calls no driver function.
 */
void *gp_unknown_wrap(void *function, const char *name, gp_effect_t effect);

/*
 * Called when a look-up finds the driver's function of that name, but this library cannot return a
 * trampoline, because the result depends on the caller (RTLD_NEXT, RTLD_DEFAULT). Treats the calls as already
 * made; if they might capture or free pooled memory, pooling ends. Any thread.
 */
void gp_unknown_missed(const char *name, gp_effect_t effect);

#endif
