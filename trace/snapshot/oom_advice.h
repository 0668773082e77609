/* Advice after an out of memory: a sentence for people, and a setting for programs. */
#ifndef GP_TRACE_OOM_ADVICE_H
#define GP_TRACE_OOM_ADVICE_H

#include <stddef.h>

#include "pool/observer.h"

#define GP_OOM_ADVICE_BYTES 384
#define GP_OOM_VALUE_BYTES  160

typedef struct gp_oom_advice {
  char text[GP_OOM_ADVICE_BYTES]; /* a sentence without its full stop */
  const char *setting;            /* the environment variable to set; NULL: none */
  char value[GP_OOM_VALUE_BYTES]; /* its value */
} gp_oom_advice_t;

/* Fills *ret_advice with advice from the figures. limits is the setting of the limit that refused, or would
 * have, "none" if it is unset: the advice keeps the limits of the other devices. Thread safe. */
void gp_oom_advise(const gp_oom_t *oom, const char *limits, gp_oom_advice_t *ret_advice);

#endif
