/*
 * The driver's names for our hooks, for programs that are linked to libcuda: a jump each. In assembly because
 * cuda.h declares the same names, in some versions with types that others lack. gp_export_NAME is the same
 * place under a name that nobody else can define: what the loader would make of NAME here may be another
 * library's.
 */
#include "interpose/hooks/hooks.h"
#include "interpose/sight/work.h"

#if defined(__x86_64__)
#define JUMP "endbr64\n\tjmp"
#else
#define JUMP "hint #34\n\tb" /* bti c */
#endif

#define HOOK(symbol, base, since, per_thread, parameters, arguments)                                         \
  __asm__("\t.text\n\t.globl " #symbol ", gp_export_" #symbol "\n\t.hidden gp_export_" #symbol               \
          "\n\t.type " #symbol ", %function\n" #symbol ":\ngp_export_" #symbol ":\n\t" JUMP " hook_" #symbol \
          "\n\t.size " #symbol ", .-" #symbol "\n");
#include "interpose/routes/functions.def"

#if GP_HAS_WORK_STUBS
#define WORK(symbol, base, since, per_thread, where)                                                         \
  __asm__("\t.text\n\t.globl " #symbol ", gp_export_" #symbol "\n\t.hidden gp_export_" #symbol               \
          "\n\t.type " #symbol ", %function\n" #symbol ":\ngp_export_" #symbol ":\n\t" JUMP                  \
          " gp_work_" #symbol "\n\t.size " #symbol ", .-" #symbol "\n");
#include "interpose/sight/work.def"
#endif

typedef int gp_exports_unused_t; /* ISO C wants a declaration */
