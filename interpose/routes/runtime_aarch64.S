/*
 * The runtime's functions for aarch64; see runtime_x86_64.S.
 */
        .macro  gp_runtime_stub symbol, decide
        .globl  \symbol
        .type   \symbol, %function
        .p2align 2
\symbol:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_adjust_cfa_offset 48
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x29, sp
        mov     x3, x30                 /* the caller */
        bl      \decide
        cbz     x0, 1f
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_remember_state
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        br      x16
1:      .cfi_restore_state
        ldp     x29, x30, [sp], #48
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        .size   \symbol, .-\symbol
        .endm

#define RUNTIME(symbol) gp_runtime_stub symbol, gp_runtime_##symbol

        .text
#include "interpose/routes/runtime.def"

        .section .note.GNU-stack, "", %progbits
