/*
 * The processes of this machine as /proc shows them to this user: which process uses a record, and the file
 * systems that other processes see.
 */
#ifndef GP_TOOLS_MACHINE_PROCESSES_H
#define GP_TOOLS_MACHINE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The file system that a process sees, which differs in a container. */
typedef struct gp_place {
  uint64_t mounts; /* inode of the mount namespace */
  dev_t root_device;
  ino_t root_inode;
  pid_t pid; /* a process that sees it */
} gp_place_t;

typedef struct gp_process {
  pid_t pid;
  pid_t inside; /* its pid in its own PID namespace */
  uid_t user;   /* owner of its folder in /proc */
  size_t place; /* index in places */
} gp_process_t;

typedef struct gp_processes {
  gp_process_t *items; /* sorted by inside, then pid */
  size_t count;
  gp_place_t *places; /* the first is this process's own */
  size_t place_count;
} gp_processes_t;

/* Reads all processes, except those whose namespaces /proc hides from this user. Returns 0 or ENOMEM. Call
 * fini in any case. */
int gp_processes_read(gp_processes_t *processes);
void gp_processes_fini(gp_processes_t *processes);

/*
 * Returns the process that has mapped the file and has pid `inside` in its own namespace, or -1 if there is
 * none. Reads /proc/PID/maps unless exactly one process has that pid, and has the place and the user of the
 * file, because a file's name can be forged. place is where the file was found; NULL: in this process's file
 * system. user owns the file.
 */
pid_t gp_processes_find(const gp_processes_t *processes, pid_t inside, const gp_place_t *place, uid_t user,
    dev_t device, uint64_t inode);

#define GP_CONTAINER_BYTES 16
#define GP_POD_BYTES       40

/* Finds the container (12 characters of its id) and the pod (its UID) of a process from its control
 * groups; each is "" if the groups do not name one. The buffers have the sizes above. */
void gp_process_container(pid_t pid, char *container, char *pod);

/* Like gp_process_container, for a text in the form of /proc/PID/cgroup. */
void gp_container_of_groups(const char *groups, char *container, char *pod);

/*
 * What /proc shows about the process to which the control client connects.
 */

/* The client's target process, as this process sees it. */
typedef struct gp_target {
  pid_t pid;
  pid_t inside;   /* pid in its own namespace; part of its socket's name */
  uid_t user;     /* effective user */
  uid_t owner;    /* owner of its files in /proc: root if it has changed its user */
  char *intruder; /* problem text, GP_CONTROL_PROBLEM_BYTES: the first thing of another
                     user found in place of the socket; "": none */
} gp_target_t;

/* Fills *ret_target. intruder holds GP_CONTROL_PROBLEM_BYTES, is borrowed, and is set to "". owner owns
 * the files in /proc/PID. */
void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target);

/* Returns true if user may own the target's files and sockets: it is the effective user or the /proc
 * owner. */
bool gp_target_has_user(const gp_target_t *target, uid_t user);

/* Returns the content of /proc/PID/NAME with a NUL, truncated to 1 MiB, or NULL if it cannot be read. The
 * caller frees it. */
char *gp_target_read(pid_t pid, const char *name);

/* Returns the value of a variable in environment, the content of /proc/PID/environ (strings one after
 * another), or NULL if it is not set. Borrowed. */
const char *gp_target_variable(const char *environment, const char *name);

#endif
