/* A request while it is served: alloc.c begins it, hit.c and miss.c serve it. */
#ifndef GP_POOL_REQUEST_H
#define GP_POOL_REQUEST_H

#include "pool/engine_record.h"
#include "pool/space/account.h"

typedef struct gp_request {
  gp_engine_t *engine;
  gp_context_t *context;
  gp_context_t *arena;     /* has the blocks that may serve the request: the context, or device->ordered */
  const gp_order_t *order; /* a request in a stream, whose context this is; NULL: in no stream */
  uint64_t requested;
  gp_fit_t fit;  /* idle blocks that may serve it */
  uint64_t size; /* of the block to make: one of its class */
  uint64_t ret_address;
  bool is_cut; /* makes the block a part of a segment or of mapped memory */
} gp_request_t;

/* See look_for_escapes in driver.h. */
static inline void gp_request_look_for_escapes(const gp_request_t *request)
{
  const gp_driver_t *driver = &request->engine->driver;
  if (driver->ops->look_for_escapes)
    driver->ops->look_for_escapes(driver->self);
}

#endif
