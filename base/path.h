/*
 * Output paths with placeholders, safe opening of paths, and paths of control sockets.
 */
#ifndef GP_BASE_PATH_H
#define GP_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_PATH_BYTES 4096

/* Returns the process's rank as set by torchrun, Open MPI, MVAPICH2, Hydra, PMIx, PALS (Cray), Horovod or
 * Slurm. The launchers are tried in this order, so that a launcher inside Slurm has precedence over Slurm.
 * Returns NULL if none has set a rank. The string is borrowed from the environment. */
const char *gp_path_rank(void);

/*
 * Writes `pattern` to `buffer` and expands %e (program name), %p (pid), %h (host), %k (rank: gp_path_rank,
 * otherwise 0), %t (seconds since the epoch), %n (sequence), %r (reason) and %%. Slashes in expanded values
 * become underscores. A NULL `reason` expands to "". Returns 0, or -1 if the result does not fit or a
 * placeholder is unknown; `buffer` is then "".
 */
int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity);

/*
 * Returns NULL if every placeholder of `pattern` is known, otherwise a pointer to the first unknown one.
 */
const char *gp_path_check(const char *pattern);

/* Returns true if `path`, after following links, is neither a file nor a folder but, for example, a device, a
 * pipe or a socket. */
bool gp_path_is_special(const char *path);

/* Opening paths in which another user may have created links. */

/*
 * Opens a path as open(2) does, but follows a symbolic link, anywhere in the path, only if the link belongs
 * to this user or to root. Another user's link could lead to any file of this user. Returns a descriptor, or
 * -1 with errno set: ELOOP for a link of another user, EMLINK for a cycle of links, otherwise as open(2).
 * `path` is in a buffer of `capacity` bytes, which the function overwrites. Needs two descriptors while it
 * runs. Allocates nothing, and uses little stack.
 */
int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode);

/*
 * The path of a process's control socket: FOLDER/PID-START-SPACE, with one FOLDER for each user. SPACE
 * distinguishes processes that have the same pid in two PID namespaces but share a folder. The library
 * creates the socket there, and the tool looks for it there.
 */

#define GP_CONTROL_PATH_BYTES 108 /* size of sockaddr_un.sun_path */

/*
 * Writes the path of a user's folder to `buffer`, which has GP_CONTROL_PATH_BYTES, and returns `buffer`. The
 * path is runtime_folder (XDG_RUNTIME_DIR) with "/gpupool" appended. It is "/tmp/gpupool.UID" if
 * runtime_folder is NULL, not absolute, or too long for the sockets in it. The path is prefixed with `root`:
 * "", or another process's root ("/proc/PID/root"). If nothing fits, the path is "".
 */
char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer);

/* Writes FOLDER/PREFIXpid-start-space to `buffer`, which has GP_CONTROL_PATH_BYTES, and returns `buffer`.
 * Writes "" if the path does not fit. */
char *gp_control_path(
    const char *folder, const char *prefix, pid_t pid, uint64_t start, uint64_t space, char *buffer);

/* Parses the name of a socket, without its folder. The name is "123-456-789", or ".123-456-789" while the
 * socket is being created; libraries of earlier versions use "123-456". Returns false for any other name. */
bool gp_control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start);

/*
 * Returns the start time of a process in the kernel's clock ticks, or 0 if there is no such process. The pid
 * and the start time together identify a process permanently. pid 0 means this process, even if /proc shows
 * another PID namespace.
 */
uint64_t gp_process_start(pid_t pid);

/* Returns the inode of this process's PID namespace (/proc/self/ns/pid), or 0 if it is unknown. */
uint64_t gp_process_space(void);

/* Returns true if a process listens at the socket `path`, or if this cannot be determined. In the first case
 * errno is EADDRINUSE, in the second it is the reason. `path` must be shorter than sun_path. */
bool gp_control_is_served(const char *path);

/*
 * Removes the sockets in `folder` that no process serves any more, and returns their number. A socket is
 * removed if no visible process has its pid and start time, and if a connection is refused. Both are checked,
 * because a process may be in a PID namespace of its own.
 */
unsigned gp_control_remove_stale(const char *folder);

#endif
