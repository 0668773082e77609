/*
 * Output paths with placeholders, and files that are never overwritten.
 */
#ifndef GP_BASE_PATH_H
#define GP_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_PATH_BYTES 4096

/* Returns the rank of the process, as set by torchrun, Open MPI, MVAPICH2, Hydra, PMIx, PALS (Cray),
 * Horovod or Slurm. They are tried in this order, so a launcher inside Slurm has precedence over Slurm.
 * Returns NULL if none has set a rank. The string is borrowed from the environment. */
const char *gp_path_rank(void);

/*
 * Expands %e (program name), %p (pid), %h (host), %k (rank: gp_path_rank, otherwise 0), %t (seconds since the
 * epoch), %n (sequence), %r (reason) and %% in pattern. Slashes in expanded values become underscores. reason
 * may be NULL (""). Returns 0, or -1 if the result does not fit or a placeholder is unknown (then buffer is
 * "").
 */
int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity);

/*
 * Returns NULL if every placeholder of pattern is known, otherwise a pointer to the first unknown one.
 */
const char *gp_path_check(const char *pattern);

/* Returns true if path, after following links, is something other than a file or a folder: a device, a
 * pipe, a socket. */
bool gp_path_is_special(const char *path);

/* The next function opens a path into which another user may have put links. */

/*
 * Does what open(2) does, but follows a symbolic link, anywhere in the path, only if it belongs to this user
 * or to root: another user's link could lead to any file of this user. path is in a buffer of capacity bytes,
 * which the function overwrites. Needs two descriptors while it runs. Returns a descriptor, or -1 with errno:
 * ELOOP for a link of another user, EMLINK for a cycle of links, otherwise as open(2). Allocates nothing, and
 * uses little stack.
 */
int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode);

/*
 * The path of a process's control socket: FOLDER/PID-START-SPACE, with one FOLDER for each user. SPACE
 * distinguishes processes with the same number in two PID namespaces, which may share a folder. The library
 * creates the socket there, and the tool looks for it there.
 */

#define GP_CONTROL_PATH_BYTES 108 /* size of sockaddr_un.sun_path */

/*
 * Writes the folder of a user: runtime_folder (XDG_RUNTIME_DIR) with "/gpupool", or, if that is NULL, not
 * absolute or too long for the sockets in it, "/tmp/gpupool.UID". The folder is prefixed with root: "", or
 * another process's root ("/proc/PID/root"). Returns buffer, which has GP_CONTROL_PATH_BYTES; "" if nothing
 * fits.
 */
char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer);

/* Writes FOLDER/PREFIXpid-start-space, or "" if that does not fit. buffer has GP_CONTROL_PATH_BYTES. */
char *gp_control_path(
    const char *folder, const char *prefix, pid_t pid, uint64_t start, uint64_t space, char *buffer);

/* Parses the name of a socket, without its folder: "123-456-789", ".123-456-789" while the socket is being
 * created, or "123-456" of older libraries. Returns false if it is not such a name. */
bool gp_control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start);

/*
 * Returns when a process began, in the kernel's ticks. The pid and this number together identify a process
 * permanently. pid 0 means this process, even if /proc shows another PID namespace. Returns 0 if there is no
 * such process.
 */
uint64_t gp_process_start(pid_t pid);

/* Returns the inode of this process's PID namespace (/proc/self/ns/pid); 0: unknown. */
uint64_t gp_process_space(void);

/* Returns true if a process listens at a socket, or if this cannot be determined. Sets errno to
 * EADDRINUSE, or to the reason why it cannot be determined. path must be shorter than sun_path. */
bool gp_control_is_served(const char *path);

/*
 * Removes the sockets in folder that no process serves any more: there is no visible process with that number
 * and start, and a connection is refused (a process may be in a PID namespace of its own). Returns the number
 * of removed sockets.
 */
unsigned gp_control_remove_stale(const char *folder);

#endif
