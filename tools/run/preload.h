/*
 * Finds the preload library and puts it into the environment.
 */
#ifndef GP_TOOLS_PRELOAD_H
#define GP_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the libgpupool.so of this tool's build or installation. Returns false, after a message, if there
 * is none. */
bool gp_preload_find(char *buffer, size_t capacity);

/*
 * Puts library first in LD_PRELOAD. The other entries follow in their order, without duplicates. Only the
 * AddressSanitizer runtime stays in front, because it ends every program in which it is not the first
 * library. Prints a message if it drops another copy of the library. Returns false, after a message, if the
 * path has a blank or a colon, which the loader cannot parse, or without memory.
 */
bool gp_preload_set(const char *library);

/* Makes NVTX load the library as its injection tool. If another tool was set, the library loads that tool.
 * Returns false, after a message, without memory. */
bool gp_preload_set_nvtx(const char *library);

/*
 * Other libraries and tools that intercept CUDA calls, as found in the environment.
 */

#define GP_LD_SO_PRELOAD "/etc/ld.so.preload" /* lists what the loader preloads into every program */

/* Called for each conflict with a description and a remedy: sentences without a full stop. */
typedef void (*gp_conflict_fn)(void *arg, const char *what, const char *remedy);

/* Separators of the entries in a list that the loader reads, such as LD_PRELOAD. */
#define GP_PRELOAD_SEPARATORS " :"

/* Returns true if the file is a sanitizer runtime, which has to be the first library of a process. */
bool gp_conflict_comes_first(const char *file);

/* Reports the libraries in list (LD_PRELOAD; NULL: unset) and in the file ld_so_preload that also hook
 * CUDA functions, and the tools that environment variables load. Host allocators are no conflict. */
void gp_conflicts_find(const char *list, const char *ld_so_preload, gp_conflict_fn report, void *arg);

#endif
