/* Reports an out-of-memory error to the user in one line: what happened, and what to change. */
#ifndef GP_TRACE_OOM_REPORT_H
#define GP_TRACE_OOM_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"
#include "pool/observer.h"

#define GP_OOM_TEXT_BYTES 1024

/*
 * Writes a sentence about the error, without a full stop, and returns `buffer`. The sentence contains the
 * request and the code that made it (`asker` from asker.h, or NULL if unknown), the use of the memory, the
 * largest groups of blocks, and the pending work of the device. A text that does not fit is truncated; the
 * buffer always ends with a NUL. oom_advice.h gives the advice. Thread-safe.
 */
char *gp_oom_describe(const gp_oom_t *oom, const char *asker, char *buffer, size_t capacity);

/* Logs the sentence of gp_oom_describe and the advice. `times` is the number of out-of-memory errors that
 * were not logged, of which this is the last; 0: this error is logged at once. `limits` is as for
 * gp_oom_advise; `logs` and `stack` are as for gp_asker_describe. Thread-safe; the caller holds no lock. */
void gp_oom_log(
    const gp_oom_t *oom, uint64_t times, const char *limits, const gp_stack_logs_t *logs, uint32_t stack);

#endif
