/*
 * Runs a program as a child process, as env(1) and time(1) do.
 */
#ifndef GP_TOOLS_LAUNCH_H
#define GP_TOOLS_LAUNCH_H

#include <stddef.h>
#include <sys/types.h>

#include "base/path.h"

enum {
  GP_LAUNCH_FAILED = 125, /* this tool failed: usage, settings, or out of memory */
  GP_LAUNCH_CANNOT_RUN = 126,
  GP_LAUNCH_NOT_FOUND = 127,
};

/* Finds the file that execvp would execute for `name`. Searches PATH if `name` has no slash. Returns 0 and
 * the path in `buffer`, GP_LAUNCH_NOT_FOUND, or GP_LAUNCH_CANNOT_RUN if it is a folder or not executable. */
int gp_launch_find(const char *name, char *buffer, size_t capacity);

typedef struct gp_launched {
  pid_t pid;  /* 0: the program did not start */
  int status; /* exit status; 128 + signal if a signal killed it; GP_LAUNCH_* if it did not start */
  int signal; /* signal that killed the program; 0: none */
} gp_launched_t;

/* Starts the program at `path` with `argv` and the current environment, and waits until it ends. Forwards
 * signals that would end this process; signals from the terminal reach the child directly. Prints a message
 * if the program cannot be started. */
void gp_launch_and_wait(const char *path, char *const argv[], gp_launched_t *ret_launched);

/*
 * Ends this process with the signal that ended the child, but without a second core dump. A shell then sees
 * the signal and, for example, stops a loop after Ctrl-C. Returns if no signal ended the child, or if the
 * signal cannot end this process (process 1 of a PID namespace). The caller then exits with `status`.
 */
void gp_launch_end_alike(const gp_launched_t *launched);

/*
 * Launchers are programs that start others without this environment, or without access to the library.
 */

#define GP_LAUNCHER_BYTES (4 * GP_PATH_BYTES) /* enough for one sentence */

/*
 * Returns true if the program argv[0] (a name or a path) is known to start programs without LD_PRELOAD or
 * without access to the library file. Then writes a sentence to `buffer` that gives the reason and a command
 * to use instead. For chroot, checks whether the library exists in the new root.
 */
bool gp_launcher_loses(char *const argv[], const char *library, char buffer[static GP_LAUNCHER_BYTES]);

#endif
