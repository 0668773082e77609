/* Exports the hooks under the driver's names, for programs that are linked to libcuda or NVML: each export is
 * a jump. The exports are in assembly because cuda.h declares the same names, in some versions with types
 * that other versions lack. Each export has 16 bytes, because libraries that patch functions in place
 * overwrite up to 16. */

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

typedef int gp_exports_unused_t; /* ISO C requires a declaration */
