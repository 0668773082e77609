/* The unwind rules for the frames of a stack, from the loaded programs and libraries. */
#ifndef GP_TRACE_FRAME_RULES_H
#define GP_TRACE_FRAME_RULES_H

#include <stddef.h>

#include "trace/stacks/cfi.h"
#include "trace/stacks/modules.h"

/*
 * Writes the rules of the calls that return to addresses[0..count) to ret_rules, GP_CFA_UNKNOWN for calls
 * outside all loaded objects: generated code may change without notice. Returns the loader's counts at that
 * time. Holds the loader's lock meanwhile, so that nothing is unloaded. Any thread; x86-64.
 */
gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules);

#endif
