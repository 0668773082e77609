#include "tools/optional_library.h"

#include <dlfcn.h>

#include "tools/optional_headers.h"

#if GP_HAVE_ZLIB
#include <zlib.h>
#endif
#if GP_HAVE_ZSTD
#include <zstd.h>
#endif

#if GP_HAVE_ZLIB
#define ZLIB(FUNCTION)                                                                                       \
  FUNCTION(int, inflateInit2_, (z_streamp stream, int bits, const char *version, int size),                  \
      (stream, bits, version, size))                                                                         \
  FUNCTION(int, inflate, (z_streamp stream, int flush), (stream, flush))                                     \
  FUNCTION(int, inflateReset, (z_streamp stream), (stream))                                                  \
  FUNCTION(int, inflateEnd, (z_streamp stream), (stream))                                                    \
  FUNCTION(int, deflateInit_, (z_streamp stream, int level, const char *version, int size),                  \
      (stream, level, version, size))                                                                        \
  FUNCTION(int, deflate, (z_streamp stream, int flush), (stream, flush))                                     \
  FUNCTION(int, deflateEnd, (z_streamp stream), (stream))

ZLIB(GP_OPTIONAL_DEFINE)
#endif

bool gp_zlib_open(void)
{
#if GP_HAVE_ZLIB
  static const gp_optional_function_t functions[] = {ZLIB(GP_OPTIONAL_PLACE)};
  return real_inflate ||
         gp_optional_library_open("libz.so.1", functions, sizeof(functions) / sizeof(functions[0]));
#else
  return false;
#endif
}

#if GP_HAVE_ZSTD
#define ZSTD(FUNCTION)                                                                                       \
  FUNCTION(ZSTD_DStream *, ZSTD_createDStream, (void), ())                                                   \
  FUNCTION(size_t, ZSTD_decompressStream, (ZSTD_DStream * stream, ZSTD_outBuffer * out, ZSTD_inBuffer * in), \
      (stream, out, in))                                                                                     \
  FUNCTION(unsigned, ZSTD_isError, (size_t result), (result))                                                \
  FUNCTION(size_t, ZSTD_freeDStream, (ZSTD_DStream * stream), (stream))

ZSTD(GP_OPTIONAL_DEFINE)
#endif

bool gp_zstd_open(void)
{
#if GP_HAVE_ZSTD
  static const gp_optional_function_t functions[] = {ZSTD(GP_OPTIONAL_PLACE)};
  return real_ZSTD_isError ||
         gp_optional_library_open("libzstd.so.1", functions, sizeof(functions) / sizeof(functions[0]));
#else
  return false;
#endif
}

bool gp_optional_library_open(const char *file, const gp_optional_function_t *functions, size_t count)
{
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

  if (!library)
    return false;
  for (size_t i = 0; i < count; i++) {
    if (!dlsym(library, functions[i].name))
      return false;
  }
  for (size_t i = 0; i < count; i++)
    *functions[i].place = dlsym(library, functions[i].name);
  return true;
}
