/*
 * Why a program may have run without the preload library: read from its file.
 */
#ifndef GP_TOOLS_PROGRAM_PROBE_H
#define GP_TOOLS_PROGRAM_PROBE_H

#include <stddef.h>

/*
 * Looks at the executable at path (for a script, at its interpreter as well) and writes to buffer a clause
 * such as "it is statically linked, ...", or "" if the file gives no reason. library is the preload library,
 * which says what an executable must be like.
 */
void gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity);

#endif
