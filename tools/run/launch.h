/*
 * Runs a program as a child, as env(1) and time(1) do.
 */
#ifndef GP_TOOLS_LAUNCH_H
#define GP_TOOLS_LAUNCH_H

#include <stddef.h>
#include <sys/types.h>

#include "base/path.h"

enum {
  GP_LAUNCH_FAILED = 125, /* this tool's failure: usage, settings, no memory */
  GP_LAUNCH_CANNOT_RUN = 126,
  GP_LAUNCH_NOT_FOUND = 127,
};

/* Finds the file that execvp would run for name, along PATH if name has no slash. Returns 0 with the path
 * in buffer, else GP_LAUNCH_NOT_FOUND or GP_LAUNCH_CANNOT_RUN (a folder, or not executable). */
int gp_launch_find(const char *name, char *buffer, size_t capacity);

typedef struct gp_launched {
  pid_t pid;  /* 0: did not start */
  int status; /* the exit status; 128 + signal if killed; GP_LAUNCH_* if it did not start */
  int signal; /* the signal that killed it; 0: none */
} gp_launched_t;

/* Starts path with argv and the current environment, and waits for its end. Forwards signals that would end
 * this process; the terminal sends its own to the child directly. Reports a failure to start. */
void gp_launch_and_wait(const char *path, char *const argv[], gp_launched_t *ret_launched);

/*
 * Ends this process by the signal that ended the child, without a second core. A shell then sees the
 * signal, and ends a loop after Ctrl-C. Returns if no signal ended the child, or if the signal cannot end
 * this process (process 1 of a PID namespace): then exit with status.
 */
void gp_launch_end_alike(const gp_launched_t *launched);

/*
 * Programs that start others where the environment or the library of this one is missing.
 */

#define GP_LAUNCHER_BYTES (4 * GP_PATH_BYTES) /* of a sentence */

/*
 * True if the program argv[0] (a name or a path) is known to lose LD_PRELOAD or the file of the library on
 * the way to what it starts. Writes to buffer a sentence that says so, and what to type instead. Of chroot
 * it looks into the folder: a library that is there is good.
 */
bool gp_launcher_loses(char *const argv[], const char *library, char buffer[static GP_LAUNCHER_BYTES]);

#endif
