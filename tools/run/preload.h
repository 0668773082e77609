/*
 * Finds the preload library and puts it into the environment.
 */
#ifndef GP_TOOLS_PRELOAD_H
#define GP_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the libgpupool.so of this tool's build or installation. False, after a message: there is none. */
bool gp_preload_find(char *buffer, size_t capacity);

/*
 * Puts library first in LD_PRELOAD. The other entries follow in their order, each once. Only the runtime of
 * AddressSanitizer stays in front: it ends every program in which it is not the first library. Names another
 * copy of the library that this drops. False, after a message: the path has a blank or a colon, which the
 * loader cannot take, or there is no memory.
 */
bool gp_preload_set(const char *library);

/* Makes NVTX load the library. The tool that it was to load, if any, is loaded by the library. False, after a
 * message: no memory. */
bool gp_preload_set_nvtx(const char *library);

#endif
