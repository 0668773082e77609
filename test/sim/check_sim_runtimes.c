/*
 * Runtimes of other major versions than that of the headers: each writes the structures of its own version,
 * and takes its own parameters. The sizes are those of NVIDIA's headers 11.8, 12.x and 13.0.
 */
#include "sim_test.h"

#include <dlfcn.h>
#include <driver_types.h>
#include <stddef.h>

#define ROOM   2048
#define MARK   0xa5
#define MAJORS 3

static const struct {
  int major;
  const char *name;
  size_t prop_bytes, multi_processor_count; /* of cudaDeviceProp, and where in it that member is */
  size_t pointer_bytes, function_bytes;     /* of cudaPointerAttributes and cudaFuncAttributes */
} runtimes[MAJORS] = {
    {11, "libcudart.so.11.0", 728, 388, 24, 56},
    {12, "libcudart.so.12", 1032, 388, 24, 144},
    {13, "libcudart.so.13", 1008, 384, 88, 144},
};

static void *library;
static unsigned char buffer[ROOM];

static void *function(const char *name)
{
  void *p = dlsym(library, name);
  ck_assert_msg(p != NULL, "no %s", name);
  return p;
}

static void load(int i)
{
  library = dlopen(runtimes[i].name, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  memset(buffer, MARK, sizeof buffer);
}

/* The bytes up to the last that was written */
static size_t written(void)
{
  size_t bytes = sizeof buffer;
  while (bytes > 0 && buffer[bytes - 1] == MARK)
    bytes--;
  return bytes;
}

static int int_at(size_t offset)
{
  int value;
  memcpy(&value, buffer + offset, sizeof value);
  return value;
}

static void expect_properties(const char *name, size_t bytes, size_t multi_processor_count)
{
  int (*get)(void *, int) = (int (*)(void *, int))function(name);
  memset(buffer, MARK, sizeof buffer);
  ck_assert_int_eq(get(buffer, 0), cudaSuccess);
  ck_assert_uint_eq(written(), bytes);
  ck_assert_int_eq(int_at(multi_processor_count), 132);
  ck_assert_int_eq(int_at(360), 9); /* major: all that was left out or added lies behind it */
}

START_TEST(test_device_properties)
{
  load(_i);
  if (runtimes[_i].major == 12) { /* programs of 11.x call it, too */
    expect_properties("cudaGetDeviceProperties", runtimes[0].prop_bytes, runtimes[0].multi_processor_count);
    expect_properties(
        "cudaGetDeviceProperties_v2", runtimes[_i].prop_bytes, runtimes[_i].multi_processor_count);
  } else {
    expect_properties("cudaGetDeviceProperties", runtimes[_i].prop_bytes, runtimes[_i].multi_processor_count);
    ck_assert_ptr_null(dlsym(library, "cudaGetDeviceProperties_v2"));
  }
}
END_TEST

/* The table of the simulator against the headers that it was built with */
START_TEST(test_layout_of_the_headers)
{
  load(MAJORS - 1);
  int (*get)(struct cudaDeviceProp *, int) =
      (int (*)(struct cudaDeviceProp *, int))function("cudaGetDeviceProperties");
  struct cudaDeviceProp prop;
  if (CUDA_VERSION < 13000)
    return;
  ck_assert_int_eq(get(&prop, 0), cudaSuccess);
  ck_assert_uint_eq(sizeof prop, runtimes[MAJORS - 1].prop_bytes);
  ck_assert_int_eq(prop.major, 9);
  ck_assert_int_eq(prop.warpSize, 32);
  ck_assert_int_eq(prop.maxGridSize[2], 65535);
  ck_assert_int_eq(prop.multiProcessorCount, 132);
  ck_assert_int_eq(prop.pciBusID, 1);
  ck_assert_int_eq(prop.l2CacheSize, 52428800);
  ck_assert_uint_eq(prop.sharedMemPerBlockOptin, 232448);
  ck_assert_uint_eq(prop.reservedSharedMemPerBlock, 1024);
  ck_assert_int_eq(prop.memoryPoolsSupported, 1);
  ck_assert_uint_eq(prop.memoryPoolSupportedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}
END_TEST

START_TEST(test_pointer_attributes)
{
  void *p;
  load(_i);
  int (*allocate)(void **, size_t) = (int (*)(void **, size_t))function("cudaMalloc");
  int (*get)(void *, const void *) = (int (*)(void *, const void *))function("cudaPointerGetAttributes");
  ck_assert_int_eq(allocate(&p, 4096), cudaSuccess);
  ck_assert_int_eq(get(buffer, p), cudaSuccess);
  ck_assert_uint_eq(written(), runtimes[_i].pointer_bytes);
  ck_assert_int_eq(int_at(0), cudaMemoryTypeDevice);
}
END_TEST

START_TEST(test_function_attributes)
{
  static const char image[64], kernel;
  load(_i);
  void **(*register_image)(const void *) = (void **(*)(const void *))function("__cudaRegisterFatBinary");
  void (*register_function)(void **, const void *, char *, const char *, int, void *, void *, void *, void *,
      int *) = (void (*)(void **, const void *, char *, const char *, int, void *, void *, void *, void *,
      int *))function("__cudaRegisterFunction");
  int (*get)(void *, const void *) = (int (*)(void *, const void *))function("cudaFuncGetAttributes");
  char name[] = "kernel";
  register_function(register_image(image), &kernel, name, name, -1, NULL, NULL, NULL, NULL, NULL);
  ck_assert_int_eq(get(buffer, &kernel), cudaSuccess);
  ck_assert_uint_le(written(), runtimes[_i].function_bytes);
  ck_assert_int_eq(int_at(24), 1024); /* maxThreadsPerBlock, after three sizes */
}
END_TEST

START_TEST(test_version)
{
  int version = 0;
  load(_i);
  int (*get)(int *) = (int (*)(int *))function("cudaRuntimeGetVersion");
  ck_assert_int_eq(get(&version), cudaSuccess);
  ck_assert_int_eq(version / 1000, runtimes[_i].major);
}
END_TEST

/*
 * Calls with the parameters of 11.x and 12.x. What a later version has beyond them would be read from
 * registers and the stack: this call leaves something there that must be neither read nor written.
 */
static int call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e)
{
  int (*p)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, ...) =
      (int (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, ...))function(name);
  return p(a, b, c, d, e, (uintptr_t)16, (uintptr_t)16, (uintptr_t)16);
}

