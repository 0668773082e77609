/*
 * Call frame information (DWARF, .eh_frame): how to unwind out of a function, for
 * one address in it. x86-64.
 *
 * Covers only rules whose result depends on the stack pointer, rbp and words in the stack. Other rules are
 * reported as unknown, and a more capable unwinder has to walk there: functions in assembly have such
 * rules, signal frames, and the first instructions of some functions, which make no call.
 */
#ifndef GP_TRACE_CFI_H
#define GP_TRACE_CFI_H

#include <stdint.h>

#include "trace/stacks/modules.h"

/* The canonical frame address (CFA): the value of the stack pointer before the call. The return
 * address is in the word below. */
typedef enum gp_cfa {
  GP_CFA_UNKNOWN,
  GP_CFA_OUTERMOST, /* there is no caller */
  GP_CFA_RSP,       /* rsp + cfa_offset, where rsp is the CFA of the frame left before */
  GP_CFA_RBP,       /* rbp + cfa_offset */
  GP_CFA_AT_RBP,    /* the word at rbp + cfa_offset: gcc, in a function that aligns its stack */
} gp_cfa_t;

/* Where the caller's rbp is. */
typedef enum gp_rbp {
  GP_RBP_SAME,   /* in rbp */
  GP_RBP_AT_CFA, /* the word at CFA + rbp_offset */
  GP_RBP_AT_RBP, /* the word at rbp + rbp_offset */
  GP_RBP_UNKNOWN,
} gp_rbp_t;

typedef struct gp_frame_rule {
  int32_t cfa_offset; /* bytes, as in rbp_offset */
  int32_t rbp_offset;
  gp_cfa_t cfa : 8;
  gp_rbp_t rbp : 8;
} gp_frame_rule_t;

/*
 * The rule for the instruction at code, by its frame description entry in a loaded .eh_frame. If the entry
 * is for other instructions, or has a form that no compiler makes for x86-64, the result is GP_CFA_UNKNOWN.
 * Any thread, while the entry is loaded.
 */
gp_frame_rule_t gp_cfi_rule(const uint8_t *entry, uintptr_t code);

/* The unwind rules for the frames of a stack, from the loaded programs and libraries. */

/*
 * Writes the rules of the calls that return to addresses[0..count) to ret_rules, GP_CFA_UNKNOWN for calls
 * outside all loaded objects: generated code may change without notice. Returns the loader's counts at that
 * time. Holds the loader's lock meanwhile, so that nothing is unloaded. Any thread; x86-64.
 */
gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules);

/* Finds the longest function of the object `info`: the code from its beginning to the next function. False:
 * the object has no table of functions. */
bool gp_frame_rules_longest(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end);

#endif
