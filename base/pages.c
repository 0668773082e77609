#include "base/pages.h"

#if GP_DEBUG_LEVEL >= 1
_Atomic size_t gp_pages_held_bytes;
#endif
