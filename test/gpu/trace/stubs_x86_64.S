/*
 * One stub for every function that the call trace may hand out. A stub says its number to calltrace_note, which
 * counts the call and returns the real function, and jumps there: arguments in registers and on the stack, and the
 * return address, are the caller's, so that no prototype has to be known.
 */
#define STUBS 1024              /* and in calltrace.c */
#define STUB_BYTES_LOG2 4

        .text
        .hidden calltrace_stubs
        .globl  calltrace_stubs
        .p2align STUB_BYTES_LOG2
calltrace_stubs:
        number = 0
        .rept   STUBS
        endbr64
        pushq   $number
        jmp     common
        .p2align STUB_BYTES_LOG2
        number = number + 1
        .endr

common:                         /* the number, and on top of it the return address: aligned to 16 bytes */
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %rax
        subq    $136, %rsp
        movups  %xmm0, 0(%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        movl    192(%rsp), %edi
        call    calltrace_note
        movq    %rax, %r11
        movups  0(%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        addq    $136, %rsp
        popq    %rax
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        addq    $8, %rsp
        jmp     *%r11

        .section .note.GNU-stack, "", @progbits
