/*
 * Out of memory, in one line for the user.
 */
#ifndef GP_TRACE_OOM_REPORT_H
#define GP_TRACE_OOM_REPORT_H

#include <stddef.h>

#include "pool/observer.h"

#define GP_OOM_TEXT_BYTES 768

/*
 * Writes one sentence or two: what was asked for, how much memory the largest owners have, and the setting
 * that would help. Returns buffer, always terminated; a text that does not fit is cut. Thread safe.
 */
char *gp_oom_describe(const gp_oom_t *oom, char *buffer, size_t capacity);

#endif
