/*
 * Finds separate debug files for libdwfl and libdw. Their own search opens any name that it finds in a
 * file, and may ask servers.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H

#include <elfutils/libdwfl.h>

#include "tools/symbols/symbols_module.h"

/* The find_elf callback of libdwfl. Finds nothing, because the module's file is always given. */
int gp_symbols_find_elf(
    Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf);

/*
 * The find_debuginfo callback of libdwfl: searches by build-id, then by the name in .gnu_debuglink, beside
 * the file and in the debug folders. A file must have the module's build-id or, if there is none, the
 * link's checksum. The module's user data is a gp_symbols_options_t; NULL: the default.
 */
int gp_symbols_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
    const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc, char **debuginfo_file_name);

/*
 * Finds the file into which dwz(1) moved what several files share. Returns false if dwarf refers to one
 * that is missing: then do not use dwarf, because libdw would search by itself. Else *ret_alternate needs
 * dwarf_end, and *ret_fd needs close after dwfl_end; NULL and -1: dwarf needs no such file.
 */
bool gp_symbols_find_alternate(
    Dwarf *dwarf, const gp_symbols_options_t *options, Dwarf **ret_alternate, int *ret_fd);

#endif
