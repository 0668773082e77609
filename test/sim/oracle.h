/*
 * What a program may tell the simulated driver, and ask it: who owns which memory, for the ordering oracle
 * (SIMCUDA_ORACLE=1), and where it is. The functions are exports of the simulated libcuda.so.1, found with
 * dlsym; no other driver has them. They make no driver call, need no initialisation, run no queued work, and
 * may be called by any thread, also in host functions. With the oracle off the first six do nothing,
 * but that late uses need no oracle.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include <stdint.h>

#define SIM_NO_OWNER UINT64_MAX

typedef struct simcuda_oracle {
  uint64_t owned;          /* allocations announced */
  uint64_t reuses;         /* of them, in memory that had an earlier owner since the driver gave it */
  uint64_t pending_reuses; /* of those, while accesses of an earlier owner were not known to be complete */
  uint64_t accesses;       /* by queued work and by the host, to owned memory */
  uint64_t early_reuse;    /* accesses that were not ordered after those of an earlier owner */
  uint64_t strays;         /* accesses to memory without an owner, and memory with two owners */
  /* Of memory of cuMemAllocAsync; a cuMemFree of it counts as an access. Each is a violation, too. */
  uint64_t early_accesses; /* not ordered after the allocation by the driver */
  uint64_t late_accesses;  /* not ordered before its free by the driver; also other memory's cuMemFreeAsync */
  uint64_t violations, corrupt_stamps; /* as in SIMCUDA_STATS, with the oracle on or off */
} simcuda_oracle_t;

/* bytes from address on belong to owner (a number that the reports give): right after they were allocated. */
typedef void simcuda_own_fn(uint64_t address, uint64_t bytes, uint64_t owner);
/* They have no owner any more: right before they are freed. An address without an owner: nothing happens. */
typedef void simcuda_disown_fn(uint64_t address);
/*
 * The calling thread's accesses are those of an owner that has freed its memory by cuMemFreeAsync, in a
 * stream that has not reached the free; SIM_NO_OWNER: of present owners again.
 */
typedef void simcuda_late_fn(uint64_t owner);
/* The host is about to write a flag for which kernels wait (simcuda_wait): what follows them comes behind all
 * that the host knows now. */
typedef void simcuda_writes_fn(const volatile void *flag);
/* The host reads or writes them now; in a host function: in the order of the stream that runs it. */
typedef void simcuda_touch_fn(uint64_t address, uint64_t bytes);
/* A number for what the calling thread does from here on, for the reports. */
typedef void simcuda_step_fn(uint64_t step);
/* Begins the random sequence of the scheduler again. */
typedef void simcuda_seed_fn(uint64_t seed);
/* Bytes that a device has given to the process; 0: there is no such device. */
typedef uint64_t simcuda_used_fn(int device);
/*
 * Whether a device could serve a cuMemAlloc of so many bytes if the process gave back every allocation that
 * has no owner, and then held no more than `most` bytes of the device. False while work is pending on any
 * device.
 */
typedef int simcuda_fits_fn(int device, uint64_t bytes, uint64_t most);
/* The counts so far. */
typedef void simcuda_counts_fn(simcuda_oracle_t *ret_counts);
/*
 * fn (NULL: none) is called by each thread when it enters a driver function of the table (entering: 1) and
 * when it leaves one (0), with no lock held: a place at which another thread may get its turn.
 */
typedef void simcuda_on_call_fn(void (*fn)(int entering));

/*
 * A stream of the current context, made by a way that no library between the program and the driver sees, as
 * by the driver's export tables. The result is a CUresult. A driver call, unlike the others.
 */
typedef int simcuda_unseen_stream_fn(void **ret_stream);

/*
 * An event of the current context as one that another process has recorded: behind work that waits for the
 * flag, which lies in page-locked memory, to be 1 or more.
 */
typedef int simcuda_unseen_event_fn(void **ret_event, const volatile void *flag);

/* A context becomes current by such a way. */
typedef int simcuda_unseen_current_fn(void *context);

simcuda_unseen_stream_fn simcuda_unseen_stream;
simcuda_unseen_event_fn simcuda_unseen_event;
simcuda_unseen_current_fn simcuda_unseen_current;
simcuda_own_fn simcuda_own;
simcuda_disown_fn simcuda_disown;
simcuda_late_fn simcuda_late;
simcuda_writes_fn simcuda_writes;
simcuda_touch_fn simcuda_touch;
simcuda_step_fn simcuda_step;
simcuda_seed_fn simcuda_seed;
simcuda_used_fn simcuda_used;
simcuda_fits_fn simcuda_fits;
simcuda_counts_fn simcuda_counts;
simcuda_on_call_fn simcuda_on_call;

#endif
