/*
 * Output paths with placeholders, and files that never overwrite.
 */
#ifndef GP_BASE_PATH_H
#define GP_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_PATH_BYTES 4096

/* The rank of the process, as torchrun, Open MPI, MVAPICH2, Hydra, PMIx, PALS (Cray), Horovod or Slurm sets
 * it, in this order: what a launcher inside of Slurm says goes before Slurm. NULL: none does. Borrowed from
 * the environment. */
const char *gp_path_rank(void);

/*
 * Expands %e (program name), %p (pid), %h (host), %k (rank: gp_path_rank, else 0), %t (seconds since the
 * epoch), %n (sequence), %r (reason) and %%
 * in pattern. Slashes in expanded values become underscores. reason may be NULL (""). Returns 0, or -1 if the
 * result does not fit or a placeholder is unknown (then buffer holds "").
 */
int gp_path_expand(const char *pattern, unsigned sequence, const char *reason, char *buffer, size_t capacity);

/*
 * Returns NULL if every placeholder of pattern is known, else a pointer to the first that is not.
 */
const char *gp_path_check(const char *pattern);

/* True if path names something other than a file or a folder, links followed: a
 * device, a pipe, a socket. */
bool gp_path_is_special(const char *path);

/* Opening a path into which another user may have put links. */

/*
 * As open(2), but follows a symbolic link, anywhere in the path, only if it belongs to this user or to
 * root: another user's link could lead to any file of this user. path is in a buffer of capacity bytes,
 * which the function overwrites. Uses two descriptors meanwhile. Returns a descriptor, or -1 with errno:
 * ELOOP for a link of another user, EMLINK for links that lead in a circle, else as open(2). Allocates
 * nothing, and uses little of the stack.
 */
int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode);

/*
 * Where the control socket of a process is: FOLDER/PID-START-SPACE, FOLDER being one for each user. SPACE
 * tells apart processes with the same number in two PID namespaces, which may share a folder. The library
 * makes the socket there, and the tool looks for it there.
 */

#define GP_CONTROL_PATH_BYTES 108 /* of sockaddr_un.sun_path */

/*
 * The folder of a user: runtime_folder (XDG_RUNTIME_DIR) with "/gpupool", or, if that is NULL, not absolute
 * or too long for the sockets in it, "/tmp/gpupool.UID". root precedes it: "", or another process's root
 * ("/proc/PID/root"). Returns buffer, which holds GP_CONTROL_PATH_BYTES; "" if nothing fits.
 */
char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer);

/* FOLDER/PREFIXpid-start-space; "" if it does not fit. buffer holds GP_CONTROL_PATH_BYTES. */
char *gp_control_path(
    const char *folder, const char *prefix, pid_t pid, uint64_t start, uint64_t space, char *buffer);

/* Reads the name of a socket, without its folder: "123-456-789", ".123-456-789" while it is being made, or
 * "123-456" of older libraries. False: it is no such name. */
bool gp_control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start);

/*
 * When a process began, in the kernel's ticks. The pid and this number together identify a process for
 * ever. pid 0 means this process, even if /proc shows another PID namespace. 0: there is no such process.
 */
uint64_t gp_process_start(pid_t pid);

/* The inode of this process's PID namespace (/proc/self/ns/pid); 0: unknown. */
uint64_t gp_process_space(void);

/* True if a process listens at a socket, or if that cannot be found out. Then errno is EADDRINUSE, or the
 * reason why not. path is shorter than the room for it. */
bool gp_control_is_served(const char *path);

/*
 * Removes the sockets in folder that no process serves any more: there is no visible process with that
 * number and start, and a connection is refused (a process may live in a namespace of its own).
 * Returns how many it removed.
 */
unsigned gp_control_remove_stale(const char *folder);

#endif
