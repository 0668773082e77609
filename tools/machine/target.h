/*
 * What /proc says of the process that the control client asks.
 */
#ifndef GP_TOOLS_MACHINE_TARGET_H
#define GP_TOOLS_MACHINE_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

/* The process that the client asks, as this process sees it. */
typedef struct gp_target {
  pid_t pid;
  pid_t inside;   /* its number in its own namespace; names its socket */
  uid_t user;     /* its effective one */
  uid_t owner;    /* user of its files in /proc: root if the process has changed its user */
  char *intruder; /* a problem, GP_CONTROL_PROBLEM_BYTES: the first thing of another user found in
                     the socket's place; "" */
} gp_target_t;

/* intruder: holds GP_CONTROL_PROBLEM_BYTES, borrowed; set to "". owner: owner of the files in /proc/PID. */
void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target);

/* True if something that belongs to that user may be the target's. */
bool gp_target_has_user(const gp_target_t *target, uid_t user);

/* Reads /proc/PID/NAME and adds a NUL; cuts it to 1 MiB. The caller frees it. NULL: it cannot be read. */
char *gp_target_read(pid_t pid, const char *name);

/* A variable in environment, the content of /proc/PID/environ: strings one after
 * another. NULL: not set. Borrowed. */
const char *gp_target_variable(const char *environment, const char *name);

#endif
