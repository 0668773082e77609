/* After a thread has called a function that is missing from the tables (unknown.h), the thread's next entry
 * into the library checks which context is current, or whether a stream is capturing. */
#ifndef GP_INTERPOSE_ROUTES_AFTER_UNKNOWN_H
#define GP_INTERPOSE_ROUTES_AFTER_UNKNOWN_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* Note that the calling thread is about to call an unknown function that may change the current context, or
 * begin or end a capture of `stream`. A NULL stream is the per-thread default stream. */
void gp_after_unknown_context(void);
void gp_after_unknown_capture(CUstream stream);

/* True while this thread has something to check: gp_library_engine then calls gp_after_unknown_look. */
extern _Thread_local bool gp_after_unknown_is_due __attribute__((tls_model("initial-exec")));
void gp_after_unknown_look(gp_engine_t *engine);

#endif
