/* Advice after an out-of-memory error: a sentence for people, and a setting for tools. */
#ifndef GP_TRACE_OOM_ADVICE_H
#define GP_TRACE_OOM_ADVICE_H

#include <stddef.h>

#include "pool/observer.h"

#define GP_OOM_ADVICE_BYTES 384
#define GP_OOM_VALUE_BYTES  160

typedef struct gp_oom_advice {
  char text[GP_OOM_ADVICE_BYTES]; /* a sentence without its full stop */
  const char *setting;            /* the environment variable to set; NULL: none */
  char value[GP_OOM_VALUE_BYTES]; /* the value for that variable */
} gp_oom_advice_t;

/* Fills *ret_advice with advice based on the figures in *oom. `limits` is the text of the setting that limits
 * this kind of memory (device or host), or "none" if it is unset. The advised value keeps the limits of other
 * devices. Thread-safe. */
void gp_oom_advise(const gp_oom_t *oom, const char *limits, gp_oom_advice_t *ret_advice);

#endif
