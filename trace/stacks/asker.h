/* Describes the program's code that requested memory, as far as the process itself knows its symbols. */
#ifndef GP_TRACE_ASKER_H
#define GP_TRACE_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"

#define GP_ASKER_BYTES 96 /* it lies on the stack of the thread that ran out, which may be small */

/*
 * Describes the user's innermost line of Python in that stack (from 1; 0: none), "FUNCTION (FILE:LINE)", else
 * the innermost frame outside system folders and CUDA's libraries:
 * "FUNCTION (MODULE)" if the function is exported or in the file's symbol table, and the text fits, else
 * "MODULE+0xOFFSET", an address that addr2line takes. logs are of this process. False: there is no such
 * frame. Takes the loader's lock for a moment, and reads the module's file. Any thread, with no lock held.
 */
bool gp_asker_describe(const gp_stack_logs_t *logs, uint32_t number, char *buffer, size_t capacity);

#endif
