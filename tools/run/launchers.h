/*
 * Programs that start others where the environment or the library of this one is missing.
 */
#ifndef GP_TOOLS_LAUNCHERS_H
#define GP_TOOLS_LAUNCHERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/path.h"

#define GP_LAUNCHER_BYTES (4 * GP_PATH_BYTES) /* of a sentence */

/*
 * True if the program argv[0] (a name or a path) is known to lose LD_PRELOAD or the file of the library on
 * the way to what it starts. Writes to buffer a sentence that says so, and what to type instead. Of chroot
 * it looks into the folder: a library that is there is good.
 */
bool gp_launcher_loses(char *const argv[], const char *library, char buffer[static GP_LAUNCHER_BYTES]);

#endif
