/*
 * Random programs, many in one process: which of them the library below handles wrongly.
 *
 *   reuse_programs [options] FIRST [COUNT]     programs of the seeds from FIRST on
 *     --freely        threads run at once, not in turns
 *     --devices N     that programs may use (1)
 *     --ctx-events    cuCtxRecordEvent and cuCtxWaitEvent are used (drivers since 12.5)
 *     --programmatic  and launches that overlap the one in front of them
 *     --waits         kernels that wait for the host, or for each other
 *     --late          with --waits: much memory that is used until the stream of its free reaches that
 *     --ordered       memory of cudaMallocAsync, too
 *     --leaving       which ends with the context of its stream, as with GPUPOOL_ASYNC=plain
 *     --pool-orders   whose two calls put streams behind others as all operations do (SIMCUDA_POOL_ORDERS=1)
 *     --apart         each program in a process of its own: a launch that overlaps ends some reuse for good
 *     --free-is-async cuMemFree does not wait for work on other memory (SIMCUDA_FREE_WAITS=0)
 *     --tight BYTES   a program has at most so much memory on each device. One that is refused is counted
 *     --limit BYTES   of the library, GPUPOOL_LIMIT
 *     --limit-s N     a program that runs longer ends the process, with status 3
 *     --stall-s N     one that takes longer by the monotonic clock, which may be a virtual one, is counted
 *     --steps, --c    print the program of seed FIRST, in words or as C, and run nothing
 *     --shrink        make the first wrong one small, and print it as C
 *     --no-pending    memory must not even be handed out while work on it is pending
 *     --keep-going    do not stop at the first wrong one
 *
 * The last line is `programs=N steps=N allocations=N reuses=N pending_reuses=N early_reuses=N wrong=N
 * first_wrong=SEED refused=N refused_beside=N refused_captured=N refused_fitting=N longest_ms=N stalled=N
 * first_stalled=SEED hung=SEED`, where
 * first_wrong and hung are 0 if there is none; refused_beside: of the allocations that were refused, those
 * while a kernel waits; refused_captured: of the others, those during a capture; refused_fitting: of
 * the rest, those for which the device has room, where no other thread ran meanwhile; longest_ms: of the
 * program that took longest. Exit status: 0 all right, 1 something wrong, 2 usage, or not the simulated GPU,
 * 3 a program did not end.
 */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool freely, no_pending, apart;
static int limit_s, stall_s;

static struct {
  unsigned long long done, taken, allocations, reuses, pending, early, wrong, first_wrong, refused,
      refused_beside, refused_captured, refused_fitting, longest_ms, stalled, first_stalled, current;
} totals;

static void print_totals(unsigned long long hung)
{
  char line[512];
  int n = snprintf(line, sizeof line,
      "programs=%llu steps=%llu allocations=%llu reuses=%llu pending_reuses=%llu early_reuses=%llu wrong=%llu first_wrong=%llu refused=%llu refused_beside=%llu refused_captured=%llu refused_fitting=%llu longest_ms=%llu stalled=%llu first_stalled=%llu hung=%llu\n",
      totals.done, totals.taken, totals.allocations, totals.reuses, totals.pending, totals.early,
      totals.wrong, totals.first_wrong, totals.refused, totals.refused_beside, totals.refused_captured,
      totals.refused_fitting, totals.longest_ms, totals.stalled, totals.first_stalled, hung);
  if (write(STDOUT_FILENO, line, (size_t)n) != n)
    _exit(2);
}

static unsigned long long now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

/* Some thread waits for ever. The process ends here, so that nothing is left for this to disturb. */
static void give_up(int number)
{
  (void)number;
  print_totals(totals.current);
  _exit(3);
}

static bool is_wrong(outcome_t *outcome)
{
  if (no_pending && outcome->pending_reuses && !outcome->first[0])
    snprintf(outcome->first, sizeof outcome->first,
        "%llu times memory was handed out while work on it was pending",
        (unsigned long long)outcome->pending_reuses);
  return !outcome_is_good(outcome) || (no_pending && outcome->pending_reuses);
}

/* In a process of its own: what goes wrong must not stay. The driver must not have been touched in this one.
 * Returns the status of that process; its outcome is all zero if that did not end by itself. */
