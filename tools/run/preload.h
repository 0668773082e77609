/*
 * Finds the preload library and puts it into the environment.
 */
#ifndef GP_TOOLS_PRELOAD_H
#define GP_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the libgpupool.so of this tool's build or installation. False, after a message: there is none. */
bool gp_preload_find(char *buffer, size_t capacity);

/* Puts library first in LD_PRELOAD, before its present content, unless it is in there. False, after a
 * message: the path has a blank or a colon, which the loader cannot take, or there is no memory. */
bool gp_preload_set(const char *library);

#endif
