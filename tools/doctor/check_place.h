/*
 * The place where programs run: room for the record, and what limits memory from outside.
 */
#ifndef GP_TOOLS_DOCTOR_CHECK_PLACE_H
#define GP_TOOLS_DOCTOR_CHECK_PLACE_H

#include "base/options.h"
#include "tools/doctor/checks.h"

/* Room for the record, and limits from outside: the container's, MIG, MPS. */
void gp_check_place(gp_checks_t *checks, const gp_options_t *options);

#endif
