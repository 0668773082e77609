/*
 * Call frame information (DWARF, .eh_frame): how a function is left, read for one address in it. x86-64.
 *
 * Only the rules of which the outcome hangs on the stack pointer, rbp and words that are in the stack. What
 * has others is said to be unknown, and an unwinder that knows more has to walk there: the compilers give
 * such rules to functions in assembly, signal frames and the first instructions of some functions, where no
 * call is made.
 */
#ifndef GP_TRACE_CFI_H
#define GP_TRACE_CFI_H

#include <stdint.h>

/* The canonical frame address (CFA): where the stack pointer was before the call. The return address is in
 * the word below it. */
typedef enum gp_cfa {
  GP_CFA_UNKNOWN,
  GP_CFA_OUTERMOST, /* there is no caller */
  GP_CFA_RSP,       /* rsp + cfa_offset, rsp being the CFA of the frame that was left before */
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
  int32_t cfa_offset; /* bytes, as the next */
  int32_t rbp_offset;
  gp_cfa_t cfa : 8;
  gp_rbp_t rbp : 8;
} gp_frame_rule_t;

/*
 * The rule for the instruction at code, by its frame description entry in a loaded .eh_frame. An entry that
 * is not of this instruction, or is of a form that no compiler makes for x86-64, gives GP_CFA_UNKNOWN. Any
 * thread, while the entry is loaded.
 */
gp_frame_rule_t gp_cfi_rule(const uint8_t *entry, uintptr_t code);

#endif
