#ifndef GP_INTERPOSE_REPORT_H
#define GP_INTERPOSE_REPORT_H

#include "pool/engine.h"

/* With GPUPOOL_STATS=1, writes a few lines for each device to the log (stderr or GPUPOOL_LOG). Any thread;
 * makes no driver call. */
void gp_report_write(gp_engine_t *engine);

#endif
