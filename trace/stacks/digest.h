/* Digests of 64 bits by which stacks and code objects are known. */
#ifndef GP_TRACE_DIGEST_H
#define GP_TRACE_DIGEST_H

#include <stdint.h>

#define GP_DIGEST_SEED UINT64_C(0xa0761d6478bd642f)

/* Multiplies to 128 bits and folds: each bit of the result depends on all of both. */
static inline uint64_t gp_digest_fold(uint64_t a, uint64_t b)
{
  __extension__ typedef unsigned __int128 wide_t;
  wide_t product = (wide_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
