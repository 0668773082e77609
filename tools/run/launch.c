#include "tools/run/launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tool.h"

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define FORWARDED_COUNT (sizeof(forwarded) / sizeof(forwarded[0]))

/* Set while the signals are blocked, read by the handler. */
static volatile pid_t child_pid;

/* A signal of the terminal has reached the child too: it goes to the whole foreground group. A kill(1) of
 * this process has not. */
static void forward(int number, siginfo_t *info, void *context)
{
  int saved_errno = errno;
  bool from_process = info->si_code <= 0;
  if (child_pid > 0 && from_process && info->si_pid != child_pid)
    (void)kill(child_pid, number); /* it may have ended; that is seen elsewhere */
  errno = saved_errno;
}

static void forward_signals(void)
{
  struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
  (void)sigfillset(&action.sa_mask); /* cannot fail */
  for (size_t i = 0; i < FORWARDED_COUNT; i++) {
    struct sigaction before;
    /* What is ignored stays so, for the child as well: nohup(1), background jobs. */
    if (sigaction(forwarded[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      (void)sigaction(forwarded[i], &action, NULL); /* valid signals */
  }
}

/* 0 if path can be executed, else the errno. */
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

/* Starts path; one without "#!" line is given to the shell, as execvp does. Returns an errno. */
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
  gp_launched_t launched = {.status = GP_LAUNCH_CANNOT_RUN};
  posix_spawnattr_t attributes;
  sigset_t all, before;
  pid_t pid;
  int status;

  (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nothing to wait for */
  (void)sigfillset(&all);         /* cannot fail */
  (void)sigprocmask(SIG_SETMASK, &all, &before);
  forward_signals();
  int error = posix_spawnattr_init(&attributes);
  if (!error) {
    /* Handlers do not survive the exec, so the child finds every signal as this process did. */
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
    launched.status = found_or_not(error);
    *ret_launched = launched;
    return;
  }
  launched.pid = pid;
  error = wait_for(pid, &status);
  child_pid = 0;
  if (error) {
    gp_message("lost sight of %s: %s", path, strerror(error));
  } else if (WIFSIGNALED(status)) {
    launched.signal = WTERMSIG(status);
    launched.status = 128 + launched.signal;
  } else {
    launched.status = WEXITSTATUS(status);
  }
  *ret_launched = launched;
}
