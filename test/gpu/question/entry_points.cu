// G2: are the pointers of cuGetProcAddress the exported addresses, for every function that gpupool hooks or
// calls?
//
// Where they are, gpupool knows from the pointer which variant of a function a program was given; where they
// are not, the documented rule about versions decides. Asked with the version of each variant, as runtimes
// do.
#include "../common/gpu.h"

struct Entry {
  const char *symbol, *base;
  int since, per_thread;
};

static const Entry entries[] = {
#define ENTRY(symbol, base, since, per_thread, ...) {#symbol, #base, since, per_thread},
#define HOOK ENTRY
#define FORWARD_ALLOC ENTRY
#define FORWARD_FREE ENTRY
#define FORWARD_HIDDEN ENTRY
#include "interpose/routes/functions.def"
};

int main()
{
  start("entry_points", 30);
  typedef CUresult (*lookup_fn)(const char *, void **, int, cuuint64_t, void *);
  auto look_up = reinterpret_cast<lookup_fn>(driver_symbol("cuGetProcAddress_v2"));
  if (!look_up)
    report_skip("the driver has no cuGetProcAddress_v2 (it came with 12.0)");
  int version = driver_version(), asked = 0, equal = 0, absent = 0;
  std::string different, unexported;
  for (const Entry &entry : entries) {
    void *exported = driver_symbol(entry.symbol), *given = NULL;
    if (entry.since > version)
      continue;
    CUresult result = look_up(entry.base, &given, entry.since,
        entry.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        NULL);
    if (result != CUDA_SUCCESS || !given) {
      absent++;
      different += std::string(different.empty() ? "" : ", ") + entry.symbol + " (not given)";
      continue;
    }
    asked++;
    equal += given == exported;
    if (!exported)
      unexported += std::string(unexported.empty() ? "" : ", ") + entry.symbol;
    else if (given != exported)
      different += std::string(different.empty() ? "" : ", ") + entry.symbol;
  }
  report_number("driver version", version, "");
  report_number("functions asked for", asked, "");
  report_number("pointers equal to the export", equal, "");
  report_number("functions not given", absent, "");
  report_text("different", different.empty() ? "none" : different);
  report_text("not exported", unexported.empty() ? "none" : unexported);
  report_assumed("every pointer is the export", equal == asked && absent == 0, true,
      "else the rule about versions has to tell the variants apart");
  return report_finish();
}
