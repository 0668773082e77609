/* The trampolines of unknown.c for aarch64; see unknown_x86_64.S. x16 and x17 are for such code (AAPCS64,
 * 6.1.1); x8 has the address of a structure result. */
#include "interpose/routes/unknown_slots.h"

        .text
        .globl  gp_unknown_slots
        .hidden gp_unknown_slots
        .type   gp_unknown_slots, %function
        .p2align 4
gp_unknown_slots:
        .set    slot, 0
        .rept   GP_UNKNOWN_SLOTS
        .p2align 4
        hint    #34                     /* bti c */
        mov     w16, #slot
        b       gp_unknown_way
        .set    slot, slot + 1
        .endr
        .size   gp_unknown_slots, .-gp_unknown_slots

        .type   gp_unknown_way, %function
        .p2align 2
gp_unknown_way:
        .cfi_startproc
        adrp    x17, gp_unknown_settled
        add     x17, x17, #:lo12:gp_unknown_settled
        ldrb    w17, [x17, x16]
        cbz     w17, 1f
        adrp    x17, gp_unknown_functions
        add     x17, x17, #:lo12:gp_unknown_functions
        ldr     x16, [x17, x16, lsl #3]
        br      x16

        /* gp_unknown_called(slot, the eight arguments in registers) returns the driver's function. */
1:      stp     x29, x30, [sp, #-224]!
        .cfi_adjust_cfa_offset 224
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     x29, sp
        mov     w0, w16
        add     x1, sp, #16
        bl      gp_unknown_called
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_adjust_cfa_offset -224
        .cfi_restore x29
        .cfi_restore x30
        br      x16
        .cfi_endproc
        .size   gp_unknown_way, .-gp_unknown_way

        .section .note.GNU-stack, "", %progbits
