/*
 * A driver with three functions: of everything else that the library looks for it has nothing.
 */
typedef int CUresult;

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes);

CUresult cuInit(unsigned flags)
{
  return (int)flags;
}

CUresult cuDriverGetVersion(int *version)
{
  *version = 4000;
  return 0;
}

CUresult cuMemAlloc_v2(unsigned long long *pointer, unsigned long bytes)
{
  *pointer = 0x10000 + bytes;
  return 0;
}
