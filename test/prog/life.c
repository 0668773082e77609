/*
 * Shows how processes and threads that use CUDA come and go: children of every kind, threads of every size,
 * and the ends of a process that exits.c does not show. Prints codes and no address; nothing of it depends on
 * time.
 *
 * life CASE [full]; a case is a function below.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES   (2u << 20) /* whole pages: what the device gives is what was asked for */
#define CROWD   1000
#define PARADE  100
#define ENDLESS ((size_t)1 << 50)

extern char **environ;
static const char *program;
static bool is_stderr_full;
static void *kept; /* never freed: a snapshot at the end must show it */

static void say(const char *what, cudaError_t error)
{
  printf("%s: %s\n", what, cudaGetErrorName(error));
  (void)cudaGetLastError(); /* said already */
}

/* Something for a pool, if there is one, to keep, and one block that lives on. */
static void use(void)
{
  void *cached = NULL;
  say("cudaMalloc", cudaMalloc(&kept, BYTES));
  say("cudaMalloc", cudaMalloc(&cached, 2 * BYTES));
  say("cudaFree", cudaFree(cached));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

/* What a child does that its parent's pool, if there is one, could get wrong. */
static void try_in_child(void)
{
  void *block = NULL;
  say("child: cudaMalloc", cudaMalloc(&block, 2 * BYTES));
  say("child: cudaFree of what the parent holds", cudaFree(kept));
  fflush(stdout);
}

static void await(pid_t pid)
{
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    printf("no child: %s\n", strerror(errno));
  else
    printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* ---- children ---- */

static void plain(void)
{
  use();
}

static void fork_before(void)
{
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    printf("child:\n");
  else
    await(pid);
  use(); /* both; the child ends as main does */
}

static void fork_exit(void)
{
  use();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    try_in_child();
    exit(3);
  }
  await(pid);
  use();
}

static void fork_now(void)
{
  use();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    try_in_child();
    _exit(4);
  }
  await(pid);
  use();
}

static void fork_twice(void)
{
  use();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    pid = fork();
    try_in_child();
    if (pid == 0)
      exit(5);
    await(pid);
    exit(6);
  }
  await(pid);
}

static void fork_exec(void)
{
  use();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    execl(program, program, "plain", (char *)NULL);
    _exit(127);
  }
  await(pid);
  use();
}

static void spawn(void)
{
  char *const arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "plain", NULL};
  pid_t pid = -1;
  use();
  fflush(stdout);
  if (posix_spawn(&pid, program, NULL, NULL, arguments, environ) != 0)
    pid = -1;
  await(pid);
  use();
}

static void vfork_exec(void)
{
  use();
  fflush(stdout);
  pid_t pid = vfork();
  if (pid == 0) {
    execl(program, program, "plain", (char *)NULL);
    _exit(127);
  }
  await(pid);
  use();
}

static void vfork_now(void)
{
  use();
  fflush(stdout);
  pid_t pid = vfork();
  if (pid == 0)
    _exit(7);
  await(pid);
  use();
}

/* No handler of pthread_atfork runs. */
static void clone_exit(void)
{
  use();
  fflush(stdout);
  pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
  if (pid == 0) {
    try_in_child();
    exit(8);
  }
  await(pid);
  use();
}

/* Nor does the child call CUDA. */
static void clone_quiet(void)
{
  use();
  fflush(stdout);
  pid_t pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
  if (pid == 0)
    exit(8);
  await(pid);
  use();
}

static pthread_barrier_t barrier;

static void *allocate_for_ever(void *unused)
{
  int rounds = 0;
  for (;;) {
    void *block;
    if (cudaMalloc(&block, BYTES) == cudaSuccess)
      (void)cudaFree(block);
    if (++rounds == 10)
      (void)pthread_barrier_wait(&barrier);
  }
  return unused;
}

/* The child is born while another thread may be in the middle of an allocation. */
static void fork_beside_threads(void)
{
  pthread_t thread;
  use();
  pthread_barrier_init(&barrier, NULL, 2);
  if (pthread_create(&thread, NULL, allocate_for_ever, NULL) != 0)
    return;
  (void)pthread_barrier_wait(&barrier);
  for (int i = 0; i < 50; i++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      try_in_child();
      exit(9);
    }
    await(pid);
  }
}

static _Atomic pid_t starter;
static atomic_bool start_done;

static void *start_cuda(void *unused)
{
  atomic_store(&starter, (pid_t)syscall(SYS_gettid));
  use();
  atomic_store(&start_done, true);
  return unused;
}

/* True if the thread is inside write(), false if the system does not say. */
static bool is_writing(pid_t thread)
{
  char path[64];
  long number = -1;
  snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)thread);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%ld", &number) != 1)
    number = -1; /* "running" */
  if (file)
    fclose(file);
  return number == SYS_write;
}

static int pipe_ends[2] = {-1, -1};

