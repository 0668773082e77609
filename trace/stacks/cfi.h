/*
 * Call frame information (DWARF, .eh_frame): the rules by which an unwinder leaves a function from a given
 * address. Only for x86-64.
 *
 * Supports only rules whose result depends on the stack pointer, rbp and words in the stack. Other rules are
 * reported as unknown and need a more capable unwinder. They occur in assembly functions, in signal frames,
 * and at the first instructions of some functions, where no call is made.
 */
#ifndef GP_TRACE_CFI_H
#define GP_TRACE_CFI_H

#include <stdint.h>

#include "trace/stacks/modules.h"

/* How to compute the canonical frame address (CFA), which is the value of the stack pointer before the call.
 * The word below the CFA contains the return address. */
typedef enum gp_cfa {
  GP_CFA_UNKNOWN,
  GP_CFA_OUTERMOST, /* there is no caller */
  GP_CFA_RSP,       /* rsp + cfa_offset; rsp is the CFA of the next inner frame */
  GP_CFA_RBP,       /* rbp + cfa_offset */
  GP_CFA_AT_RBP,    /* the word at rbp + cfa_offset; in functions that align their stack (gcc) */
} gp_cfa_t;

/* Where the caller's rbp is stored. */
typedef enum gp_rbp {
  GP_RBP_SAME,   /* still in rbp */
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
 * Returns the rule for the instruction at `code`, from its frame description entry in a loaded .eh_frame.
 * Returns GP_CFA_UNKNOWN if the entry does not cover the instruction, or if it has a form that no compiler
 * emits for x86-64. Thread-safe; the entry must stay loaded meanwhile.
 */
gp_frame_rule_t gp_cfi_rule(const uint8_t *entry, uintptr_t code);

/* The unwind rules for the frames of a stack, from the loaded programs and libraries. */

/*
 * Finds the rules for the calls that return to addresses[0..count) and writes them to ret_rules. Returns the
 * loader's counts at that time. For calls outside all loaded objects the rule is GP_CFA_UNKNOWN, because
 * generated code may change without notice. Holds the loader's lock throughout, so that nothing is unloaded.
 * Thread-safe; only for x86-64.
 */
gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules);

/* Finds the longest function of the object `info`. A function extends from its beginning to the next
 * function. Returns false if the object has no table of functions. */
bool gp_frame_rules_longest(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end);

#endif
