/*
 * A program, or with ROUTE_PLUGIN a plug-in, that is linked to libcuda: the dynamic linker finds the
 * functions.
 */
#include "work.h"

#define DECLARE(member, base, version, exported, twin, parameters)                                           \
  extern CUresult CUDAAPI linked_##member parameters __asm__(ROUTE_NAME(exported, twin));
ROUTE_FUNCTIONS(DECLARE)

#ifdef ROUTE_PLUGIN
int route_main(void);
int route_main(void)
#else
int main(void)
#endif
{
  static const route_t route = {
#define LINKED(member, base, version, exported, twin, parameters) .member = linked_##member,
      ROUTE_FUNCTIONS(LINKED)};
  return route_work(&route, "route_linked");
}
