/*
 * Finds out from a program's file why it may have run without the preload library.
 */
#ifndef GP_TOOLS_PROGRAM_PROBE_H
#define GP_TOOLS_PROGRAM_PROBE_H

#include <stddef.h>

/*
 * Looks at the executable at path (of a script, also at the interpreter). Writes to buffer a clause such as
 * "it is statically linked, ...", or "" if the file gives no reason. library: the preload library, which
 * shows what an executable must be like.
 */
void gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity);

#endif
