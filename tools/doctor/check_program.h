/*
 * A program that is about to run: what its file, its libraries and its sources say. Nothing of it is started.
 */
#ifndef GP_TOOLS_DOCTOR_CHECK_PROGRAM_H
#define GP_TOOLS_DOCTOR_CHECK_PROGRAM_H

#include "tools/doctor/checks.h"

/* Whether the library reaches the program, and whether its framework keeps memory by itself. library: the
 * preload library. list: what gp_check_preload wrote. */
void gp_check_program(
    gp_checks_t *checks, const char *library, const char *path, char *const argv[], const char *list);

#endif
