/*
 * Opens files that a snapshot names, directly or through another file. The snapshot may come from anywhere,
 * so this opens only modules on a disk: opening a device can rewind a tape or start a watchdog, and a pipe
 * waits for its writer.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#define GP_BUILD_ID_TEXT_BYTES 129 /* hexadecimal, with NUL */

/*
 * Opens path for reading if it is a regular file, links followed, that begins like an ELF program or library.
 * Inspects everything else without opening it. Returns a descriptor, or -1 with the reason in *ret_why, in
 * words that follow the path in a message, or NULL if there is no such file. *ret_why is static, or from
 * strerror().
 */
int gp_symbols_open(const char *path, const char **ret_why);

/* Writes an open file's build-id in lower-case hexadecimal, "" if it has none. Returns false if it is not an
 * ELF file. */
bool gp_symbols_read_build_id(int fd, char *buffer);

/* Formats a build-id in memory. bits may be NULL if length is 0. */
void gp_symbols_format_build_id(const void *bits, size_t length, char *buffer);

/* Returns true if text may be a build-id: hexadecimal digits only, at least three bytes. It is then safe in a
 * path. */
bool gp_symbols_build_id_is_sound(const char *build_id);

#endif
