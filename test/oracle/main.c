/*
 * Random programs, many in one process: which of them the library below handles wrongly.
 *
 *   reuse_programs [options] FIRST [COUNT]     programs of the seeds from FIRST on
 *     --freely        threads run at once, not in turns
 *     --devices N     that programs may use (1)
 *     --ctx-events    cuCtxRecordEvent and cuCtxWaitEvent are used (drivers since 12.5)
 *     --programmatic  and launches that overlap the one in front of them
 *     --steps, --c    print the program of seed FIRST, in words or as C, and run nothing
 *     --shrink        make the first wrong one small, and print it as C
 *     --no-pending    memory must not even be handed out while work on it is pending
 *     --keep-going    do not stop at the first wrong one
 *
 * The last line is `programs=N steps=N allocations=N reuses=N pending_reuses=N early_reuses=N wrong=N
 * first_wrong=SEED`, where first_wrong is 0 if there is none. Exit status: 0 all right, 1 something wrong, 2
 * usage, or not the simulated GPU.
 */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool freely, no_pending;

static bool is_wrong(outcome_t *outcome)
{
  if (no_pending && outcome->pending_reuses && !outcome->first[0])
    snprintf(outcome->first, sizeof outcome->first,
        "%llu times memory was handed out while work on it was pending",
        (unsigned long long)outcome->pending_reuses);
  return !outcome_is_good(outcome) || (no_pending && outcome->pending_reuses);
}

/* In a process of its own: what goes wrong must not stay. The driver must not have been touched in this one.
 */
static bool fails_alone(const program_t *program)
{
  fflush(stdout);
  pid_t pid = fork();
  int status = 0;
  if (pid < 0) {
    perror("fork");
    exit(2);
  }
  if (pid == 0) {
    outcome_t outcome;
    if (!freopen("/dev/null", "w", stderr) || !execute_init())
      _exit(2);
    alarm(20);
    execute(program, freely, &outcome);
    _exit(is_wrong(&outcome) ? 1 : 0);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return !WIFEXITED(status) || WEXITSTATUS(status) == 1;
}

static int usage(void)
{
  fprintf(stderr,
      "usage: reuse_programs [--freely] [--devices N] [--ctx-events] [--programmatic] [--steps] [--c] "
      "[--shrink] [--no-pending] [--keep-going] FIRST [COUNT]\n");
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
      {"programmatic", no_argument, NULL, 'p'}, {"steps", no_argument, NULL, 's'},
      {"c", no_argument, NULL, 'c'}, {"shrink", no_argument, NULL, 'm'},
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
  if (!execute_init())
    return 2;

  unsigned long long done = 0, taken = 0, allocations = 0, reuses = 0, pending = 0, early = 0, wrong = 0,
                     first_wrong = 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    outcome_t outcome;
    generate(&program, seed, &options);
    execute(&program, freely, &outcome);
    done++;
    taken += (unsigned)program.count;
    for (int i = 0; i < program.count; i++)
      allocations += program.steps[i].kind == STEP_ALLOC;
    reuses += outcome.reuses;
    pending += outcome.pending_reuses;
    early += outcome.early_reuse;
    if (!is_wrong(&outcome))
      continue;
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, outcome.first);
    if (!wrong++)
      first_wrong = seed;
    if (!keep_going)
      break;
  }
  printf("programs=%llu steps=%llu allocations=%llu reuses=%llu pending_reuses=%llu early_reuses=%llu "
         "wrong=%llu "
         "first_wrong=%llu\n",
      done, taken, allocations, reuses, pending, early, wrong, first_wrong);
  return wrong > 0;
}
