/*
 * Opening a path that another user may have bent.
 */
#ifndef GP_POOL_UTIL_OWN_PATH_H
#define GP_POOL_UTIL_OWN_PATH_H

#include <stddef.h>
#include <sys/types.h>

/*
 * As open(2), but no symbolic link is followed, at any place in the path, unless it belongs to this user or
 * to root: another user's could lead to any file of this one. path lies in a buffer of capacity bytes, which
 * is used up. Takes two descriptors meanwhile. Returns a descriptor, or -1 with errno: ELOOP for a link of
 * another user, EMLINK for links that lead in a circle, else as open(2). No allocation, and little of the
 * stack.
 */
int gp_own_path_open(char *path, size_t capacity, int flags, mode_t mode);

#endif
