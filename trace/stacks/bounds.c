#include "trace/stacks/bounds.h"

gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info)
{
  gp_bounds_t bounds = {.start = UINTPTR_MAX, .end = 0};

  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD)
      continue;
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    uintptr_t end = start + segment->p_memsz;
    bounds.start = start < bounds.start ? start : bounds.start;
    bounds.end = end > bounds.end ? end : bounds.end;
  }
  return bounds;
}
