/*
 * zlib and zstd, opened when they are first needed (optional_library.h). Their functions have their own
 * names, and may be called once the library is open.
 */
#ifndef GP_TOOLS_COMPRESSION_H
#define GP_TOOLS_COMPRESSION_H

#include <stdbool.h>

/* False: not installed, or the tool was built without its header. */
bool gp_zlib_open(void);
bool gp_zstd_open(void);

#endif
