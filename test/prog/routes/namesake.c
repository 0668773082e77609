/*
 * A library that is no driver and has a function of a driver's name, with other arguments.
 */
int cuMemAlloc_v2(int a);
int cuMemAlloc_v2(int a)
{
  return a + 1;
}
