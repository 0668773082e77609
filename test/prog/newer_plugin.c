/*
 * A library that is linked to a function of the driver which is newer than the headers.
 */
int FUNCTION(void);

void *plugin_function(void);

void *plugin_function(void)
{
  return (void *)FUNCTION;
}
