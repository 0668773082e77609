/*
 * Opens files that a snapshot, or a file that it led to, names. The snapshot may come from anywhere, so only
 * a module on a disk is opened: opening a device can rewind a tape or start a watchdog, and a pipe waits for
 * its writer.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#define GP_BUILD_ID_TEXT_BYTES 129 /* in hexadecimal, terminated */

/*
 * Opens path for reading if it is a regular file, links followed, that begins as an ELF program or library
 * does. Everything else is looked at without being opened. Returns a descriptor or -1; then *ret_why says why
 * in words that follow the path, NULL: there is no such file. *ret_why is static, or of strerror().
 */
int gp_symbols_open(const char *path, const char **ret_why);

/* Lower-case hexadecimal of an open file's build-id, "" without one. False: it is no ELF file. */
bool gp_symbols_read_build_id(int fd, char *buffer);

/* The same of bits in memory. NULL with a length of 0. */
void gp_symbols_format_build_id(const void *bits, size_t length, char *buffer);

/* True if text can be a build-id, and so part of a path: hexadecimal digits and nothing else, at least three
 * bytes. */
bool gp_symbols_build_id_is_sound(const char *build_id);

#endif
