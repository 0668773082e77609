/*
 * How much of what the program `components` holds is whose. All sizes are different, and none is rounded.
 */
#ifndef COMPONENTS_H
#define COMPONENTS_H

#include <stddef.h>

#define MIB             (1 << 20)
#define WEIGHTS_BYTES   (64 * MIB)
#define TENSOR_BYTES    (32 * MIB)
#define GRADIENT_BYTES  (12 * MIB)
#define WORKSPACE_BYTES (4 * MIB)
#define STATIC_BYTES    (6 * MIB)
#define HOST_BYTES      (5 * MIB)
#define GRAPH_BYTES     (2 * MIB)
#define NCCL_BYTES      (16 * MIB)
#define CUBLAS_BYTES    (8 * MIB)
#define CUDNN_BYTES     (24 * MIB)

/* libtorch_cuda.so. NULL, or not 0, if something failed. */
void *tensor(size_t bytes);            /* for the caller */
void *backward(void);                  /* got in a thread of the framework's own */
void *multiply(void);                  /* a workspace for cuBLAS */
int all_reduce(int (*function)(void)); /* calls another library's function */

#endif
