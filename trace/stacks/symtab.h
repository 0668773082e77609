/* The names of functions for a message, static ones included, from the file of their module. */
#ifndef GP_TRACE_SYMTAB_H
#define GP_TRACE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds the function that contains the address in the symbol table of the file path[0..length), an ELF file
 * of this machine, and spells its name. address: as in the file, without the bias at which it is loaded.
 * False: the file cannot be read or is stripped, it has no such function, or its name does not fit. Reads
 * with pread, so that a file that is overwritten meanwhile does no harm. Any thread; takes little stack.
 */
bool gp_symtab_name(const char *path, size_t length, uint64_t address, char *buffer, size_t capacity);

/* Spells a mangled C++ name without its parameters, "Arena::extend" for _ZN5Arena6extendEm, if it consists of
 * plain names; leaves templates and all else as they are. False: it does not fit; then buffer has a part. */
bool gp_symtab_spell(const char *name, char *buffer, size_t capacity);

#endif
