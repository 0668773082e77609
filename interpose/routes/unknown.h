/*
 * Functions of the driver that this library's tables do not know: those of a newer CUDA. A program that looks
 * one up gets a trampoline (unknown_x86_64.S, unknown_aarch64.S), which works for any parameters: it keeps
 * all argument registers and the stack as they are and jumps to the driver's function. A look-up has no
 * consequence, since runtimes look everything up when they start; a call has the smallest that is sound
 * (gp_effect_t of classes.h):
 *
 *   WORK        reuse mode `epoch` or `single` becomes `context`: no mark tells of that work
 *   CONTEXT     and the thread's current context is looked at when it next comes into this library
 *   UNCOUNTED   and a limit cannot hold for that memory, which is said
 *   CAPTURE     and the pool is suspended while the stream in the first argument captures
 *   ANYTHING    as CONTEXT, and each pooled block that an argument points into goes to the driver when it is
 * freed ENDS        nothing is pooled any more
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_H

#include "interpose/routes/classes.h"

/*
 * What to hand out for the driver's function, found under that name: its trampoline, the same for the same
 * function; or the function itself, where a call has no effect or no trampoline is left (then what its calls
 * could do is taken as done). Any thread; takes no lock, calls no driver function.
 */
void *gp_unknown_hand_out(void *function, const char *name, gp_effect_t effect);

/*
 * The driver has a function of that name, and a look-up finds it that this library cannot answer with a
 * trampoline: what is found depends on the caller (RTLD_NEXT, RTLD_DEFAULT). Its calls count as done, except
 * that a capture, or a free of pooled memory, ends pooling. Any thread.
 */
void gp_unknown_missed(const char *name, gp_effect_t effect);

#endif
