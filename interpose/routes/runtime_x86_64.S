/*
 * The runtime's functions that this library exports, too (runtime.def).
 *
 * C code decides. Either it has served the call, and the result is 0 (cudaSuccess); or it names a function,
 * to which the stub jumps with the arguments and the return address unchanged. So nothing shows between the
 * program and the runtime, least of all to unwinders.
 */
#include "interpose/routes/save_x86_64.h"

        .macro  gp_runtime_stub symbol, decide
        .globl  \symbol
        .type   \symbol, @function
        .p2align 4
\symbol:
        .cfi_startproc
        endbr64
        gp_push rbp                     /* a free may record stacks, by frame pointers, too */
        movq    %rsp, %rbp
        gp_push rdi, rsi, rdx
        gp_reserve 8                    /* the call below needs the stack aligned to 16 bytes */
        movq    8(%rbp), %rcx           /* the caller */
        call    \decide
        gp_unreserve 8
        gp_pop  rdx, rsi, rdi, rbp
        testq   %rax, %rax
        jz      1f
        jmp     *%rax
1:      ret
        .cfi_endproc
        .size   \symbol, .-\symbol
        .endm

#define RUNTIME(symbol) gp_runtime_stub symbol, gp_runtime_##symbol

        .text
#include "interpose/routes/runtime.def"

        gp_end_of_file
