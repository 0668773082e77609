/*
 * The one difference between the drivers of several versions that are built, besides what they export.
 */
#include "sim.h"

const int sim_built_version = SIM_DRIVER_VERSION;
