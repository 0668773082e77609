/* The workloads, over a subject. Times are nanoseconds a pair of take and give, the best of the rounds. */
#ifndef GP_BENCH_WORKLOADS_H
#define GP_BENCH_WORKLOADS_H

typedef struct workload_figure {
  const char *name; /* of a part of the workload; "": of all of it */
  double value;     /* ns, or bytes where the workload says so */
} workload_figure_t;

#define WORKLOAD_MAX_FIGURES 4

/* How much work: pairs in a round, and rounds. */
typedef struct workload_effort {
  long pairs;
  int rounds;
} workload_effort_t;

/*
 * One workload, by name and number. Returns how many figures it has written, 0 if there is no such workload.
 *
 *   pair        64 blocks of 1 KiB out, 64 back, one synchronization
 *   replace:N   one of N blocks of mixed sizes, drawn at random, is replaced
 *   holes:N     pair, beside N idle blocks of other sizes, none next to another idle one
 *   handoff     one thread takes, another gives back
 *   threads:N   pair in N threads at once; ns of all threads' pairs together
 *   deferred:N  `sync`: ns of a synchronization with N freed blocks, `miss`: of the first miss after it;
 * `sync-bare` and `miss-bare`: the same without them blocks:N    bytes of the host for each of N blocks in
 * use workers:N   bytes of the host for each of N threads that have taken and given a block, beyond a
 * thread's own events      bytes of the host for each pair, from what is recorded of it
 */
int workload_run(
    const char *name, long number, const workload_effort_t *effort, workload_figure_t *ret_figures);

/* The C library's own pair of the same size beside it. */
double workload_host_pair(const workload_effort_t *effort);

/* The pairs of the workload `pair` alone, for counting. */
void workload_pairs(long count);

#endif
