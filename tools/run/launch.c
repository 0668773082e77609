#include "tools/run/launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tool.h"
#include "tools/shorten.h"

typedef struct launcher {
  const char *name;
  const char *loses;
  const char *remedy; /* advice to the user, in which LIBRARY stands for the library's path */
} launcher_t;

#define CONTAINER   "starts programs in a container, which has neither this environment nor this library"
#define ENVIRONMENT "starts programs without this LD_PRELOAD"

static const launcher_t launchers[] = {
    {"docker", CONTAINER, "docker run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"podman", CONTAINER, "podman run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"nerdctl", CONTAINER, "nerdctl run -v LIBRARY:LIBRARY:ro -e LD_PRELOAD=LIBRARY ..."},
    {"kubectl", CONTAINER, "doc/roll-out.md has a pod that brings LIBRARY"},
    {"apptainer", CONTAINER, "apptainer exec --bind LIBRARY --env LD_PRELOAD=LIBRARY ..."},
    {"singularity", CONTAINER, "singularity exec --bind LIBRARY --env LD_PRELOAD=LIBRARY ..."},
    {"sudo", ENVIRONMENT, "sudo gpupool run -- PROGRAM"},
    {"su", ENVIRONMENT, "su USER -c 'gpupool run -- PROGRAM'"},
    {"doas", ENVIRONMENT, "doas gpupool run -- PROGRAM"},
    {"ssh", ENVIRONMENT, "ssh HOST gpupool run -- PROGRAM"},
    {"systemd-run", ENVIRONMENT, "systemd-run gpupool run -- PROGRAM"},
};

/* Returns the new root of a chroot command, which is its first argument that is not an option. */
static const char *new_root(char *const argv[])
{
  for (argv++; *argv; argv++) {
    if (strcmp(*argv, "--") == 0)
      return argv[1];
    if ((*argv)[0] != '-')
      return *argv;
  }
  return NULL;
}

static void expand(const char *remedy, const char *library, char *buffer, size_t capacity)
{
  static const char word[] = "LIBRARY";
  const char *at;

  buffer[0] = '\0';
  for (; (at = strstr(remedy, word)) != NULL; remedy = at + sizeof(word) - 1) {
    int used = snprintf(buffer, capacity, "%.*s%s", (int)(at - remedy), remedy, library);
    if (used < 0 || (size_t)used >= capacity)
      return;
    buffer += used;
    capacity -= (size_t)used;
  }
  snprintf(buffer, capacity, "%s", remedy);
}

bool gp_launcher_loses(char *const argv[], const char *library, char buffer[static GP_LAUNCHER_BYTES])
{
  char inside[2 * GP_PATH_BYTES];
  const char *name = gp_base_name(argv[0]);

  if (strcmp(name, "chroot") == 0) {
    const char *root = new_root(argv);
    if (!root)
      return false;
    snprintf(inside, sizeof(inside), "%s%s", root, library);
    if (access(inside, R_OK) == 0)
      return false;
    snprintf(buffer, GP_LAUNCHER_BYTES,
        "%s does not exist, so what starts in %s runs without the library; copy %s there", inside, root,
        library);
    return true;
  }
  for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
    if (strcmp(name, launchers[i].name) != 0)
      continue;
    int used = snprintf(buffer, GP_LAUNCHER_BYTES, "%s %s; type instead: ", name, launchers[i].loses);
    expand(launchers[i].remedy, library, buffer + used, GP_LAUNCHER_BYTES - (size_t)used);
    return true;
  }
  return false;
}

/* Signals that end a process by default, except KILL and realtime signals. */
static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGUSR1,
    SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,
    SIGPWR, SIGSYS};
#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))

/* Set while signals are blocked, and read by the signal handler. */
static volatile pid_t child_pid;

/* Returns true if the kernel sends the signal to the terminal's whole foreground process group. */
static bool is_of_terminal(int number)
{
  return number == SIGINT || number == SIGQUIT || number == SIGHUP;
}

/* Returns true if a timer sends the signal. A timer can survive exec: alarm(2) before `exec gpupool run`. */
static bool is_of_timer(int number)
{
  return number == SIGALRM || number == SIGVTALRM || number == SIGPROF;
}

/*
 * Signal handler that forwards a signal to the child if the child has not received it.
 *
 * A signal from the kernel has si_code > 0. If the terminal caused it, the child has received it as well; if
 * a timer did, the child has not. Any other kernel signal is a fault of this process, and ends it. A signal
 * that another process sent to this process has not reached the child. A signal that this process sent to
 * itself comes from writing to a closed pipe.
 */
static void forward(int number, siginfo_t *info, void *context)
{
  int saved_errno = errno;
  bool from_process = info->si_code <= 0;
  pid_t child = child_pid;

  if (child > 0 && (from_process ? info->si_pid != child && info->si_pid != getpid() : is_of_timer(number))) {
    (void)kill(child, number); /* fails if the child has ended, which wait_for detects */
  } else if (!from_process && (child == 0 || !is_of_terminal(number))) {
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* takes effect when the handler returns */
  }
  errno = saved_errno;
}

