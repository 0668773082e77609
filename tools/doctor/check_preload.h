/*
 * The library in a process: what the loader itself says of a program with the library preloaded.
 */
#ifndef GP_TOOLS_DOCTOR_CHECK_PRELOAD_H
#define GP_TOOLS_DOCTOR_CHECK_PRELOAD_H

#include "tools/doctor/checks.h"

/* Puts the library into this process's LD_PRELOAD, and asks the loader. program: its path, or NULL. Writes
 * what the loader loads with it to list. */
void gp_check_preload(
    gp_checks_t *checks, const char *library, const char *program, char *list, size_t capacity);

#endif
