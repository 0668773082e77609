/* Which copies are operations of a stream of the current context: the function's name does not tell, since
 * the program may pass any addresses. */
#ifndef GP_INTERPOSE_HOOKS_COPIES_H
#define GP_INTERPOSE_HOOKS_COPIES_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"

/* True if an operation on `address` runs in a stream of the current context: the address is that context's
 * device memory, not managed. False when in doubt. Asks the driver. Any thread. */
bool gp_copy_is_of_context(CUdeviceptr address);

#endif
