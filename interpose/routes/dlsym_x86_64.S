/*
 * dlsym, for programs that resolve the driver at run time.
 *
 * The C library's dlsym finds its caller by the return address: RTLD_NEXT means the next object after the
 * caller, and the caller's namespace and search path apply. So this jumps to the real one, with return
 * address and arguments unchanged. It is exported without a version, which satisfies references to
 * dlsym@GLIBC_2.2.5 as well as to dlsym@GLIBC_2.34.
 */
#include "interpose/routes/save_x86_64.h"

        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        gp_push rdi, rsi
        gp_reserve 8                    /* the call below needs the stack aligned to 16 bytes */
        movq    24(%rsp), %rdx          /* the caller of dlsym */
        call    gp_dlsym_decide
        gp_unreserve 8
        gp_pop rsi, rdi
        testq   %rax, %rax
        jz      .Lforward
        cmpq    $-1, %rax               /* GP_DLSYM_NONE */
        je      .Lnone
        ret
.Lnone:
        xorl    %eax, %eax
        ret
.Lforward:
        jmp     *gp_dlsym_next(%rip)
        .cfi_endproc
        .size   dlsym, .-dlsym

        gp_end_of_file
