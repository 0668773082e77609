/*
 * The processes of this machine, as far as /proc shows them to this user. Finds which process uses a record,
 * and which file systems other processes see.
 */
#ifndef GP_TOOLS_MACHINE_PROCESSES_H
#define GP_TOOLS_MACHINE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file system as a process sees it; a process in a container sees a different one. */
typedef struct gp_place {
  uint64_t mounts; /* inode of the mount namespace */
  dev_t root_device;
  ino_t root_inode;
  pid_t pid; /* a process that sees this file system */
} gp_place_t;

typedef struct gp_process {
  pid_t pid;
  pid_t inside; /* its pid in its own PID namespace */
  uid_t user;   /* owner of the process's folder in /proc */
  size_t place; /* index in `places` */
} gp_process_t;

typedef struct gp_processes {
  gp_process_t *items; /* sorted by `inside`, then by pid */
  size_t count;
  gp_place_t *places; /* the first is the file system of this process */
  size_t place_count;
} gp_processes_t;

/* Reads all processes except those whose namespaces /proc hides from this user. Returns 0 or ENOMEM. Call
 * gp_processes_fini in any case. */
int gp_processes_read(gp_processes_t *processes);
void gp_processes_fini(gp_processes_t *processes);

/*
 * Returns the process that has mapped the file and has pid `inside` in its own namespace, or -1 if there is
 * none. `place` is where the file was found; NULL is this process's file system. `user` owns the file. If
 * only one process has that pid, and its place and user are those of the file, returns it immediately.
 * Otherwise reads /proc/PID/maps, because a file's name can be forged.
 */
pid_t gp_processes_find(const gp_processes_t *processes, pid_t inside, const gp_place_t *place, uid_t user,
    dev_t device, uint64_t inode);

#define GP_CONTAINER_BYTES 16
#define GP_POD_BYTES       40

/* Finds the container (12 characters of its id) and the pod (its UID) of a process from its control groups.
 * Writes "" for either if the groups do not contain it. The buffers must have the sizes above. */
void gp_process_container(pid_t pid, char *container, char *pod);

/* Like gp_process_container, but reads `groups`, a text in the form of /proc/PID/cgroup. */
void gp_container_of_groups(const char *groups, char *container, char *pod);

/*
 * Information in /proc about the process to which the control client connects.
 */

/* The process to which the control client connects, as this process sees it. */
typedef struct gp_target {
  pid_t pid;
  pid_t inside; /* pid in the process's own namespace, which is part of the socket's name */
  uid_t user;   /* effective user */
  uid_t owner;  /* owner of the process's files in /proc; root if the process has changed its user */
  /* Problem text (GP_CONTROL_PROBLEM_BYTES) about the first thing of another user that was found in place of
   * the socket; "": none. */
  char *intruder;
} gp_target_t;

/* Fills *ret_target. Borrows `intruder`, a buffer of GP_CONTROL_PROBLEM_BYTES, and sets it to "". `owner` is
 * the owner of the files in /proc/PID. */
void gp_target_find(pid_t pid, uid_t owner, char *intruder, gp_target_t *ret_target);

/* Returns true if `user` may own the target's files and sockets: its effective user or its owner in /proc. */
bool gp_target_has_user(const gp_target_t *target, uid_t user);

/* Returns the content of /proc/PID/NAME, truncated to 1 MiB and followed by a NUL, or NULL if it cannot be
 * read. The caller frees it. */
char *gp_target_read(pid_t pid, const char *name);

/* Returns the value of a variable in `environment`, or NULL if it is not set. `environment` is the content of
 * /proc/PID/environ, a sequence of strings. The value is borrowed. */
const char *gp_target_variable(const char *environment, const char *name);

#endif
