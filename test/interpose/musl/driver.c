/* As much of a CUDA driver as program.c calls, for musl: none is made for it. */
int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *ret_address, unsigned long bytes);
int cuMemFree_v2(unsigned long long address);

int cuInit(unsigned flags)
{
  return flags == 0 ? 0 : 1;
}

int cuMemAlloc_v2(unsigned long long *ret_address, unsigned long bytes)
{
  *ret_address = 0x10000 + bytes;
  return 0;
}

int cuMemFree_v2(unsigned long long address)
{
  return address == 0x10000 + 4096 ? 0 : 1;
}