/* Puts a pipe that is full where stderr was. */
static bool block_stderr(void)
{
  char page[4096] = {0};
  if (pipe(pipe_ends) != 0 || fcntl(pipe_ends[1], F_SETFL, O_NONBLOCK) != 0)
    return false;
  while (write(pipe_ends[1], page, sizeof(page)) > 0) {
  }
  while (write(pipe_ends[1], page, 1) > 0) {
  }
  return fcntl(pipe_ends[1], F_SETFL, 0) == 0 && dup2(pipe_ends[1], STDERR_FILENO) >= 0;
}

static void unblock_stderr(void)
{
  char page[4096];
  if (fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK) != 0)
    return;
  while (read(pipe_ends[0], page, sizeof(page)) > 0) {
  }
}

/*
 * The child is born while another thread makes the process's first CUDA calls. With a second argument stderr
 * is full: it may be that these write to it, and wait; then the child is born just there.
 */
static void fork_during_start(void)
{
  pthread_t thread;
  bool blocks = is_stderr_full && block_stderr();
  if (pthread_create(&thread, NULL, start_cuda, NULL) != 0)
    return;
  while (!atomic_load(&start_done) && !(blocks && is_writing(atomic_load(&starter))))
    sched_yield();
  pid_t pid = fork();
  if (pid == 0) {
    void *block = NULL;
    _exit(cudaMalloc(&block, BYTES) == cudaSuccess ? 13 : 14);
  }
  if (blocks)
    unblock_stderr();
  pthread_join(thread, NULL);
  await(pid);
}

/* ---- threads ---- */

static cudaError_t churn(void)
{
  cudaError_t error = cudaSuccess;
  for (size_t i = 1; i <= 3 && error == cudaSuccess; i++) {
    void *block = NULL;
    error = cudaMalloc(&block, i * BYTES);
    if (error == cudaSuccess)
      error = cudaFree(block);
  }
  return error;
}

static void *start_together(void *failures)
{
  (void)pthread_barrier_wait(&barrier);
  if (churn() != cudaSuccess)
    __atomic_fetch_add((int *)failures, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* All make their first CUDA call, and the process's, at the same time. */
static void crowd(void)
{
  static pthread_t threads[CROWD];
  pthread_attr_t attributes;
  int failures = 0, count = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_barrier_init(&barrier, NULL, CROWD);
  while (count < CROWD && pthread_create(&threads[count], &attributes, start_together, &failures) == 0)
    count++;
  if (count < CROWD) {
    printf("the system has no room for %d threads\n", CROWD);
    _exit(77);
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  printf("%d threads, %d failures\n", count, failures);
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
  use();
}

static pthread_key_t key;

static void free_late(void *block)
{
  if (cudaFree(block) != cudaSuccess)
    printf("a destructor of a thread could not free\n");
}

static void *leave_to_destructor(void *ret_error)
{
  void *block = NULL;
  cudaError_t *error = ret_error;
  *error = churn();
  if (*error == cudaSuccess)
    *error = cudaMalloc(&block, BYTES);
  if (*error == cudaSuccess)
    pthread_setspecific(key, block);
  return NULL;
}

/* One thread after the other; each frees its last block in a destructor of thread-specific data. */
static void parade(void)
{
  if (pthread_key_create(&key, free_late) != 0)
    return;
  for (int i = 0; i < PARADE; i++) {
    pthread_t thread;
    cudaError_t error = cudaSuccess;
    if (pthread_create(&thread, NULL, leave_to_destructor, &error) != 0)
      return;
    pthread_join(thread, NULL);
    if (error != cudaSuccess)
      say("a thread", error);
  }
  use();
}

/* Everything, the first call included, and an allocation that fails. */
static void *in_small_stack(void *unused)
{
  void *block = NULL;
  say("churn", churn());
  say("cudaMallocAsync", cudaMallocAsync(&block, BYTES, 0));
  say("cudaFreeAsync", cudaFreeAsync(block, 0));
  say("cudaMalloc of too much", cudaMalloc(&block, ENDLESS));
  size_t available, total;
  say("cudaMemGetInfo", cudaMemGetInfo(&available, &total));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
  return unused;
}

static void *first_call(void *unused)
{
  say("churn", churn());
  return unused;
}

/* On a stack that is painted before, so that it shows on stderr how much of it was needed. */
static void on_painted_stack(void *(*function)(void *))
{
  enum { SIZE = 64 << 10, PAINT = 0x5a };
  static unsigned char stack[SIZE] __attribute__((aligned(4096)));
  pthread_t thread;
  pthread_attr_t attributes;
  size_t untouched = 0;
  memset(stack, PAINT, SIZE);
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, stack, SIZE) != 0 ||
      pthread_create(&thread, &attributes, function, NULL) != 0) {
    printf("no thread\n");
    return;
  }
  pthread_join(thread, NULL);
  while (untouched < SIZE && stack[untouched] == PAINT)
    untouched++;
  fprintf(stderr, "stack used: %zu bytes\n", SIZE - untouched);
}

static void small_stack(void)
{
  on_painted_stack(in_small_stack);
}

static void small_stack_starts(void)
{
  on_painted_stack(first_call);
}

/* As small as a thread can be. */
static void smallest_stack(void)
{
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) != 0 ||
      pthread_create(&thread, &attributes, in_small_stack, NULL) != 0)
    printf("no thread\n");
  else
    pthread_join(thread, NULL);
}