static int execute_alone(const program_t *program, bool quietly, int seconds, outcome_t *ret_outcome)
{
  static outcome_t *shared;
  int status = 0;

  if (!shared)
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fflush(stdout);
  pid_t pid = shared == MAP_FAILED ? -1 : fork();
  if (pid < 0) {
    perror("a process for one program");
    exit(2);
  }
  if (pid == 0) {
    outcome_t outcome;
    if ((quietly && !freopen("/dev/null", "w", stderr)) || !execute_init())
      _exit(2);
    alarm((unsigned)seconds);
    execute(program, freely, &outcome);
    *shared = outcome;
    _exit(0);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  *ret_outcome = *shared;
  memset(shared, 0, sizeof *shared);
  return status;
}

static bool fails_alone(const program_t *program)
{
  outcome_t outcome;
  int status = execute_alone(program, true, limit_s ? limit_s : 20, &outcome);
  return !WIFEXITED(status) || (WEXITSTATUS(status) == 0 && is_wrong(&outcome));
}

static void execute_apart(const program_t *program, outcome_t *ret_outcome)
{
  int status = execute_alone(program, false, limit_s, ret_outcome);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    give_up(SIGALRM);
  if (status == 0)
    return;
  ret_outcome->failed_calls++;
  snprintf(ret_outcome->first, sizeof ret_outcome->first, "its process ends with status %d", status);
}

static int usage(void)
{
  fprintf(stderr,
      "usage: reuse_programs [--freely] [--devices N] [--ctx-events] [--programmatic] [--waits] [--late] [--ordered] [--leaving] [--pool-orders] [--apart] [--free-is-async] [--tight BYTES] [--limit BYTES] [--limit-s N] [--stall-s N] [--steps] [--c] [--shrink] [--no-pending] [--keep-going] FIRST [COUNT]\n");
  return 2;
}

static int print_small(uint64_t seed, const options_t *options)
{
  static program_t program;
  generate(&program, seed, options);
  if (!fails_alone(&program)) {
    printf("seed %llu is not wrong by itself\n", (unsigned long long)seed);
    return 1;
  }
  shrink(&program, fails_alone);
  print_steps(stderr, &program);
  print_c(stdout, &program);
  return 1;
}

int main(int argc, char **argv)
{
  static const struct option names[] = {{"freely", no_argument, NULL, 'f'},
      {"devices", required_argument, NULL, 'd'}, {"ctx-events", no_argument, NULL, 'e'},
      {"programmatic", no_argument, NULL, 'p'}, {"waits", no_argument, NULL, 'w'},
      {"free-is-async", no_argument, NULL, 'a'}, {"tight", required_argument, NULL, 't'},
      {"limit", required_argument, NULL, 'M'}, {"limit-s", required_argument, NULL, 'l'},
      {"stall-s", required_argument, NULL, 'S'}, {"steps", no_argument, NULL, 's'},
      {"c", no_argument, NULL, 'c'}, {"shrink", no_argument, NULL, 'm'}, {"ordered", no_argument, NULL, 'o'},
      {"late", no_argument, NULL, 'x'}, {"leaving", no_argument, NULL, 'L'},
      {"pool-orders", no_argument, NULL, 'O'}, {"apart", no_argument, NULL, 'A'},
      {"keep-going", no_argument, NULL, 'k'}, {"no-pending", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
  options_t options = {.devices = 1};
  void (*print)(FILE *, const program_t *) = NULL;
  bool small = false, keep_going = false;
  static program_t program;
  int option;

  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
    switch (option) {
    case 'f': freely = true; break;
    case 'd': options.devices = atoi(optarg); break;
    case 'e': options.ctx_events = true; break;
    case 'p': options.programmatic = true; break;
    case 'w': options.waits = true; break;
    case 'o': options.ordered = true; break;
    case 'x': options.late = true; break;
    case 'L': options.leaving = true; break;
    case 'O': options.pool_orders = true; break;
    case 'A': apart = true; break;
    case 'a': options.free_is_async = true; break;
    case 't': options.tight = strtoull(optarg, NULL, 0); break;
    case 'M': options.limit = strtoull(optarg, NULL, 0); break;
    case 'S': stall_s = atoi(optarg); break;
    case 'l': limit_s = atoi(optarg); break;
    case 's': print = print_steps; break;
    case 'c': print = print_c; break;
    case 'm': small = true; break;
    case 'k': keep_going = true; break;
    case 'n': no_pending = true; break;
    default: return usage();
    }
  }
  if (optind >= argc)
    return usage();
  uint64_t first = strtoull(argv[optind], NULL, 0);
  uint64_t count = optind + 1 < argc ? strtoull(argv[optind + 1], NULL, 0) : 1;
  if (print) {
    generate(&program, first, &options);
    print(stdout, &program);
    return 0;
  }
  if (small && count == 1)
    return print_small(first, &options);
  if (!apart && !execute_init())
    return 2;

  if (limit_s)
    signal(SIGALRM, give_up);
  for (uint64_t seed = first; seed < first + count; seed++) {
    outcome_t outcome;
    generate(&program, seed, &options);
    totals.current = seed;
    unsigned long long began = now_ms();
    if (apart) {
      execute_apart(&program, &outcome);
    } else {
      alarm((unsigned)limit_s);
      execute(&program, freely, &outcome);
      alarm(0);
    }
    unsigned long long ms = now_ms() - began;
    if (ms > totals.longest_ms)
      totals.longest_ms = ms;
    if (stall_s && ms > 1000ull * (unsigned)stall_s && !totals.stalled++)
      totals.first_stalled = seed;
    totals.done++;
    totals.taken += (unsigned)program.count;
    for (int i = 0; i < program.count; i++)
      totals.allocations += program.steps[i].kind == STEP_ALLOC || program.steps[i].kind == STEP_ALLOC_ASYNC;
    totals.reuses += outcome.reuses;
    totals.pending += outcome.pending_reuses;
    totals.early += outcome.early_reuse;
    totals.refused += outcome.refused;
    totals.refused_beside += outcome.refused_beside;
    totals.refused_captured += outcome.refused_captured;
    totals.refused_fitting += outcome.refused_fitting;
    if (outcome.refused)
      fprintf(stderr, "seed %llu: %llu refused, for %llu of them there is room\n", (unsigned long long)seed,
          (unsigned long long)outcome.refused, (unsigned long long)outcome.refused_fitting);
    if (!is_wrong(&outcome))
      continue;
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, outcome.first);
    if (!totals.wrong++)
      totals.first_wrong = seed;
    if (!keep_going)
      break;
  }
  print_totals(0);
  return totals.wrong > 0;
}
