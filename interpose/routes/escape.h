/*
 * Work on the GPU that no hook can see, because it reaches the driver past this library: said once.
 */
#ifndef GP_INTERPOSE_ROUTES_ESCAPE_H
#define GP_INTERPOSE_ROUTES_ESCAPE_H

#include <stdbool.h>

#include "pool/engine.h"

/*
 * Looks for a second copy of the driver in the process (dlmopen, another file) and for libraries whose calls
 * of the driver or of dlsym go past ours (RTLD_DEEPBIND). True if there is one; the first time one line says
 * so. Takes as long as the relocations of all libraries: for rare moments, outside of locks. What is loaded
 * later it cannot know.
 */
bool gp_escape_check(void);

/*
 * Looks for libraries that are linked to functions of the driver which the tables do not know (classes.h):
 * the loader has led these past the trampolines. Does so if something was loaded since the last look, else
 * costs little. Takes the loader's lock: outside of locks.
 */
void gp_escape_look_for_unknown(gp_engine_t *engine);

#endif