/* ---- ends ---- */

static void exit_in_handler(int number)
{
  (void)number;
  exit(10);
}

static void signal_default(void)
{
  use();
  fflush(stdout);
  raise(SIGTERM);
}

static void signal_exits(void)
{
  signal(SIGTERM, exit_in_handler);
  use();
  fflush(stdout);
  raise(SIGTERM);
}

/* Whoever handles a signal now has done so before CUDA was used. */
static void signals_untouched(void)
{
  struct sigaction before[NSIG], after;
  sigset_t mask_before, mask_after;
  for (int i = 1; i < NSIG; i++)
    if (sigaction(i, NULL, &before[i]) != 0)
      before[i].sa_handler = SIG_ERR;
  sigprocmask(SIG_BLOCK, NULL, &mask_before);
  use();
  void *block;
  say("cudaMalloc of too much", cudaMalloc(&block, ENDLESS));
  for (int i = 1; i < NSIG; i++)
    if (sigaction(i, NULL, &after) == 0 && after.sa_handler != before[i].sa_handler)
      printf("signal %d has another handler\n", i);
  sigprocmask(SIG_BLOCK, NULL, &mask_after);
  printf("the mask is %s\n",
      memcmp(&mask_before, &mask_after, sizeof(mask_after)) == 0 ? "the same" : "another");
}

static void free_kept(void)
{
  if (cudaFree(kept) != cudaSuccess)
    printf("could not free\n");
  printf("freed\n");
  fflush(stdout);
}

static void quick_exit_frees(void)
{
  at_quick_exit(free_kept);
  use();
  quick_exit(11);
}

static void abort_now(void)
{
  use();
  fflush(stdout);
  abort();
}

static void exit_in_thread_body(void)
{
  use();
  exit(12);
}

static void *exit_from_here(void *unused)
{
  exit_in_thread_body();
  return unused;
}

static void exit_in_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, exit_from_here, NULL) == 0)
    pthread_join(thread, NULL);
}

/* main ends by pthread_exit; the process lives on with the thread, and ends with it. */
static void *last_thread(void *main_thread)
{
  pthread_join(*(pthread_t *)main_thread, NULL);
  use();
  return NULL;
}

static void main_leaves_first(void)
{
  static pthread_t self;
  pthread_t thread;
  self = pthread_self();
  if (pthread_create(&thread, NULL, last_thread, &self) == 0)
    pthread_exit(NULL);
}

static void say_at_exit(void)
{
  printf("at exit\n"); /* which the end of the process writes */
}

/* main is the last thread, and ends by pthread_exit: this is exit(0). */
static void main_leaves_last(void)
{
  use();
  (void)atexit(say_at_exit);
  pthread_exit(NULL);
}

static void end_by_signal(void)
{
  (void)kill(getpid(), SIGTERM);
  printf("still here\n");
}

/* The signal is not blocked in the thread that runs the handlers. */
static void signal_at_exit(void)
{
  (void)atexit(end_by_signal);
  main_leaves_first();
}

static void reset_and_go_on(void)
{
  for (int i = 0; i < 4; i++) {
    use();
    say("cudaDeviceReset", cudaDeviceReset());
    say("cudaFree", cudaFree(kept));
  }
  use();
}

static const prog_case_t cases[] = {
    CASE(plain),
    CASE(fork_before),
    CASE(fork_exit),
    CASE(fork_now),
    CASE(fork_twice),
    CASE(fork_exec),
    CASE(spawn),
    CASE(vfork_exec),
    CASE(vfork_now),
    CASE(clone_exit),
    CASE(clone_quiet),
    CASE(fork_beside_threads),
    CASE(fork_during_start),
    CASE(crowd),
    CASE(parade),
    CASE(small_stack),
    CASE(small_stack_starts),
    CASE(smallest_stack),
    CASE(signal_default),
    CASE(signal_exits),
    CASE(signals_untouched),
    CASE(quick_exit_frees),
    CASE(abort_now),
    CASE(exit_in_thread),
    CASE(main_leaves_first),
    CASE(main_leaves_last),
    CASE(signal_at_exit),
    CASE(reset_and_go_on),
};

int main(int argc, char **argv)
{
  const size_t chosen = CASE_OF(argv[1], cases);
  program = argv[0];
  is_stderr_full = argc == 3;
  cases[chosen].run();
  return 0;
}
