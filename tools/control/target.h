/*
 * What /proc says of the process that the control client asks.
 */
#ifndef GP_TOOLS_CONTROL_TARGET_H
#define GP_TOOLS_CONTROL_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

/* The process that the client asks, as this process sees it. */
typedef struct gp_target {
  pid_t pid;
  pid_t inside;   /* the number that it has in its own namespace, by which its socket is named */
  uid_t user;     /* its effective one */
  uid_t owner;    /* of its files in /proc: root for a process that was another user's before */
  char *intruder; /* problem, GP_CONTROL_PROBLEM_BYTES: what was first in the place of the socket, of another
                     user; "" */
} gp_target_t;

/* intruder: holds GP_CONTROL_PROBLEM_BYTES and is borrowed; it becomes "". owner: of
 * the files in /proc/PID. */
void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target);

/* True if what belongs to that user may be the target's. */
bool gp_target_has_user(const gp_target_t *target, uid_t user);

/* The file /proc/PID/NAME with a NUL behind it, cut to 1 MiB; the caller frees it.
 * NULL: it cannot be read. */
char *gp_target_read(pid_t pid, const char *name);

/* A variable in environment, which is /proc/PID/environ: strings one after another. NULL: there is none.
 * Borrowed. */
const char *gp_target_variable(const char *environment, const char *name);

#endif
