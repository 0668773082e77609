/*
 * The trampolines of unknown.c, GP_UNKNOWN_SLOTS of them, 16 bytes each. Until its function is settled, a
 * call first takes the slow way, into C. Then, and always later, the trampoline jumps to the driver's
 * function with all argument registers, the stack and the return address unchanged: it makes no frame, and
 * the caller gets the driver's result.
 *
 * A C function expects nothing in %r10 and %r11 (System V ABI, AMD64, 3.2.3: the static
 * chain is for other languages).
 */
#include "interpose/routes/save_x86_64.h"
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
1:      gp_push rax, r9, r8, rcx, rdx, rsi, rdi     /* %al is the number of vector registers of a variadic call */
        movq    %rsp, %rsi
        gp_reserve 128                  /* keeps 16-byte alignment: 8 bytes of return address, 7 times 8 */
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movaps  %xmm\i, 16 * \i(%rsp)
        .endr
        movl    %r11d, %edi
        call    gp_unknown_called
        movq    %rax, %r11
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movaps  16 * \i(%rsp), %xmm\i
        .endr
        gp_unreserve 128
        gp_pop rdi, rsi, rdx, rcx, r8, r9, rax
        jmp     *%r11
        .cfi_endproc
        .size   gp_unknown_way, .-gp_unknown_way

        gp_end_of_file
