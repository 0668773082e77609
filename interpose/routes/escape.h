/*
 * Detects GPU work that no hook sees, because it bypasses this library on its way to the driver. The library
 * reports such work once.
 */
#ifndef GP_INTERPOSE_ROUTES_ESCAPE_H
#define GP_INTERPOSE_ROUTES_ESCAPE_H

#include <stdbool.h>

#include "pool/engine.h"

/*
 * Looks for a second copy of the driver in the process (dlmopen, another file), for a library that precedes
 * this one and whose dlsym bypasses it, and for libraries whose calls of the driver or of dlsym bypass this
 * library (RTLD_DEEPBIND). Returns true if it finds one; the first time it logs a line. The function reads
 * the relocations of all libraries, so call it rarely. The caller holds no lock. The function does not see
 * libraries that are loaded later.
 */
bool gp_escape_check(void);

/* Returns true if a library that precedes this one replaces dlsym. Cheap; works also in processes without a
 * driver. */
bool gp_escape_is_possible(void);

/*
 * Looks for libraries that are linked to driver functions that the tables lack (classes.h). Calls of such
 * functions bypass the trampolines, so the library treats them as already made. Returns at once if nothing
 * was loaded since the last look. Takes the loader's lock; the caller holds no lock of this library.
 */
void gp_escape_look_for_unknown(gp_engine_t *engine);

#endif
