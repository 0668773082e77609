/*
 * Driver functions that this library's tables lack: the functions of a newer CUDA. A program that looks one
 * up gets a trampoline (unknown_x86_64.S, unknown_aarch64.S), which works for any parameters: it leaves all
 * argument registers and the stack unchanged, and jumps to the driver's function. A look-up has no effect,
 * because runtimes look up everything when they start. Before a call, the library does the least that keeps
 * the pool correct (gp_effect_t of classes.h):
 *
 *   WORK        the library no longer takes idle streams as proof of completion (pool/reuse/known_streams.h)
 *   CONTEXT     like WORK, and the thread's next entry into the library checks the current context
 *   UNCOUNTED   like WORK, and it logs that no limit applies to memory of this function
 *   CAPTURE     like WORK, and it suspends the pool while the stream in the first argument captures
 *   ANYTHING    like CONTEXT, and each pooled block that an argument points into is released to the driver
 *               when it is freed
 *   ENDS        pooling ends
 *
 * If an unknown function frees memory and the program passes pooled memory, this library handles the call in
 * the driver's place. A function that frees as cuMemFree does has no effect beyond UNCOUNTED, because the
 * memory that reaches the driver is not the pool's.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_H

#include "interpose/routes/classes.h"

/*
 * Returns the function that a look-up of `name` gives to the program in place of the driver's `function`: its
 * trampoline, always the same one; or `function` itself, if a call has no effect, or if no trampoline is left
 * (its calls then count as already made). Any thread; takes no lock and calls no driver function.
 */
void *gp_unknown_wrap(void *function, const char *name, gp_effect_t effect);

/*
 * Handles a look-up that finds the driver's function `name`, but for which this library cannot return a
 * trampoline, because the result depends on the caller (RTLD_NEXT, RTLD_DEFAULT). Treats the calls as already
 * made; if they might capture or free pooled memory, pooling ends. Any thread.
 */
void gp_unknown_missed(const char *name, gp_effect_t effect);

#endif
