/* A tool that NVTX loads: counts the ranges of threads, and says how many there were. Its levels count from
 * 100. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static int pushes, level = 100;

static int push(const char *text)
{
  (void)text;
  pushes++;
  return level++;
}

static int pop(void)
{
  return --level;
}

static void say(void) __attribute__((destructor));

static void say(void)
{
  if (pushes)
    printf("the tool saw %d\n", pushes);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export)
{
  const NvtxExportTableCallbacks *callbacks = export(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, NULL))
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
