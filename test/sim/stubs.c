/*
 * Entry points that are exported but not modelled. This file leaves cuda.h out: the arguments are ignored, so
 * one shape of function serves for all (the caller passes them in registers or on its own stack).
 */
enum {
#define SIM_API(name, base, since, flags) INDEX_##name,
#include "api.def"
#undef SIM_API
};

int sim_stub_call(int api);

#define SIM_API(name, base, since, flags)
#define SIM_STUB(name, base, since, flags)                                                                   \
  int name(void);                                                                                            \
  int name(void)                                                                                             \
  {                                                                                                          \
    return sim_stub_call(INDEX_##name);                                                                      \
  }
#include "api.def"
