/*
 * Reports damage that GPUPOOL_CHECK has found: one line for each owner and kind of damage. Repeats are
 * counted in the statistic num_damages, and each is an event.
 */
#ifndef GP_TRACE_DAMAGE_REPORT_H
#define GP_TRACE_DAMAGE_REPORT_H

#include "format/stack_log.h"
#include "pool/observer.h"

#define GP_DAMAGE_OWNERS 64

/* The owners that have been reported; zeroed at first. */
typedef struct gp_damage_reports {
  _Atomic uint64_t owners[GP_DAMAGE_OWNERS]; /* 0: unused */
} gp_damage_reports_t;

/* Logs the damage, with the name of the owner from logs, unless this owner's damage has been logged. Returns
 * true if it did. Any thread, with no lock held. */
bool gp_damage_log(gp_damage_reports_t *reports, const gp_damage_t *damage, const gp_stack_logs_t *logs);

#endif
