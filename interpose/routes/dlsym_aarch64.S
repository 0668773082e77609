/*
 * dlsym for aarch64; see dlsym_x86_64.S for why it ends in a jump.
 */
        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 2
dlsym:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        mov     x29, sp
        mov     x2, x30                 /* the caller of dlsym */
        bl      gp_dlsym_decide
        cbz     x0, .Lforward
        cmn     x0, #1                  /* GP_DLSYM_NONE */
        csel    x0, xzr, x0, eq
        ldp     x29, x30, [sp], #32
        .cfi_remember_state
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        ret
.Lforward:
        .cfi_restore_state
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        adrp    x16, gp_dlsym_next
        ldr     x16, [x16, #:lo12:gp_dlsym_next]
        br      x16
        .cfi_endproc
        .size   dlsym, .-dlsym

        .section .note.GNU-stack, "", %progbits
