/*
 * Opens files whose names come from a snapshot, directly or through another file. The snapshot may come from
 * anywhere, so this opens only modules on a disk. Opening a device can rewind a tape or start a watchdog, and
 * opening a pipe waits for its writer.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#define GP_BUILD_ID_TEXT_BYTES 129 /* hexadecimal, with NUL */

/*
 * Opens `path` for reading if it is a regular file, links followed, that begins like an ELF program or
 * library. Inspects all other files without opening them. Returns a descriptor, or -1. On failure sets
 * *ret_why to the reason, in words that follow the path in a message, or to NULL if there is no such file.
 * The reason is static, or from strerror().
 */
int gp_symbols_open(const char *path, const char **ret_why);

/* Writes an open file's build-id in lower-case hexadecimal, or "" if the file has none. Returns false if the
 * file is not ELF. */
bool gp_symbols_read_build_id(int fd, char *buffer);

/* Formats the build-id at `bits` in the same way. `bits` may be NULL if `length` is 0. */
void gp_symbols_format_build_id(const void *bits, size_t length, char *buffer);

/* Returns true if the text can be a build-id: it has only hexadecimal digits, for at least three bytes. The
 * text is then safe in a path. */
bool gp_symbols_build_id_is_sound(const char *build_id);

#endif
