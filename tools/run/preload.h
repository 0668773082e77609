/*
 * The preload library: where it is, and into the environment with it.
 */
#ifndef GP_TOOLS_PRELOAD_H
#define GP_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Finds libgpupool.so of the same build or installation as this tool. False: there is none, and a message. */
bool gp_preload_find(char *buffer, size_t capacity);

/*
 * Puts library first in LD_PRELOAD, before what is there, unless it is there already. False, after a
 * message: the loader takes no path with a blank or a colon, or there is no memory.
 */
bool gp_preload_set(const char *library);

#endif
