#include "interpose/routes/after_unknown.h"

#include "interpose/hooks/capture_records.h"
#include "interpose/hooks/current_context.h"
#include "interpose/routes/real.h"
#include "base/assert.h"
#include "base/cancel.h"

_Thread_local bool gp_after_unknown_is_due __attribute__((tls_model("initial-exec")));

static _Thread_local struct {
  bool context;
  bool capture;
  CUstream stream; /* a NULL stream is the per-thread default stream, as in capture_records.h */
} due __attribute__((tls_model("initial-exec")));

void gp_after_unknown_context(void)
{
  due.context = true;
  gp_after_unknown_is_due = true;
}

void gp_after_unknown_capture(CUstream stream)
{
  due.capture = true;
  due.stream = stream;
  gp_after_unknown_is_due = true;
}

/* Ends the capture's record if the driver reports that the capture has ended. Another thread may have
 * destroyed the stream, and the capture with it: the driver must not be queried about such a handle. */
static void look_at_capture(gp_engine_t *engine)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

  if (!gp_capture_is_followed(engine, due.stream)) {
    due.capture = false;
    return;
  }
  CUresult result = GP_REAL_CALL(cuStreamIsCapturing_ptsz, due.stream, &status);
  if (result == CUDA_ERROR_NOT_PERMITTED) { /* in a host function, where the driver permits no query */
    gp_after_unknown_is_due = true;
    return;
  }
  due.capture = false;
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE)
    gp_capture_finish(engine, gp_capture_take(engine, due.stream));
}

void gp_after_unknown_look(gp_engine_t *engine)
{
  int cancel_state = gp_cancel_hold();
  gp_assert(due.context || due.capture);
  gp_after_unknown_is_due = false;
  if (due.context)
    (void)gp_current_context(engine);
  due.context = false;
  if (due.capture)
    look_at_capture(engine);
  gp_cancel_restore(cancel_state);
}
