/*
 * Checkpoints of the process by itself: locked, its state taken, given back, unlocked. While the process is
 * locked every other call of the driver would wait for the unlocking; here it is a violation, so that a test
 * need not wait.
 */
#include "sim.h"

#include <unistd.h>

#if CUDA_VERSION < 12080
typedef int CUprocessState;
typedef void CUcheckpointLockArgs, CUcheckpointCheckpointArgs, CUcheckpointRestoreArgs,
    CUcheckpointUnlockArgs;
#define CU_PROCESS_STATE_RUNNING      0
#define CU_PROCESS_STATE_LOCKED       1
#define CU_PROCESS_STATE_CHECKPOINTED 2
#endif

static CUprocessState state = CU_PROCESS_STATE_RUNNING;

bool sim_is_locked(void)
{
  return state != CU_PROCESS_STATE_RUNNING;
}

static CUresult move(int pid, CUprocessState from, CUprocessState to)
{
  if (pid != (int)getpid())
    return CUDA_ERROR_NOT_SUPPORTED;
  if (state != from)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (to == CU_PROCESS_STATE_LOCKED && from == CU_PROCESS_STATE_RUNNING)
    sim_sched_wait_ctx(NULL); /* "any already submitted CUDA work will be completed" (cuda.h) */
  state = to;
  return CUDA_SUCCESS;
}

static CUresult tell(int pid, CUprocessState *ret)
{
  if (pid != (int)getpid())
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!ret)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = state;
  return CUDA_SUCCESS;
}

SIM_FN(cuCheckpointProcessLock, (int pid, CUcheckpointLockArgs *args),
    move(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED), " ")
SIM_FN(cuCheckpointProcessCheckpoint, (int pid, CUcheckpointCheckpointArgs *args),
    move(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED), " ")
SIM_FN(cuCheckpointProcessRestore, (int pid, CUcheckpointRestoreArgs *args),
    move(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED), " ")
SIM_FN(cuCheckpointProcessUnlock, (int pid, CUcheckpointUnlockArgs *args),
    move(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING), " ")
SIM_FN(cuCheckpointProcessGetState, (int pid, CUprocessState *ret), tell(pid, ret), " ")
