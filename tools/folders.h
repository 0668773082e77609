/* Folders among the files of a command: of a job's ranks, say. */
#ifndef GP_TOOLS_FOLDERS_H
#define GP_TOOLS_FOLDERS_H

#include "tools/request.h"

/* Puts the files .json and .pickle of a folder in its place, in the order of their names, in which numbers
 * count as numbers. Returns 0, or the exit status after a message: a folder has none or cannot be read, or no
 * memory. gp_folders_fini frees them. */
int gp_folders_expand(gp_request_t *request);
void gp_folders_fini(gp_request_t *request);

#endif
