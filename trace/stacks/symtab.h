/* Finds the names of functions, including static ones, in the file of their module. For messages. */
#ifndef GP_TRACE_SYMTAB_H
#define GP_TRACE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"

/*
 * Writes the name of the function that contains `address`, from the symbol table of the module's file.
 * `address` is relative to the file, without the load bias. Returns false if the file cannot be read, is
 * stripped, or has another build ID. Also returns false if it has no such function, or if the name does not
 * fit. Reads with pread, because a mapped file that is overwritten meanwhile could end the program.
 * Thread-safe; needs little stack.
 */
bool gp_symtab_name(const gp_module_record_t *module, uint64_t address, char *buffer, size_t capacity);

/* Demangles a C++ name, without its parameters, if it consists of plain names: "Arena::extend" for
 * _ZN5Arena6extendEm. Copies other names, such as templates, unchanged. Returns false if the name does not
 * fit; `buffer` is then truncated. */
bool gp_symtab_spell(const char *name, char *buffer, size_t capacity);

#endif
