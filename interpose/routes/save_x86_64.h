/* For assembly: macros that save registers between a program's call and C code, and the sections that each
 * object needs. The macros keep the unwind information (CFI) correct. */
#ifndef GP_INTERPOSE_ROUTES_SAVE_X86_64_H
#define GP_INTERPOSE_ROUTES_SAVE_X86_64_H

/* Push or pop registers in the given order. */
.macro gp_push registers:vararg
        .irp    register, \registers
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .endr
        .endm

        .macro gp_pop registers:vararg
        .irp    register, \registers
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .endr
        .endm

        /* Moves the stack pointer, for space, or for the 16-byte alignment that a call needs. */
        .macro gp_reserve bytes
        subq    $\bytes, %rsp
        .cfi_adjust_cfa_offset \bytes
        .endm

        .macro gp_unreserve bytes
        addq    $\bytes, %rsp
        .cfi_adjust_cfa_offset -\bytes
        .endm

        /* At the end of a file: declares that the stack is not executable and that endbr64 is at every
         * indirect target (for IBT and SHSTK). */
        .macro gp_end_of_file
        .section .note.GNU-stack, "", @progbits
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3
        .p2align 3
        .endm

#endif
