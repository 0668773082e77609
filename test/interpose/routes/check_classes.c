/*
 * What the library takes a function for (interpose/routes/classes.c) that it does not hook: by the table, by
 * the family of a newer variant, by its name.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "interpose/cuda_abi.h"
#include "interpose/routes/classes.h"
#include "test/pool/check_main.h"

typedef enum kind {
#define KIND(class, modes, effect) KIND_##class,
#include "interpose/routes/classes.def"
} kind_t;

static const gp_effect_t effects[] = {
#define KIND(class, modes, effect) [KIND_##class] = GP_EFFECT_##effect,
#include "interpose/routes/classes.def"
};

static const struct {
  const char *symbol;
  int since;
  kind_t kind;
} entries[] = {
#define CLASS(symbol, since, kind) {#symbol, since, KIND_##kind},
#include "interpose/routes/classes.def"
};

START_TEST(test_each_of_the_table)
{
  int unsure = 0;
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
    const char *symbol = entries[i].symbol;
    bool is_unsure = entries[i].kind == KIND_UNSURE;
    ck_assert_msg(gp_class_is_known(symbol) == !is_unsure, "%s", symbol);
    ck_assert_msg(gp_class_has_family(symbol), "%s", symbol);
    if (is_unsure) {
      ck_assert_msg(gp_class_is_unsure(symbol, entries[i].since), "%s", symbol);
      ck_assert_msg(!gp_class_is_unsure(symbol, entries[i].since - 1), "%s", symbol);
      unsure++;
    } else {
      ck_assert_msg(!gp_class_is_unsure(symbol, entries[i].since), "%s", symbol);
    }
  }
  ck_assert_int_gt(unsure, 0);
}
END_TEST

static bool has_variants(const char *symbol)
{
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
    if (strncmp(entries[i].symbol, symbol, strlen(symbol)) == 0 && entries[i].symbol[strlen(symbol)] == '_')
      return true;
  return false;
}

/* Of a function that the table has one of: a newer variant does the same. */
START_TEST(test_newer_variants)
{
  static const char *const suffixes[] = {"", "_ptsz", "_ptds"};
  int found = 0;
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
    char newer[128];
    if (strchr(entries[i].symbol, '_') || has_variants(entries[i].symbol))
      continue;
    (void)snprintf(newer, sizeof(newer), "%s_v9%s", entries[i].symbol, suffixes[i % 3]);
    ck_assert_msg(!gp_class_is_known(newer) && gp_class_has_family(newer), "%s", newer);
    ck_assert_msg(gp_class_effect(newer) == effects[entries[i].kind], "%s", newer);
    found++;
  }
  ck_assert_int_gt(found, 100);
  ck_assert(!gp_class_has_family("cuMemAllo"));
  ck_assert(!gp_class_has_family("cuMemAllocator"));
  ck_assert(!gp_class_has_family(NULL));
  ck_assert(!gp_class_is_known(NULL));
}
END_TEST

