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

/*
 * Other libraries and tools that get between a program and its GPU, as the environment shows them.
 */

#define GP_LD_SO_PRELOAD "/etc/ld.so.preload" /* what the loader preloads into every program */

/* Called for each conflict: what it is, and what helps; complete sentences without a full stop. */
typedef void (*gp_conflict_fn)(void *arg, const char *what, const char *remedy);

/* The words of a list that the loader reads, LD_PRELOAD for example, are separated by these. */
#define GP_PRELOAD_SEPARATORS " :"

/* True if the file is the runtime of a sanitizer that has to be the first library of a process. */
bool gp_conflict_comes_first(const char *file);

/* Reports the libraries in list (LD_PRELOAD; NULL: unset) and in the file ld_so_preload that hook CUDA
 * functions, too, and the tools that variables of the environment load. Allocators' libraries are none. */
void gp_conflicts_find(const char *list, const char *ld_so_preload, gp_conflict_fn report, void *arg);

#endif
