/*
 * Finds out which library NVTX loads at the program's first range or mark: this one, another tool, or none.
 */
#ifndef GP_INTERPOSE_NVTX_NVTX_PATH_H
#define GP_INTERPOSE_NVTX_NVTX_PATH_H

#include <stdbool.h>

/* Returns true if NVTX loads this library, because NVTX_INJECTION64_PATH is the path of this library. */
bool gp_nvtx_loads_us(void);

/* Returns the file of another tool that NVTX loads itself, or that this library must load on NVTX's behalf
 * (GPUPOOL_NVTX_NEXT). Returns NULL if there is none. */
const char *gp_nvtx_other_tool(void);

/* With GPUPOOL_NVTX=1, logs one line if NVTX does not load this library. */
void gp_nvtx_say_what_is_missing(void);

#endif
