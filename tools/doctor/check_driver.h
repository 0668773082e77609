/*
 * The driver as a program finds it: by the name libcuda.so.1.
 */
#ifndef GP_TOOLS_DOCTOR_CHECK_DRIVER_H
#define GP_TOOLS_DOCTOR_CHECK_DRIVER_H

#include "tools/doctor/checks.h"

/* The driver and its devices, asked in a child process: a driver may crash or hang. */
void gp_check_driver(gp_checks_t *checks);

#endif
