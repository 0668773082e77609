/*
 * Debug files apart from the file that ran, as libdwfl and libdw want them; found here because those open any
 * name that they find in a file, and may ask servers.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_DEBUG_H

#include <elfutils/libdwfl.h>

#include "tools/symbols/symbols_module.h"

/* A callback find_elf of libdwfl that finds nothing: the file of a module is always given. */
int gp_symbols_find_elf(
    Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf);

/*
 * A callback find_debuginfo of libdwfl: by build-id, then by the name in .gnu_debuglink beside the file and
 * in the debug folders. What is found has the build-id of the module; without one its checksum is compared.
 * The module's user data is a gp_symbols_options_t, NULL: the default.
 */
int gp_symbols_find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
    const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc, char **debuginfo_file_name);

/*
 * The file that dwz(1) has put what several files share into. Returns false if dwarf refers to one that
 * cannot be found: then dwarf must not be used, because libdw would look for it by itself. Otherwise
 * *ret_alternate is what to give back with dwarf_end and *ret_fd what to close after dwfl_end; NULL and -1:
 * none is needed.
 */
bool gp_symbols_find_alternate(
    Dwarf *dwarf, const gp_symbols_options_t *options, Dwarf **ret_alternate, int *ret_fd);

#endif
