/*
 * Stands for CUPTI, by the name that it is given: looks the driver up as that does.
 */
#include <dlfcn.h>
#include <stddef.h>

int tool_main(void);
int tool_main(void)
{
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver && dlsym(driver, "cuGetExportTable") != NULL;
}
