/*
 * The processes of this machine as /proc shows them to this user: who is behind a record, and where other
 * processes have their files.
 */
#ifndef GP_TOOLS_MACHINE_PROCESSES_H
#define GP_TOOLS_MACHINE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a process sees as its files: a container has another one. */
typedef struct gp_place {
  uint64_t mounts; /* inode of the mount namespace */
  dev_t root_device;
  ino_t root_inode;
  pid_t pid; /* a process that is there */
} gp_place_t;

typedef struct gp_process {
  pid_t pid;
  pid_t inside; /* its number in its own PID namespace */
  uid_t user;   /* whom /proc says it belongs to */
  size_t place; /* index */
} gp_process_t;

typedef struct gp_processes {
  gp_process_t *items; /* by inside, then pid */
  size_t count;
  gp_place_t *places; /* the first is that of this process */
  size_t place_count;
} gp_processes_t;

/* Processes whose place /proc does not show to this user are left out. Returns 0 or ENOMEM. Call fini in any
 * case. */
int gp_processes_read(gp_processes_t *processes);
void gp_processes_fini(gp_processes_t *processes);

/*
 * The process that has the file mapped and the number `inside` in its own namespace; -1: none. Looks into
 * the processes' maps where more than one can be meant, or the file is of another user than the process, who
 * may have given it a false name. place: where the file was found; NULL: here. user: whose the file is.
 */
pid_t gp_processes_find(const gp_processes_t *processes, pid_t inside, const gp_place_t *place, uid_t user,
    dev_t device, uint64_t inode);

#define GP_CONTAINER_BYTES 16
#define GP_POD_BYTES       40

/* Container and pod by the process's control groups: 12 characters of the container's id, the pod's UID;
 * each "" if the groups tell none. Buffers of the sizes above. */
void gp_process_container(pid_t pid, char *container, char *pod);

/* The same of a text as in /proc/PID/cgroup. */
void gp_container_of_groups(const char *groups, char *container, char *pod);

/*
 * What /proc says of the process that the control client asks.
 */

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
