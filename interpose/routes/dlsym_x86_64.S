/*
 * dlsym, for programs that resolve the driver at run time.
 *
 * The C library's dlsym learns from its return address who calls: RTLD_NEXT means the next object after the caller,
 * and the caller's namespace and search path apply. So the real one is reached by a jump that leaves the return
 * address and the arguments as they are. Exported without a version: that satisfies references to dlsym@GLIBC_2.2.5 and
 * to dlsym@GLIBC_2.34 alike.
 */
        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp                /* the call below wants the stack aligned to 16 bytes */
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rdx          /* the caller of dlsym */
        call    gp_dlsym_decide
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
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

        .section .note.GNU-stack, "", @progbits
        .section .note.gnu.property, "a"        /* endbr64 stands at every indirect target: IBT and SHSTK hold */
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3
        .p2align 3
