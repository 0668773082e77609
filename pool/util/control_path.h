/*
 * Where the control socket of a process is: FOLDER/PID-START, FOLDER being one for each user. The library makes it there,
 * and the tool looks for it there.
 */
#ifndef GP_POOL_UTIL_CONTROL_PATH_H
#define GP_POOL_UTIL_CONTROL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_CONTROL_PATH_BYTES 108 /* of sockaddr_un.sun_path */

/*
 * The folder of a user: runtime_folder (XDG_RUNTIME_DIR) with "/gpupool", or, if that is NULL, not absolute or too long
 * for the sockets in it, "/tmp/gpupool.UID". Before it comes root, which may be "" or that of another process
 * ("/proc/PID/root"). Returns buffer, which holds GP_CONTROL_PATH_BYTES; it is "" if nothing fits.
 */
char *gp_control_folder(const char *root, const char *runtime_folder, uid_t user, char *buffer);

/* FOLDER/PREFIXpid-start; "" if it does not fit. buffer holds GP_CONTROL_PATH_BYTES. */
char *gp_control_path(const char *folder, const char *prefix, pid_t pid, uint64_t start, char *buffer);

/* When a process began, in the kernel's ticks: with its number the name of a process for ever. 0: there is none. */
uint64_t gp_process_start(pid_t pid);

/*
 * Removes the sockets in folder that nobody serves any more: no process of that number and start is seen, and a
 * connection is refused (a process may live in a namespace of its own). Returns how many.
 */
unsigned gp_control_remove_stale(const char *folder);

#endif
