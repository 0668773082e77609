/*
 * Exported by NVIDIA's runtime, not modelled here: cudaErrorNotSupported. This file leaves the CUDA headers
 * out, so one shape of function serves for all.
 */
#define RT_STUB(name)                                                                                        \
  int name(void);                                                                                            \
  int name(void)                                                                                             \
  {                                                                                                          \
    return 801;                                                                                              \
  }
#include "rt_stubs.def"
