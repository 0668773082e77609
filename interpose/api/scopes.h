/*
 * Scopes: report what happens on a device between two calls of the program.
 */
#ifndef GP_INTERPOSE_API_SCOPES_H
#define GP_INTERPOSE_API_SCOPES_H

#include "pool/engine.h"

/* Restarts the peaks of a device. Open scopes keep the peaks reached so far. The caller holds gp_api_lock. */
void gp_scopes_reset_peaks(gp_engine_t *engine, int device);

#endif
