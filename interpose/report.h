#ifndef GP_INTERPOSE_REPORT_H
#define GP_INTERPOSE_REPORT_H

#include "pool/engine.h"

/* GPUPOOL_STATS=1: a few lines for each device, to stderr or GPUPOOL_LOG. */
void gp_report_write(gp_engine_t *engine);

#endif
