/* A miss: no memory that the pool has serves the request, so that the pool asks what the device has finished,
 * and grows. */
#ifndef GP_POOL_SERVE_MISS_H
#define GP_POOL_SERVE_MISS_H

#include "pool/request.h"

/* Returns 0, with request->ret_address, or the driver's code. Any thread, without a lock. */
int gp_miss(gp_request_t *request);

#endif
