#include "interpose/routes/detour.h"

#include <stddef.h>

#if defined(__x86_64__)

bool gp_detour_is_likely(uint64_t first_bytes)
{
  static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  unsigned char bytes[sizeof(first_bytes)];
  size_t i = 0;

  memcpy(bytes, &first_bytes, sizeof(bytes));
  if (memcmp(bytes, endbr64, sizeof(endbr64)) == 0)
    i = sizeof(endbr64);
  bool is_jump = bytes[i] == 0xe9 || bytes[i] == 0xeb || (bytes[i] == 0xff && bytes[i + 1] == 0x25);
  bool loads_target = (bytes[i] & 0xfe) == 0x48 && (bytes[i + 1] & 0xf8) == 0xb8; /* movabs, then a jump */
  bool pushes_target = bytes[i] == 0x68;                                          /* push, then a return */
  bool is_breakpoint = bytes[i] == 0xcc;
  return is_jump || loads_target || pushes_target || is_breakpoint;
}

#else

bool gp_detour_is_likely(uint64_t first_bytes)
{
  static const uint32_t bti_c = 0xd503245f;
  uint32_t first = (uint32_t)first_bytes;
  uint32_t code = first == bti_c ? (uint32_t)(first_bytes >> 32) : first;

  bool is_jump = (code & 0xfc000000) == 0x14000000;
  bool loads_target = (code & 0xfffffffe) == 0x58000050; /* ldr x16 or x17, then a jump */
  bool is_breakpoint = (code & 0xffe0001f) == 0xd4200000;
  return is_jump || loads_target || is_breakpoint;
}

#endif
