/*
 * Readers of logs of allocations; each is a gp_import_read_fn.
 */
#ifndef GP_TOOLS_READ_LOGS_LOGS_H
#define GP_TOOLS_READ_LOGS_LOGS_H

#include "tools/read/pytorch/import.h"

/* A trace of PyTorch's profiler. */
bool gp_kineto_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* What export_memory_timeline() of PyTorch's profiler writes as *.raw.json.gz. */
bool gp_memory_timeline_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* The log of RMM's logging_resource_adaptor, which begins with GP_RMM_HEADING. */
bool gp_rmm_log_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

#endif
