/*
 * Finds separate debug files for libdwfl and libdw. Replaces the search of these libraries, which opens any
 * name that a file contains, and may contact servers.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H

#include <elfutils/libdwfl.h>

#include "tools/symbols/symbols_module.h"

/* The find_elf callback of libdwfl. It never finds a file, because the module's file is always given. */
int gp_symbols_find_elf(
    Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf);

/*
 * The find_debuginfo callback of libdwfl. Searches by build-id, then by the name in .gnu_debuglink. Looks in
 * the module's folder and the debug folders. A file must have the module's build-id or, if the module has
 * none, the link's checksum. The module's user data is a gp_symbols_options_t, or NULL for the default.
 */
int gp_symbols_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
    const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc, char **debuginfo_file_name);

/*
 * Finds the file into which dwz(1) moved data that several files share. Returns false if `dwarf` refers to
 * such a file and it is missing. The caller must then not use `dwarf`, because libdw would search for the
 * file itself. Otherwise the caller calls dwarf_end for *ret_alternate, and closes *ret_fd after dwfl_end.
 * They are NULL and -1 if `dwarf` needs no such file.
 */
bool gp_symbols_find_alternate(
    Dwarf *dwarf, const gp_symbols_options_t *options, Dwarf **ret_alternate, int *ret_fd);

#endif
