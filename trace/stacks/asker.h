/* Describes the program's code that requested memory, by the symbols that the process itself can find. */
#ifndef GP_TRACE_ASKER_H
#define GP_TRACE_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"

#define GP_ASKER_BYTES 96 /* small: the buffer is on the stack of the thread that ran out of memory */

/*
 * Describes the frame that requested the memory, in the stack with number `number` (from 1; 0 means none).
 * This is the innermost Python frame in the user's own files, written as "FUNCTION (FILE:LINE)". If there is
 * none, it is the innermost frame outside system folders and CUDA's libraries. Such a frame is written as
 * "FUNCTION (MODULE)" if the function is exported or in the file's symbol table and the text fits. Otherwise
 * it is written as "MODULE+0xOFFSET", which addr2line accepts. `logs` must be those of this process. Returns
 * false if there is no such frame. Takes the loader's lock briefly and reads the module's file. Thread-safe;
 * the caller holds no lock.
 */
bool gp_asker_describe(const gp_stack_logs_t *logs, uint32_t number, char *buffer, size_t capacity);

#endif
