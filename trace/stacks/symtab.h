/* The names of functions for a message, static ones included, from the file of their module. */
#ifndef GP_TRACE_SYMTAB_H
#define GP_TRACE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"

/*
 * Finds the function that contains the address in the symbol table of the module's file, and spells its name.
 * address: as in the file, without the bias at which it is loaded. False: the file cannot be read, is
 * stripped or has another build ID, it has no such function, or its name does not fit. Reads with pread,
 * because mapping a file that is overwritten meanwhile could end the program. Any thread; takes little stack.
 */
bool gp_symtab_name(const gp_module_record_t *module, uint64_t address, char *buffer, size_t capacity);

/* Spells a mangled C++ name without its parameters, "Arena::extend" for _ZN5Arena6extendEm, if it consists of
 * plain names; other names, such as templates, are copied unchanged. Returns false if it does not fit; buffer
 * is then truncated. */
bool gp_symtab_spell(const char *name, char *buffer, size_t capacity);

#endif
