/* Opening a path into which another user may have put links. */
#ifndef GP_BASE_OWN_PATH_H
#define GP_BASE_OWN_PATH_H

#include <stddef.h>
#include <sys/types.h>

/*
 * As open(2), but follows a symbolic link, anywhere in the path, only if it belongs to this user or to
 * root: another user's link could lead to any file of this user. path is in a buffer of capacity bytes,
 * which the function overwrites. Uses two descriptors meanwhile. Returns a descriptor, or -1 with errno:
 * ELOOP for a link of another user, EMLINK for links that lead in a circle, else as open(2). Allocates
 * nothing, and uses little of the stack.
 */
int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode);

#endif
