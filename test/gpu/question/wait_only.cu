// G23: a stream that holds nothing but a wait for an event of another context. Do a query, a synchronization and
// an event of its context cover it: the facts by which freed memory is used again do.
#include "../common/streams.h"

int main()
{
  start("wait_only", 30);
  StreamKind other = foreign_stream();
  if (!other.missing.empty() || !other.context) {
    report_text("there is no other context", other.missing);
    return report_finish();
  }
  CUcontext own = current_context();
  CUstream waiting;
  CUevent reached, covers;
  const char *matters = "then facts must not be drawn from it";
  Gate gate;
  CHECK_CU(DRIVER(cuStreamCreate)(&waiting, CU_STREAM_NON_BLOCKING));
  CHECK_CU(DRIVER(cuCtxSetCurrent)(other.context));
  CHECK_CU(DRIVER(cuEventCreate)(&reached, CU_EVENT_DISABLE_TIMING));
  CHECK_CU(DRIVER(cuCtxSetCurrent)(own));

  auto hold = [&] {
    CHECK(cudaDeviceSynchronize());
    gate.close();
    CHECK(launch_in(gate, other));
    CHECK_CU(DRIVER(cuCtxSetCurrent)(other.context));
    CHECK_CU(DRIVER(cuEventRecord)(reached, other.stream));
    CHECK_CU(DRIVER(cuCtxSetCurrent)(own));
    CHECK_CU(DRIVER(cuStreamWaitEvent)(waiting, reached, 0));
  };
  hold();
  report_assumed("a query says that such a stream is busy", DRIVER(cuStreamQuery)(waiting) == CUDA_ERROR_NOT_READY, true,
      matters);
#if CUDA_VERSION >= 12050
  if (auto record = DRIVER_MAYBE(cuCtxRecordEvent)) {
    CHECK_CU(DRIVER(cuEventCreate)(&covers, CU_EVENT_DISABLE_TIMING));
    CHECK_CU(record(own, covers));
    report_assumed("an event of the context is behind it", DRIVER(cuEventQuery)(covers) == CUDA_ERROR_NOT_READY, true,
        matters);
  }
#endif
  gate.open();
  hold();
  report_assumed("a synchronization of the stream waits for it",
      call_against(gate, [&] { CHECK_CU(DRIVER(cuStreamSynchronize)(waiting)); }).waited, true, matters);
  hold();
  report_assumed("a synchronization of the context waits for it",
      call_against(gate, [&] {
        CHECK_CU(DRIVER(cuCtxSetCurrent)(own));
        CHECK_CU(DRIVER(cuCtxSynchronize)());
      }).waited,
      true, matters);
  return report_finish();
}
