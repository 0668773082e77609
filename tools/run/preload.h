/*
 * Finds the preload library and puts it into the environment.
 */
#ifndef GP_TOOLS_PRELOAD_H
#define GP_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the libgpupool.so of this tool's build or installation, and writes its path to `buffer`. Returns
 * false, after a message, if there is none. */
bool gp_preload_find(char *buffer, size_t capacity);

/*
 * Puts `library` first in LD_PRELOAD. The other entries follow in their order, without duplicates. Only the
 * AddressSanitizer runtime stays in front, because it ends every program in which it is not the first
 * library. Prints a message if another copy of the library is dropped. Returns false, after a message, if
 * memory runs out, or if the path has a blank or a colon, which the loader cannot parse.
 */
bool gp_preload_set(const char *library);

/* Makes NVTX load the library as its injection tool. If another tool was set, the library loads that tool.
 * Returns false, after a message, if memory runs out. */
bool gp_preload_set_nvtx(const char *library);

/*
 * Finds other libraries and tools in the environment that intercept CUDA calls.
 */

#define GP_LD_SO_PRELOAD "/etc/ld.so.preload" /* list of what the loader preloads into every program */

/* Called for each conflict. `what` describes it, `remedy` says what to do: sentences without a full stop. */
typedef void (*gp_conflict_fn)(void *arg, const char *what, const char *remedy);

/* Characters that separate the entries of a list that the loader reads, such as LD_PRELOAD. */
#define GP_PRELOAD_SEPARATORS " :"

/* Returns true if the file is a sanitizer runtime, which has to be the first library of a process. */
bool gp_conflict_comes_first(const char *file);

/* Reports libraries that also hook CUDA functions, in `list` (LD_PRELOAD; NULL: unset) and in the file
 * `ld_so_preload`. Also reports tools that environment variables load. Host allocators are no conflict. */
void gp_conflicts_find(const char *list, const char *ld_so_preload, gp_conflict_fn report, void *arg);

#endif
