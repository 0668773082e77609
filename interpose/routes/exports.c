/* The hooks under the driver's names, for programs that are linked to libcuda or NVML: each is a jump. They
 * are in assembly because cuda.h declares the same names, in some versions with types that others lack. Each
 * has 16 bytes: libraries that patch functions in place write up to so many. */

#if defined(__x86_64__)
#define JUMP "endbr64\n\tjmp"
#else
#define JUMP "hint #34\n\tb" /* bti c */
#endif

#define EXPORT(symbol, target)                                                                               \
  __asm__("\t.text\n\t.p2align 4\n\t.globl " symbol "\n\t.type " symbol ", %function\n" symbol ":\n\t" JUMP  \
          " " target "\n\t.size " symbol ", .-" symbol "\n");

#define HOOK(symbol, base, since, per_thread, parameters) EXPORT(#symbol, "hook_" #symbol)
#include "interpose/routes/functions.def"

#define NVML(symbol, type) EXPORT(#symbol, "hook_" #symbol)
#include "interpose/hooks/nvml.def"

typedef int gp_exports_unused_t; /* ISO C wants a declaration */
