/*
 * Detects GPU work that no hook sees, because it bypasses this library on its way to the driver. One message
 * reports it.
 */
#ifndef GP_INTERPOSE_ROUTES_ESCAPE_H
#define GP_INTERPOSE_ROUTES_ESCAPE_H

#include <stdbool.h>

#include "pool/engine.h"

/*
 * Looks for a second copy of the driver in the process (dlmopen, another file), for a library before this one
 * whose dlsym passes by it, and for libraries whose calls of the driver or of dlsym bypass this library
 * (RTLD_DEEPBIND). True if there is one; the first time it logs a line. It reads the relocations of all
 * libraries, so it is for rare moments; the caller holds no lock. It does not see libraries that are loaded
 * later.
 */
bool gp_escape_check(void);

/* False if no library before this one replaces dlsym. Cheap, and for processes without a driver, too. */
bool gp_escape_is_possible(void);

/*
 * Looks for libraries that are linked to functions of the driver which the tables do not know (classes.h):
 * their calls bypass the trampolines, so it treats them as already made. Returns at once if nothing was
 * loaded since the last look. Takes the loader's lock; the caller holds no lock of this library.
 */
void gp_escape_look_for_unknown(gp_engine_t *engine);

#endif