/* cudaGL.h, cudaEGL.h and cudaVDPAU.h; the rest has names that CUDA may use one day. */
static const struct {
  const char *name;
  gp_effect_t effect;
} by_name[] = {
    {"cuGetProcAddressAnew", GP_EFFECT_ENDS},
    {"cuNewMemFree", GP_EFFECT_ENDS},
    {"cuMemBatchFreeAsync", GP_EFFECT_ENDS},
    {"cuStreamCaptureAnew", GP_EFFECT_CAPTURE},
    {"cuNewCapture", GP_EFFECT_ENDS},
    {"cuNewCtxDestroy", GP_EFFECT_ENDS},
    {"cuNewCtxDetach", GP_EFFECT_ENDS},
    {"cuNewCtxRelease", GP_EFFECT_ENDS},
    {"cuNewCtxReset", GP_EFFECT_ENDS},
    {"cuGLCtxCreate", GP_EFFECT_CONTEXT},
    {"cuGLCtxCreate_v2", GP_EFFECT_CONTEXT},
    {"cuVDPAUCtxCreate", GP_EFFECT_CONTEXT},
    {"cuVDPAUCtxCreate_v2", GP_EFFECT_CONTEXT},
    {"cuNewCtx", GP_EFFECT_ANYTHING},
    {"cuGraphicsGLRegisterBuffer", GP_EFFECT_NONE},
    {"cuGraphicsGLRegisterImage", GP_EFFECT_NONE},
    {"cuGraphicsEGLRegisterImage", GP_EFFECT_NONE},
    {"cuGraphicsVDPAURegisterVideoSurface", GP_EFFECT_NONE},
    {"cuGraphicsVDPAURegisterOutputSurface", GP_EFFECT_NONE},
    {"cuGraphicsResourceGetMappedEglFrame", GP_EFFECT_NONE},
    {"cuGLInit", GP_EFFECT_NONE},
    {"cuGLGetDevices", GP_EFFECT_NONE},
    {"cuGLGetDevices_v2", GP_EFFECT_NONE},
    {"cuVDPAUGetDevice", GP_EFFECT_NONE},
    {"cuGLMapBufferObject", GP_EFFECT_WORK},
    {"cuGLMapBufferObjectAsync_v2", GP_EFFECT_WORK},
    {"cuGLUnmapBufferObject", GP_EFFECT_WORK},
    {"cuGLRegisterBufferObject", GP_EFFECT_WORK},
    {"cuEGLStreamConsumerAcquireFrame", GP_EFFECT_WORK},
    {"cuEGLStreamProducerPresentFrame", GP_EFFECT_WORK},
    {"cuEventCreateFromEGLSync", GP_EFFECT_WORK},
    {"cuDeviceGetAnew", GP_EFFECT_NONE},
    {"cuDriverGetAnew", GP_EFFECT_NONE},
    {"cuGetErrorAnew", GP_EFFECT_NONE},
    {"cuVDPAUAnew", GP_EFFECT_ANYTHING},
    {"cuAnew", GP_EFFECT_ANYTHING},
};

START_TEST(test_by_name)
{
  for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++) {
    ck_assert_msg(!gp_class_is_known(by_name[i].name), "%s", by_name[i].name);
    ck_assert_msg(gp_class_effect(by_name[i].name) == by_name[i].effect, "%s", by_name[i].name);
  }
}
END_TEST

START_TEST(test_frees)
{
  static const struct {
    const char *name;
    gp_frees_t frees;
  } names[] = {
      {"cuMemFree", GP_FREES_POINTER},
      {"cuMemFree_v3", GP_FREES_POINTER},
      {"cuMemFree_v3_ptsz", GP_FREES_POINTER},
      {"cuMemFreeAsync", GP_FREES_OTHERWISE},
      {"cuMemFreeAsync_v2_ptsz", GP_FREES_OTHERWISE},
      {"cuMemFreeHost_v2", GP_FREES_OTHERWISE},
      {"cuMemBatchFreeAsync", GP_FREES_OTHERWISE},
      {"cuMemAddressFree_v2", GP_FREES_OTHERWISE},
      {"cuMemUnmap_v2", GP_FREES_OTHERWISE},
      {"cuMemAlloc_v3", GP_FREES_NOTHING},
      {"cuMemRelease_v2", GP_FREES_NOTHING}, /* a handle is no address */
      {"cuAnew", GP_FREES_NOTHING},
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    ck_assert_msg(gp_class_frees(names[i].name) == names[i].frees, "%s", names[i].name);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("classes");
  TCase *classes = tcase_create("classes");
  tcase_add_test(classes, test_each_of_the_table);
  tcase_add_test(classes, test_newer_variants);
  tcase_add_test(classes, test_by_name);
  tcase_add_test(classes, test_frees);
  suite_add_tcase(suite, classes);
  return gp_check_main(suite);
}
