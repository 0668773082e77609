/*
 * Functions of the driver that this library's tables do not know: those of a newer CUDA. A program that
 * looks one up gets a trampoline (unknown_x86_64.S, unknown_aarch64.S), which works for any parameters: it
 * leaves all argument registers and the stack unchanged, and jumps to the driver's function. A look-up has
 * no effect, since runtimes look up everything when they start. A call has the smallest effect that is
 * sound (gp_effect_t of classes.h):
 *
 *   WORK        the library no longer concludes from streams what is complete (pool/reuse/known_streams.h)
 *   CONTEXT     as WORK, and the thread's next entry into the library looks at its current context
 *   UNCOUNTED   as WORK, and a message: no limit holds for that memory
 *   CAPTURE     as WORK, and the pool is suspended while the stream in the first argument captures
 *   ANYTHING    as CONTEXT, and each pooled block that an argument points into goes to the driver when it is
 *               freed
 *   ENDS        pooling ends
 *
 * If such a function frees and gets memory of the pool, this library answers in the driver's place
 * there. A function that frees as cuMemFree does has no effect beyond UNCOUNTED: it frees
 * memory that the pool does not hold.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_H

#include "interpose/routes/classes.h"

/*
 * Returns what a look-up of that name gives to the program for the driver's function: its trampoline, always
 * the same one; or the function itself, if a call has no effect, or if no trampoline is left (its calls then
 * count as already made). Any thread; takes no lock and calls no driver function.
 */
void *gp_unknown_hand_out(void *function, const char *name, gp_effect_t effect);

/*
 * Called when a look-up finds the driver's function of that name, but this library cannot return a
 * trampoline, because the result depends on the caller (RTLD_NEXT, RTLD_DEFAULT). Treats the calls as already
 * made; if they might capture or free pooled memory, pooling ends. Any thread.
 */
void gp_unknown_missed(const char *name, gp_effect_t effect);

#endif
