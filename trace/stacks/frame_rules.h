/* The unwind rules for the frames of a stack, from the loaded programs and libraries. */
#ifndef GP_TRACE_FRAME_RULES_H
#define GP_TRACE_FRAME_RULES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#include "trace/stacks/cfi.h"
#include "trace/stacks/modules.h"

/*
 * Writes the rules of the calls that return to addresses[0..count) to ret_rules, GP_CFA_UNKNOWN for calls
 * outside all loaded objects: generated code may change without notice. Returns the loader's counts at that
 * time. Holds the loader's lock meanwhile, so that nothing is unloaded. Any thread; x86-64.
 */
gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules);

/* The code from the beginning of one function to that of the next, where that is most, of the object that the
 * loader is at. False: it has no such table. */
bool gp_frame_rules_longest(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end);

#endif
