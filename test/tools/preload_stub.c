/*
 * A library that can be preloaded and does nothing.
 */
int preload_stub(void);

int preload_stub(void)
{
  return 0;
}
