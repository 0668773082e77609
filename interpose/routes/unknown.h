/*
 * Functions of the driver that this library's tables do not know: those of a newer CUDA. A program that looks
 * one up gets a trampoline (unknown_x86_64.S, unknown_aarch64.S), which works for any parameters: it keeps
 * all argument registers and the stack as they are and jumps to the driver's function. A look-up has no
 * effect, since runtimes look everything up when they start; a call has the smallest effect that is sound
 * (gp_effect_t of classes.h):
 *
 *   WORK        reuse mode `single` becomes `context`: no stub sees that work
 *   CONTEXT     as WORK, and the thread's next entry into the library looks at its current context
 *   UNCOUNTED   as WORK, and a message: no limit holds for that memory
 *   CAPTURE     as WORK, and the pool is suspended while the stream in the first argument captures
 *   ANYTHING    as CONTEXT, and each pooled block that an argument points into goes to the driver when it is
 *               freed
 *   ENDS        pooling ends
 *
 * Of a function that frees a call that is passed memory of the pool is answered in the driver's stead
 * (unknown_frees.h). One that frees as cuMemFree does has no other effect than UNCOUNTED: it frees what the
 * pool does not hold.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_H

#include "interpose/routes/classes.h"

/*
 * What to hand out for the driver's function, found under that name: its trampoline, the same for the same
 * function; or the function itself, where a call has no effect or no trampoline is left (then its calls count
 * as made). Any thread; takes no lock, calls no driver function.
 */
void *gp_unknown_hand_out(void *function, const char *name, gp_effect_t effect);

/*
 * The driver has a function of that name, and a look-up finds it that this library cannot answer with a
 * trampoline, because the result depends on the caller (RTLD_NEXT, RTLD_DEFAULT). Its calls count as made; if
 * they might capture or free pooled memory pooling ends. Any thread.
 */
void gp_unknown_missed(const char *name, gp_effect_t effect);

#endif
