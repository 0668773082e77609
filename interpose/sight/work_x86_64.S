/*
 * The stubs of work.def. Each puts the stream into %rax, stores the mark and jumps to the driver's function, with
 * arguments, stack and return address as they were: no frame, and the driver's result is the caller's.
 *
 * The mark is at a place that bits 4 to 15 of the handle give, 16 bytes each: the state, and the handle that owns it.
 * Anything else than a match takes the slow way, which is C: a stream that was not followed, no submitter of this thread
 * yet, a per-thread stream. Order: the submitter first, then the flag (pool/reuse/work_flags.h says why).
 *
 * %rax, %r10 and %r11 are free at the entry of a function that is not variadic (System V ABI, AMD64, 3.2.3).
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
        .macro gp_work_flag name, per_thread
        .if \per_thread
        testq   %rax, %rax
        jz      9f
        .endif
        movl    %eax, %r10d
        andl    $0xfff0, %r10d
        leaq    gp_work_flags(%rip), %r11
        addq    %r11, %r10
        cmpq    %rax, 8(%r10)
        jne     9f
        movq    gp_own_submitter@gottpoff(%rip), %r11
        movq    %fs:(%r11), %r11
        testq   %r11, %r11
        jz      9f
        movq    %r10, (%r11)
        movl    $1, (%r10)              /* GP_WORK_FLAG_DIRTY */
        jmp     *gp_real_functions + 8 * gp_function(%rip)
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
/* No stream at all: never a match, so that all go the slow way. */
#define LOAD_MANY       movq $-2, %rax

#define WORK(symbol, base, since, per_thread, where)                                                                   \
        gp_stub symbol; endbr64; LOAD_##where; gp_work_flag symbol, per_thread
#include "interpose/sight/work.def"

/*
 * %rax: stream, %r11d: function. gp_work_slow(stream, function) marks, and returns what to jump to.
 * At the entry of a stub the stack is 8 bytes off its alignment.
 */
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
