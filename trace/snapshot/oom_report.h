/* Reports an out of memory to the user in one line: what happened, and what to change. */
#ifndef GP_TRACE_OOM_REPORT_H
#define GP_TRACE_OOM_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"
#include "pool/observer.h"

#define GP_OOM_TEXT_BYTES 1024

/*
 * Writes a sentence without its full stop: the request and the code that made it (`asker` from asker.h, or
 * NULL if unknown), how memory is used, the largest groups of blocks, and the work that the device is busy
 * with. Advice is in oom_advice.h. Returns buffer, always terminated; a text that does not fit is truncated.
 * Thread safe.
 */
char *gp_oom_describe(const gp_oom_t *oom, const char *asker, char *buffer, size_t capacity);

/* Logs the sentence of gp_oom_describe and the advice. times is the number of out-of-memory errors that were
 * not logged, of which this is the last, or 0. limits is as for gp_oom_advise, logs and stack as for
 * gp_asker_describe. Thread safe; the caller holds no lock. */
void gp_oom_log(
    const gp_oom_t *oom, uint64_t times, const char *limits, const gp_stack_logs_t *logs, uint32_t stack);

#endif
