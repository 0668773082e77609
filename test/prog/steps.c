/*
 * Does what its standard input says, one step for each line, and answers each with a line: for tests that
 * watch a program from outside while it lives. Ends at the end of stdin, or with the step "exit".
 *
 *   alloc BYTES [N] cudaMalloc, N times; answers its last error, as the others do
 *   free            of the newest allocation
 *   synchronize
 *   handle NAME     sets a handler of its own for USR1, which counts; NAME is plain, siginfo, once, ignore or
 * default handled         answers how often it ran fork, vfork     the child raises USR1 and ends; answers
 * its wait status close           closes every file but 0, 1 and 2, and opens as many again on /dev/null
 *   address N       leaves N bytes of address space free
 *   checkpoint NAME one of Lock, Checkpoint, Restore, Unlock (cuda.h, cuCheckpointProcessLock), of this
 * process
 *   exec            becomes this program anew, after the answer
 *   exit | _exit
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 65536
#define FILES  64

static void *blocks[BLOCKS];
static int block_count;
static volatile sig_atomic_t handled;

static void count(int number)
{
  (void)number;
  handled++;
}

static void count_with_info(int number, siginfo_t *info, void *context)
{
  handled += info && info->si_signo == number && context;
}

static void set_handler(const char *name)
{
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = count;
  if (strcmp(name, "siginfo") == 0) {
    action.sa_sigaction = count_with_info;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
  } else if (strcmp(name, "once") == 0) {
    action.sa_flags = (int)SA_RESETHAND;
  } else if (strcmp(name, "ignore") == 0) {
    action.sa_handler = SIG_IGN;
  } else if (strcmp(name, "default") == 0) {
    action.sa_handler = SIG_DFL;
  }
  sigaction(SIGUSR1, &action, NULL);
}

/* After vfork() the child has the memory of its parent. */
static int signal_in_child(int shares_memory)
{
  int status = -1;
  pid_t pid = shares_memory ? vfork() : fork();
  if (pid == 0) {
    kill(getpid(), SIGUSR1);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  return status;
}

static int checkpoint(const char *name)
{
  char symbol[64];
  (void)snprintf(symbol, sizeof(symbol), "cuCheckpointProcess%s", name);
  int (*step)(int, void *) = (int (*)(int, void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol);
  return step ? step(getpid(), NULL) : -1;
}

static int allocate(size_t bytes, int times)
{
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < times && error == cudaSuccess; i++) {
    if (block_count == BLOCKS)
      return -1;
    error = cudaMalloc(&blocks[block_count], bytes);
    block_count += error == cudaSuccess;
  }
  return (int)error;
}

/* As programs do that want to pass nothing on, and then open files of their own. */
static int use_file_numbers(void)
{
  int opened = 0;
  for (int i = 3; i < FILES; i++)
    close(i);
  for (int i = 3; i < FILES; i++)
    opened += open("/dev/null", O_RDWR) >= 0;
  return opened;
}

static int leave_address_space(size_t bytes)
{
  struct rlimit limit;
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%lu", &pages) != 1)
    return -1;
  fclose(file);
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
  return setrlimit(RLIMIT_AS, &limit);
}

int main(void)
{
  char line[256];
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof(line), stdin) || (errno == EINTR && !feof(stdin))) {
    char step[32] = "", argument[64] = "";
    int times = 1;
    int answer = 0;
    if (sscanf(line, "%31s %63s %d", step, argument, &times) < 1)
      continue;
    if (strcmp(step, "alloc") == 0)
      answer = allocate(strtoull(argument, NULL, 10), times);
    else if (strcmp(step, "free") == 0)
      answer = block_count ? (int)cudaFree(blocks[--block_count]) : -1;
    else if (strcmp(step, "synchronize") == 0)
      answer = (int)cudaDeviceSynchronize();
    else if (strcmp(step, "handle") == 0)
      set_handler(argument);
    else if (strcmp(step, "handled") == 0)
      answer = handled;
    else if (strcmp(step, "checkpoint") == 0)
      answer = checkpoint(argument);
    else if (strcmp(step, "fork") == 0)
      answer = signal_in_child(0);
    else if (strcmp(step, "vfork") == 0)
      answer = signal_in_child(1);
    else if (strcmp(step, "close") == 0)
      answer = use_file_numbers();
    else if (strcmp(step, "address") == 0)
      answer = leave_address_space(strtoull(argument, NULL, 10));
    else if (strcmp(step, "exec") == 0)
      answer = 0; /* before the program begins anew */
    else if (strcmp(step, "_exit") == 0)
      _exit(0);
    else if (strcmp(step, "exit") == 0)
      return 0;
    else
      answer = -2;
    printf("%s %d\n", step, answer);
    if (strcmp(step, "exec") == 0)
      execl("/proc/self/exe", "steps", (char *)NULL);
    line[0] = '\0';
    clearerr(stdin);
  }
  return 0;
}
