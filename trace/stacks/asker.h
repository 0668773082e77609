/* Describes the program's code that requested memory, as far as the process itself knows its symbols. */
#ifndef GP_TRACE_ASKER_H
#define GP_TRACE_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/stack_log.h"

#define GP_ASKER_BYTES 96 /* the buffer is on the stack of the thread that ran out, which may be small */

/*
 * Describes the frame of a stack that requested the memory. number is the stack's number, from 1; 0 means
 * none. The frame is the innermost Python frame in the user's own files, written as "FUNCTION (FILE:LINE)";
 * if there is none, the innermost frame outside system folders and CUDA's libraries. That one is written as
 * "FUNCTION (MODULE)" if the function is exported or in the file's symbol table and the text fits, else as
 * "MODULE+0xOFFSET", which addr2line accepts. logs must be of this process. Returns false if there is no such
 * frame. Takes the loader's lock briefly and reads the module's file. Any thread, with no lock held.
 */
bool gp_asker_describe(const gp_stack_logs_t *logs, uint32_t number, char *buffer, size_t capacity);

#endif