START_TEST(test_parameters_of_older_versions)
{
  void *p, *stream, *graph = NULL, *executable = NULL, *entry = NULL;
  unsigned long long id = 0;
  int status = -1;
  load(_i);
  if (runtimes[_i].major >= 13)
    return;
  ck_assert_int_eq(call("cudaMallocManaged", (uintptr_t)&p, 4096, cudaMemAttachGlobal, 16, 16), cudaSuccess);
  ck_assert_int_eq(call("cudaMemAdvise", (uintptr_t)p, 4096, cudaMemAdviseSetReadMostly, 0, 16), cudaSuccess);
  ck_assert_int_eq(call("cudaMemPrefetchAsync", (uintptr_t)p, 4096, 0, 0, 16), cudaSuccess);
  ck_assert_int_eq(
      call("cudaMemPrefetchAsync", (uintptr_t)p, 4096, (uintptr_t)cudaCpuDeviceId, 0, 16), cudaSuccess);
  ck_assert_int_eq(call("cudaStreamCreate", (uintptr_t)&stream, 16, 16, 16, 16), cudaSuccess);
  ck_assert_int_eq(
      call("cudaStreamBeginCapture", (uintptr_t)stream, cudaStreamCaptureModeRelaxed, 16, 16, 16),
      cudaSuccess);
  ck_assert_int_eq(
      call("cudaStreamGetCaptureInfo", (uintptr_t)stream, (uintptr_t)&status, (uintptr_t)&id, 16, 16),
      cudaSuccess);
  ck_assert_int_eq(status, cudaStreamCaptureStatusActive);
  ck_assert_uint_ne(id, 0);
  ck_assert_int_eq(
      call("cudaStreamEndCapture", (uintptr_t)stream, (uintptr_t)&graph, 16, 16, 16), cudaSuccess);
  if (runtimes[_i].major == 11) {
    ck_assert_int_eq(
        call("cudaGraphInstantiate", (uintptr_t)&executable, (uintptr_t)graph, 16, 0, 0), cudaSuccess);
    ck_assert_int_eq(call("cudaGetDriverEntryPoint", (uintptr_t) "cuMemAlloc", (uintptr_t)&entry,
                         cudaEnableDefault, 16, 16),
        cudaSuccess);
    ck_assert_ptr_nonnull(entry);
  }
}
END_TEST

START_TEST(test_channel_description)
{
  load(_i);
  struct cudaChannelFormatDesc (*create)(int, int, int, int, enum cudaChannelFormatKind) =
      (struct cudaChannelFormatDesc(*)(int, int, int, int, enum cudaChannelFormatKind))function(
          "cudaCreateChannelDesc");
  struct cudaChannelFormatDesc desc = create(32, 16, 8, 0, cudaChannelFormatKindFloat);
  ck_assert_int_eq(desc.x, 32);
  ck_assert_int_eq(desc.y, 16);
  ck_assert_int_eq(desc.z, 8);
  ck_assert_int_eq(desc.w, 0);
  ck_assert_int_eq(desc.f, cudaChannelFormatKindFloat);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_runtimes");
  TCase *tests = tcase_create("runtimes");
  tcase_add_loop_test(tests, test_device_properties, 0, MAJORS);
  tcase_add_test(tests, test_layout_of_the_headers);
  tcase_add_loop_test(tests, test_pointer_attributes, 0, MAJORS);
  tcase_add_loop_test(tests, test_function_attributes, 0, MAJORS);
  tcase_add_loop_test(tests, test_version, 0, MAJORS);
  tcase_add_loop_test(tests, test_parameters_of_older_versions, 0, MAJORS);
  tcase_add_loop_test(tests, test_channel_description, 0, MAJORS);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
