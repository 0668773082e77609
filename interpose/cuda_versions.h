/*
 * The CUDA versions that gpupool knows, as cuDriverGetVersion numbers them: 1000 * major + 10 * minor.
 */
#ifndef GP_INTERPOSE_CUDA_VERSIONS_H
#define GP_INTERPOSE_CUDA_VERSIONS_H

/* The newest CUDA version whose functions are in the tables (classes.def lists the sources). */
#define GP_NEWEST_CUDA_VERSION 13050

/* The oldest driver version with which the library pools memory. */
#define GP_OLDEST_CUDA_VERSION 11020

/* The first driver version with cuCtxRecordEvent. The pool's fences need it to cover a whole context. */
#define GP_FENCE_CUDA_VERSION 12050

#endif
