/*
 * Other libraries and tools that get between a program and its GPU, as the environment shows them.
 */
#ifndef GP_TOOLS_CONFLICTS_H
#define GP_TOOLS_CONFLICTS_H

#include <stdbool.h>

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
