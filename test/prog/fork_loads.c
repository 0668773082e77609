/*
 * Children of fork that load a library, beside threads that allocate. The C library resets the loader's locks
 * in a child, but not the one that dl_iterate_phdr holds: a child that is born during another thread's walk
 * waits for ever as soon as it loads something.
 *
 * fork_loads children N|walks N
 *   children: N children, each of which loads a library.
 *   walks:    the same, each born while a walk that a thread made is held open: the program has a
 *             dl_iterate_phdr of its own, as checkers of memory do, and it lingers. Where no thread walks
 *             for long, the child is born all the same.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS       6
#define CHILD_SECONDS 20 /* no child that is not stuck takes as long */
#define LINGER_NS     5000000
#define PATIENCE      10000 /* naps */
#define LIBRARY       "libresolv.so.2"

static atomic_bool over;
static _Atomic unsigned long long pairs; /* allocated and freed */
static atomic_bool linger_wanted;        /* the next walk is held open */
static atomic_bool is_lingering;
static int lingered; /* children that were born in a walk, or just after it */

typedef int (*visit_fn)(struct dl_phdr_info *, size_t, void *);

typedef struct visit {
  visit_fn visit;
  void *arg;
  bool is_new;
} visit_t;

static void nap(long ns)
{
  struct timespec time = {0, ns};
  (void)nanosleep(&time, NULL);
}

static int visit_slowly(struct dl_phdr_info *info, size_t size, void *arg)
{
  visit_t *visit = arg;
  bool wanted = true;

  if (visit->is_new && atomic_compare_exchange_strong(&linger_wanted, &wanted, false)) {
    atomic_store(&is_lingering, true);
    nap(LINGER_NS);
  }
  visit->is_new = false;
  return visit->visit(info, size, visit->arg);
}

int dl_iterate_phdr(visit_fn visit, void *arg)
{
  static _Atomic(void *) real;
  static _Thread_local bool is_searching; /* the search for it may walk */
  visit_t slow = {visit, arg, true};
  int (*walk)(visit_fn, void *);

  if (!atomic_load(&real)) {
    if (is_searching)
      return 0;
    is_searching = true;
    atomic_store(&real, dlsym(RTLD_NEXT, "dl_iterate_phdr"));
    is_searching = false;
  }
  void *found = atomic_load(&real);
  memcpy(&walk, &found, sizeof(walk));
  return walk(visit_slowly, &slow);
}

static void *allocate(void *arg)
{
  static const size_t sizes[] = {4096, 3 << 20, 300000, 2 << 20, 1536 << 10};
  size_t at = (size_t)(uintptr_t)arg;
  void *block;

  while (!atomic_load(&over)) {
    if (cudaMalloc(&block, sizes[at++ % (sizeof(sizes) / sizeof(sizes[0]))]) != cudaSuccess ||
        cudaFree(block) != cudaSuccess) {
      fprintf(stderr, "fork_loads: an allocation or a free failed\n");
      _exit(1);
    }
    atomic_fetch_add(&pairs, 1);
  }
  return NULL;
}

static void await_walk(void)
{
  atomic_store(&is_lingering, false);
  atomic_store(&linger_wanted, true);
  for (int naps = 0; naps < PATIENCE && !atomic_load(&is_lingering); naps++)
    nap(100000);
  lingered += atomic_load(&is_lingering);
}

/* Returns whether the child was stuck. */
static bool bear_child(void)
{
  int status = 0;
  pid_t pid = fork();

  if (pid == 0) {
    (void)alarm(CHILD_SECONDS);
    _exit(dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL) ? 0 : 1);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
    fprintf(stderr, "fork_loads: there is no child, or it could not load " LIBRARY "\n");
    _exit(1);
  }
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

static int bear_children(int count, bool in_walks)
{
  int stuck = 0;

  for (int i = 0; i < count && stuck == 0; i++) {
    if (in_walks)
      await_walk();
    stuck += bear_child();
  }
  printf("stuck: %d\n", stuck);
  fprintf(stderr, "in walks: %d\n", lingered);
  return stuck != 0;
}

int main(int argc, char **argv)
{
  pthread_t threads[THREADS];

  if (argc != 3 || (strcmp(argv[1], "children") != 0 && strcmp(argv[1], "walks") != 0)) {
    fprintf(stderr, "usage: fork_loads children N|walks N\n");
    return 2;
  }
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, allocate, (void *)(uintptr_t)i) != 0)
      return 1;
  while (atomic_load(&pairs) < 100)
    (void)sched_yield();
  int stuck = bear_children(atoi(argv[2]), argv[1][0] == 'w');
  atomic_store(&over, true);
  for (size_t i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  return stuck;
}
