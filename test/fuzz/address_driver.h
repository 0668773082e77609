/*
 * A driver for the engine that only hands out addresses, never the same twice, and never fails. Thread safe.
 */
#ifndef GP_TEST_ADDRESS_DRIVER_H
#define GP_TEST_ADDRESS_DRIVER_H

#include "pool/driver.h"

/* now_ns: the clock to use. */
gp_driver_ops_t address_driver_ops(uint64_t (*now_ns)(void *self));

#endif
