/*
 * The trampolines of unknown.c, GP_UNKNOWN_SLOTS of them, 16 bytes each. While nothing is settled for its function, a call
 * first takes the slow way, which is C; then, and ever after, the trampoline jumps to the driver's function with all
 * argument registers, the stack and the return address as they were: no frame, and the driver's result is the caller's.
 *
 * A C function expects nothing in %r10 and %r11 (System V ABI, AMD64, 3.2.3: the static chain is for other languages).
 */
#include "interpose/routes/unknown_slots.h"

        .text
        .globl  gp_unknown_slots
        .hidden gp_unknown_slots
        .type   gp_unknown_slots, @function
        .p2align 4
gp_unknown_slots:
        .set    slot, 0
        .rept   GP_UNKNOWN_SLOTS
        .p2align 4
        endbr64
        movl    $slot, %r11d
        jmp     gp_unknown_way
        .set    slot, slot + 1
        .endr
        .size   gp_unknown_slots, .-gp_unknown_slots

        .type   gp_unknown_way, @function
        .p2align 4
gp_unknown_way:
        .cfi_startproc
        leaq    gp_unknown_settled(%rip), %r10
        cmpb    $0, (%r10, %r11)
        je      1f
        leaq    gp_unknown_functions(%rip), %r10
        jmp     *(%r10, %r11, 8)

        /* gp_unknown_called(slot, the six arguments in registers) returns the driver's function. */
1:      pushq   %rax                    /* %al is the number of vector registers of a variadic call */
        .cfi_adjust_cfa_offset 8
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        pushq   %r8
        .cfi_adjust_cfa_offset 8
        pushq   %rcx
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        movq    %rsp, %rsi
        subq    $128, %rsp              /* the stack is aligned to 16 bytes now: 8 of the return address and 7 times 8 */
        .cfi_adjust_cfa_offset 128
        movaps  %xmm0, (%rsp)
        movaps  %xmm1, 16(%rsp)
        movaps  %xmm2, 32(%rsp)
        movaps  %xmm3, 48(%rsp)
        movaps  %xmm4, 64(%rsp)
        movaps  %xmm5, 80(%rsp)
        movaps  %xmm6, 96(%rsp)
        movaps  %xmm7, 112(%rsp)
        movl    %r11d, %edi
        call    gp_unknown_called
        movq    %rax, %r11
        movaps  (%rsp), %xmm0
        movaps  16(%rsp), %xmm1
        movaps  32(%rsp), %xmm2
        movaps  48(%rsp), %xmm3
        movaps  64(%rsp), %xmm4
        movaps  80(%rsp), %xmm5
        movaps  96(%rsp), %xmm6
        movaps  112(%rsp), %xmm7
        addq    $128, %rsp
        .cfi_adjust_cfa_offset -128
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        popq    %r8
        .cfi_adjust_cfa_offset -8
        popq    %r9
        .cfi_adjust_cfa_offset -8
        popq    %rax
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   gp_unknown_way, .-gp_unknown_way

        .section .note.GNU-stack, "", @progbits
        .section .note.gnu.property, "a"        /* endbr64 stands at every indirect target: IBT and SHSTK hold */
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3
        .p2align 3
