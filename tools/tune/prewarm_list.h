/*
 * The text of GPUPOOL_PREWARM that lets a pool begin with the memory that it had in the end of an earlier
 * run.
 */
#ifndef GP_TOOLS_TUNE_PREWARM_LIST_H
#define GP_TOOLS_TUNE_PREWARM_LIST_H

#include "tools/replay/simulation.h"

/* Writes the text, at most `capacity` bytes with the end. Whole blocks become a list of their sizes: what the
 * text or the option cannot hold is left out, sizes of few bytes in all first. Memory that is cut or mapped
 * becomes one amount. Of several devices each size counts where most blocks have it, since the option is for
 * all. Memory of cudaMallocAsync is left out, which the option does not make. False: there is no such
 * memory, or the host has none. */
bool gp_prewarm_list(const gp_final_blocks_t *blocks, bool is_cut, char *text, size_t capacity);

#endif
