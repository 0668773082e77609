/*
 * The stubs of work.def. Each puts the stream into %rax and jumps to the driver's function, with arguments,
 * stack and return address unchanged: it makes no frame, and the caller gets the driver's result.
 *
 * Work in another stream than the legacy default one first takes the slow way, into C, while mode `single`
 * holds or may have left unordered work. So does a function that is not bound yet.
 *
 * %rax, %r10 and %r11 are free at the entry of a function that is not variadic
 * (System V ABI, AMD64, 3.2.3).
 */
#include "interpose/routes/save_x86_64.h"

#define HOOK(symbol, base, since, per_thread, parameters) .set gp_function, gp_function + 1
#define CALL(symbol, parameters)
        .set    gp_function, 0
#include "interpose/routes/functions.def"

        .text

        .macro gp_stub name
        .globl  gp_work_\name
        .hidden gp_work_\name
        .type   gp_work_\name, @function
        .p2align 4
gp_work_\name:
        .endm

        /* The stream is in %rax. */
        .macro gp_work_pass name, per_thread
        movq    gp_real_functions + 8 * gp_function(%rip), %r10
        testq   %r10, %r10
        jz      9f
        cmpq    $1, %rax                /* CU_STREAM_LEGACY; 0 is the same, or the thread's own */
        .if \per_thread
        je      8f
        .else
        jbe     8f
        .endif
        cmpb    $0, gp_work_is_watched(%rip)
        jne     9f
8:      jmp     *%r10
9:      movl    $gp_function, %r11d
        jmp     gp_work_slow_way
        .size   gp_work_\name, .-gp_work_\name
        .set    gp_function, gp_function + 1
        .endm

#define LOAD_ARGUMENT_1 movq %rdi, %rax
#define LOAD_ARGUMENT_2 movq %rsi, %rax
#define LOAD_ARGUMENT_3 movq %rdx, %rax
#define LOAD_ARGUMENT_4 movq %rcx, %rax
#define LOAD_ARGUMENT_5 movq %r8, %rax
#define LOAD_ARGUMENT_6 movq %r9, %rax
#define LOAD_ARGUMENT_8 movq 16(%rsp), %rax
#define LOAD_ARGUMENT_9 movq 24(%rsp), %rax
#define LOAD_DEFAULT    xorl %eax, %eax
/* No single stream: a value other than the default one, so that all calls take the slow way. */
#define LOAD_MANY       movq $-2, %rax

#define WORK(symbol, base, since, per_thread, where)                                                                   \
        gp_stub symbol; endbr64; LOAD_##where; gp_work_pass symbol, per_thread
#include "interpose/sight/work.def"

/* %rax: stream, %r11d: function. gp_work_slow(stream, function) settles, and returns the function to jump
 * to. At the entry of a stub the stack is 8 bytes off its alignment. */
        .type   gp_work_slow_way, @function
        .p2align 4
gp_work_slow_way:
        .cfi_startproc
        gp_push rdi, rsi, rdx, rcx, r8, r9
        gp_reserve 8
        movq    %rax, %rdi
        movl    %r11d, %esi
        call    gp_work_slow
        gp_unreserve 8
        gp_pop r9, r8, rcx, rdx, rsi, rdi
        jmp     *%rax
        .cfi_endproc
        .size   gp_work_slow_way, .-gp_work_slow_way

        gp_end_of_file
