/*
 * Which library NVTX loads at the program's first range or mark: this one, another tool, or none.
 */
#ifndef GP_INTERPOSE_NVTX_NVTX_PATH_H
#define GP_INTERPOSE_NVTX_NVTX_PATH_H

#include <stdbool.h>

/* NVTX loads this library: NVTX_INJECTION64_PATH names its file. */
bool gp_nvtx_loads_us(void);

/* The file of another tool that NVTX loads, or that this library is to load in its place (GPUPOOL_NVTX_NEXT);
 * NULL: none. */
const char *gp_nvtx_other_tool(void);

/* With GPUPOOL_NVTX=1, one line if NVTX does not load this library. */
void gp_nvtx_say_what_is_missing(void);

#endif
