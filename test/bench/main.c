/*
 * bench_SUBJECT [--pairs N] [--rounds N] WORKLOAD[:NUMBER]...
 * bench_SUBJECT --count N
 *
 * Prints a line for each figure of each workload (workloads.h): its name, the figure, and the C library's
 * pair, measured beside it, in ns. --count does N pairs and prints nothing: for counting instructions.
 *
 * A second thread exists while times are taken: glibc leaves the atomics of an uncontended mutex out as long
 * as a process has one thread, which would flatter every lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "subject.h"
#include "workloads.h"

static atomic_bool is_over;

static void *idle(void *arg)
{
  while (!is_over)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  return arg;
}

static int usage(void)
{
  fprintf(stderr, "usage: bench [--pairs N] [--rounds N] WORKLOAD[:NUMBER]... | --count N\n");
  return 2;
}

static int run_all(int count, char **workloads, const workload_effort_t *effort)
{
  for (int i = 0; i < count; i++) {
    workload_figure_t figures[WORKLOAD_MAX_FIGURES];
    char name[32];
    long number = 0;
    if (sscanf(workloads[i], "%31[^:]:%ld", name, &number) < 1)
      return usage();
    double host = workload_host_pair(effort);
    int figure_count = workload_run(name, number, effort, figures);
    if (figure_count == 0)
      return usage();
    for (int j = 0; j < figure_count; j++)
      printf("%s%s%s %.2f %.2f\n", workloads[i], figures[j].name[0] ? "/" : "", figures[j].name,
          figures[j].value, host);
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv)
{
  workload_effort_t effort = {.pairs = 6400, .rounds = 60};
  pthread_t idler;
  int first = 1;

  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    long number = atol(argv[first + 1]);
    if (strcmp(argv[first], "--count") == 0) {
      subject_start(true);
      workload_pairs(number);
      return 0;
    }
    if (strcmp(argv[first], "--pairs") == 0)
      effort.pairs = number;
    else if (strcmp(argv[first], "--rounds") == 0)
      effort.rounds = (int)number;
    else
      return usage();
  }
  if (effort.pairs <= 0 || effort.rounds <= 0 || first == argc)
    return usage();
  if (pthread_create(&idler, NULL, idle, NULL) != 0)
    return 1;
  subject_start(false);
  int status = run_all(argc - first, argv + first, &effort);
  is_over = true;
  pthread_join(idler, NULL);
  return status;
}
