/*
 * A library that is linked to a function of the driver which is newer than the headers: it takes its address,
 * or, with CALLS, it only calls it. The loader has different tables for the two.
 */
#ifdef CALLS
int FUNCTION(unsigned long long pointer, unsigned long long flags);

static int call(unsigned long long pointer, unsigned long long flags)
{
  return FUNCTION(pointer, flags);
}
#define GIVEN call
#else
int FUNCTION(void);
#define GIVEN FUNCTION
#endif

void *plugin_function(void);

void *plugin_function(void)
{
  return (void *)GIVEN;
}
