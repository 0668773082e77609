/* The limit on page-locked memory of the host: one for the process, whatever device is current. */
#ifndef GP_POOL_FORWARDED_HOST_LIMIT_H
#define GP_POOL_FORWARDED_HOST_LIMIT_H

#include "pool/engine_record.h"

void gp_host_limit_init(gp_host_limit_t *limit, const gp_options_t *options);

/* Before the driver is asked for bytes, which are counted at once, so that the limit is never exceeded, not
 * even for a moment. False: it refuses, and nothing is counted. Takes no lock. */
bool gp_host_limit_reserve(gp_host_limit_t *limit, uint64_t bytes);
void gp_host_limit_return(gp_host_limit_t *limit, uint64_t bytes);

/* Counts bytes a second time, until the process ends: the library cannot see when the driver gets them. */
void gp_host_limit_keep_for_good(gp_host_limit_t *limit, uint64_t bytes);

/* The limit has refused bytes: event and report. The caller holds no lock. */
void gp_host_limit_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

#endif