static void forward_one(int number)
{
  struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct sigaction before;

  (void)sigfillset(&action.sa_mask); /* cannot fail */
  /* Leaves ignored signals ignored, because the child must ignore them, too: nohup(1), background jobs. */
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
    (void)sigaction(number, &action, NULL); /* cannot fail, because the signal is valid */
}

static void forward_signals(void)
{
  for (size_t i = 0; i < ENDING_COUNT; i++)
    forward_one(ending[i]);
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
    forward_one(number);
}

/* Returns 0 if the file at `path` can be executed, else an errno. */
static int check_executable(const char *path)
{
  struct stat status;
  if (stat(path, &status))
    return errno;
  if (S_ISDIR(status.st_mode))
    return EISDIR;
  return access(path, X_OK) ? errno : 0;
}

static int found_or_not(int error)
{
  return error == 0 ? 0 : error == ENOENT || error == ENOTDIR ? GP_LAUNCH_NOT_FOUND : GP_LAUNCH_CANNOT_RUN;
}

int gp_launch_find(const char *name, char *buffer, size_t capacity)
{
  int result = GP_LAUNCH_NOT_FOUND;
  const char *path = getenv("PATH");

  if (name[0] == '\0')
    return GP_LAUNCH_NOT_FOUND;
  if (strchr(name, '/')) {
    if ((size_t)snprintf(buffer, capacity, "%s", name) >= capacity)
      return GP_LAUNCH_NOT_FOUND;
    return found_or_not(check_executable(buffer));
  }
  for (const char *p = path ? path : "/bin:/usr/bin";; p++) {
    size_t length = strcspn(p, ":");
    int written = snprintf(buffer, capacity, "%.*s%s%s", (int)length, p, length ? "/" : "", name);
    int error = written < 0 || (size_t)written >= capacity ? ENOENT : check_executable(buffer);
    if (error == 0)
      return 0;
    if (error != EISDIR && found_or_not(error) == GP_LAUNCH_CANNOT_RUN)
      result = GP_LAUNCH_CANNOT_RUN;
    p += length;
    if (*p == '\0')
      return result;
  }
}

/* Starts the program at `path`. Like execvp, runs a script without "#!" with the shell. Returns 0 or an
 * errno. */
static int spawn(pid_t *ret_pid, const char *path, char *const argv[], const posix_spawnattr_t *attributes)
{
  int error = posix_spawn(ret_pid, path, NULL, attributes, argv, environ);
  if (error != ENOEXEC)
    return error;
  size_t count = 0;
  while (argv[count])
    count++;
  char **shell = calloc(count + 2, sizeof(*shell));
  if (!shell)
    return ENOMEM;
  shell[0] = (char *)"/bin/sh";
  shell[1] = (char *)path;
  for (size_t i = 1; i < count; i++)
    shell[i + 1] = argv[i];
  error = posix_spawn(ret_pid, shell[0], NULL, attributes, shell, environ);
  free(shell);
  return error;
}

static int wait_for(pid_t pid, int *ret_status)
{
  pid_t ended;
  do
    ended = waitpid(pid, ret_status, 0);
  while (ended < 0 && errno == EINTR);
  return ended < 0 ? errno : 0;
}

void gp_launch_and_wait(const char *path, char *const argv[], gp_launched_t *ret_launched)
{
  gp_launched_t launched = {.status = GP_LAUNCH_FAILED};
  posix_spawnattr_t attributes;
  sigset_t all, before;
  pid_t pid;
  int status;

  (void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, the child's status would be lost */
  (void)sigfillset(&all);         /* cannot fail */
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  forward_signals();
  int error = posix_spawnattr_init(&attributes);
  if (!error) {
    /* exec resets handlers, so the child starts with the signal mask and dispositions that this tool had. */
    (void)posix_spawnattr_setsigmask(&attributes, &before);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = spawn(&pid, path, argv, &attributes);
    (void)posix_spawnattr_destroy(&attributes);
  }
  if (!error)
    child_pid = pid;
  (void)sigprocmask(SIG_SETMASK, &before, NULL);
  if (error) {
    gp_message("cannot run %s: %s", path, strerror(error));
    if (error != EAGAIN && error != ENOMEM) /* EAGAIN and ENOMEM come from fork, not from path */
      launched.status = found_or_not(error);
    *ret_launched = launched;
    return;
  }
  launched.pid = pid;
  error = wait_for(pid, &status);
  child_pid = 0;
  if (error) {
    gp_message("cannot wait for %s: %s", path, strerror(error));
  } else if (WIFSIGNALED(status)) {
    launched.signal = WTERMSIG(status);
    launched.status = 128 + launched.signal;
  } else {
    launched.status = WEXITSTATUS(status);
  }
  *ret_launched = launched;
}

void gp_launch_end_alike(const gp_launched_t *launched)
{
  sigset_t one;

  if (!launched->signal)
    return;
  (void)fflush(NULL);              /* as exit() does */
  (void)prctl(PR_SET_DUMPABLE, 0); /* cannot fail; unlike RLIMIT_CORE, also stops core_pattern programs */
  (void)sigemptyset(&one);
  (void)sigaddset(&one, launched->signal);
  (void)signal(launched->signal, SIG_DFL); /* fails for SIGKILL, which always has its default action */
  (void)raise(launched->signal);
  (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
}
