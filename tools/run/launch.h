/*
 * Runs a program as a child, as env(1) and time(1) do.
 */
#ifndef GP_TOOLS_LAUNCH_H
#define GP_TOOLS_LAUNCH_H

#include <stddef.h>
#include <sys/types.h>

enum {
  GP_LAUNCH_FAILED = 125, /* of this tool: usage, settings, no memory */
  GP_LAUNCH_CANNOT_RUN = 126,
  GP_LAUNCH_NOT_FOUND = 127,
};

/*
 * Finds the file that execvp would run for name, along PATH if name has no slash. Returns 0 with the path in
 * buffer, else GP_LAUNCH_NOT_FOUND or GP_LAUNCH_CANNOT_RUN (there, but a folder or not executable).
 */
int gp_launch_find(const char *name, char *buffer, size_t capacity);

typedef struct gp_launched {
  pid_t pid;  /* 0: it could not be started */
  int status; /* the exit status; 128 + signal if killed; GP_LAUNCH_* if it could not be started */
  int signal; /* that killed it; 0: none */
} gp_launched_t;

/*
 * Starts path with argv and the present environment and waits for its end. Signals that would end this
 * process are passed on; those of the terminal reach the child by themselves. A failure to start is reported
 * here.
 */
void gp_launch_and_wait(const char *path, char *const argv[], gp_launched_t *ret_launched);

/*
 * Ends this process by the signal that ended the child, without a core of its own: a shell then knows of it,
 * and ends a loop after Ctrl-C. Returns if no signal ended the child, or where one does not end this process,
 * as the first of a PID namespace: the status is the exit status then.
 */
void gp_launch_end_alike(const gp_launched_t *launched);

#endif
