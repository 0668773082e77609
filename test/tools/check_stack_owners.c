/*
 * Whose allocation a stack is. Each case is a stack as it is recorded, the innermost frame first, and what
 * the tool says of it.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "tools/read/native/snapshot_reader.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"

#define MOST_FRAMES 16

/* A frame: "function", "function@file:line", "function!module" or "!module". */
typedef struct stack {
  const char *frames[MOST_FRAMES];
  size_t bytes;
  const char *owner; /* NULL: not looked at */
} recorded_t;

static void write_frame(FILE *out, const char *text, int number)
{
  const char *module = strchr(text, '!'), *file = strchr(text, '@');
  const char *end = module ? module : file ? file : text + strlen(text);
  const char *line = file ? strrchr(file, ':') : NULL;

  fprintf(out, "{\"address\":%d,\"function\":\"%.*s\"", 4096 + number, (int)(end - text), text);
  if (file)
    fprintf(out, ",\"file\":\"%.*s\",\"line\":%s", (int)(line - file - 1), file + 1, line + 1);
  fprintf(out, ",\"module\":%d}", module ? number : -1);
}

/* A snapshot of these stacks, each of which asked for its bytes once. */
static gp_snapshot_t *snapshot_of(const recorded_t *stacks, size_t count, const char *command_line)
{
  char *text;
  size_t length;
  int number = 0;
  gp_snapshot_error_t error;
  FILE *out = open_memstream(&text, &length);

  ck_assert_ptr_nonnull(out);
  fprintf(out,
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"process\":{\"program\":\"/usr/bin/python3\",\"command_line\":[%s]},\"frames\":[",
      command_line);
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < MOST_FRAMES && stacks[i].frames[k]; k++, number++) {
      fputs(number ? "," : "", out);
      write_frame(out, stacks[i].frames[k], number);
    }
  }
  fputs("],\"modules\":[", out);
  number = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < MOST_FRAMES && stacks[i].frames[k]; k++, number++) {
      const char *module = strchr(stacks[i].frames[k], '!');
      fprintf(out, "%s{\"path\":\"%s\",\"build_id\":\"\",\"bias\":0,\"start\":0,\"end\":0}",
          number ? "," : "", module ? module + 1 : "");
    }
  }
  fputs("],\"stacks\":[", out);
  number = 0;
  for (size_t i = 0; i < count; i++) {
    fputs(i ? ",[" : "[", out);
    for (size_t k = 0; k < MOST_FRAMES && stacks[i].frames[k]; k++, number++)
      fprintf(out, "%s%d", k ? "," : "", number);
    fputs("]", out);
  }
  fputs("],\"passthrough\":[", out);
  for (size_t i = 0; i < count; i++)
    fprintf(out,
        "%s{\"address\":%zu,\"size\":%zu,\"stack\":%zu,\"device\":0,\"stream\":-1,\"block\":%zu,\"kind\":\"managed\",\"time_ns\":1}",
        i ? "," : "", (i + 1) << 40, stacks[i].bytes, i, i + 1);
  fputs("]}", out);
  ck_assert_int_eq(fclose(out), 0);
  gp_snapshot_t *snapshot = gp_snapshot_parse(text, length, ~0U, &error);
  ck_assert_msg(snapshot != NULL, "%s: %s", error.text, text);
  free(text);
  return snapshot;
}

static void expect(
    gp_snapshot_t *snapshot, const recorded_t *stacks, size_t count, const gp_owner_options_t *options)
{
  ck_assert_int_eq(gp_stack_owners_find(snapshot, options), 0);
  for (size_t i = 0; i < count; i++) {
    gp_owner_text_t text;
    char line[2048];
    if (!stacks[i].owner)
      continue;
    ck_assert(gp_stack_owner_text(snapshot, (int)i, &text));
    ck_assert_str_eq(gp_owner_describe(&text, line, sizeof(line)), stacks[i].owner);
  }
}

static void check_stacks(const recorded_t *stacks, size_t count)
{
  gp_snapshot_t *snapshot = snapshot_of(stacks, count, "\"python3\",\"-u\",\"/home/me/train.py\",\"x\"");
  expect(snapshot, stacks, count, NULL);
  gp_snapshot_destroy(snapshot);
}

#define PYTORCH_ALLOCATES                                                                                    \
  "torch::unwind::unwind()", "torch::CapturedTraceback::gather(bool, bool, bool)",                           \
      "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)",            \
      "at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::Allocator*)",               \
      "at::native::empty_cuda(c10::ArrayRef<long>)"

START_TEST(test_an_owner_is_the_users_line_of_python)
{
  static const recorded_t stacks[] = {
      {{PYTORCH_ALLOCATES, "at::_ops::_convolution::call(at::Tensor const&)",
           "at::_ops::conv2d::call(at::Tensor const&)",
           "torch::autograd::THPVariable_conv2d(_object*, _object*, _object*)",
           "_conv_forward@/opt/lib/python3.11/site-packages/torch/nn/modules/conv.py:456",
           "_PyEval_EvalFrameDefault",
           "_call_impl@/opt/lib/python3.11/site-packages/torch/nn/modules/module.py:1501",
           "step@/home/me/train.py:41", "<module>@/home/me/train.py:90", "_start"},
          1, "step train.py:41 (aten::conv2d)"},
      /* recorded without C++ */
      {{"_conv_forward@/opt/lib/python3.11/site-packages/torch/nn/modules/conv.py:456",
           "_call_impl@/opt/lib/python3.11/site-packages/torch/nn/modules/module.py:1501",
           "step@/home/me/train.py:41"},
          1, "step train.py:41 (_conv_forward)"},
      /* another package is the user's choice; Python's own is not */
      {{PYTORCH_ALLOCATES, "at::_ops::mm::call(at::Tensor const&)",
           "attend@/opt/lib/python3.11/site-packages/transformers/models/llama.py:7",
           "run@/usr/lib/python3.11/runpy.py:3", "<module>@/home/me/train.py:90"},
          1, "attend llama.py:7 (aten::mm)"},
      {{PYTORCH_ALLOCATES, "at::_ops::clone::call(at::Tensor const&)",
           "pin@/opt/lib/python3.11/site-packages/torch/utils/data/pin_memory.py:70",
           "run@/usr/lib/python3.11/threading.py:982", "clone3"},
          1, "pin pin_memory.py:70 (aten::clone)"},
      /* the engine that runs backward has no Python */
      {{PYTORCH_ALLOCATES, "at::_ops::mm::call(at::Tensor const&)",
           "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)",
           "torch::autograd::Engine::evaluate_function(int)",
           "torch::autograd::python::PythonEngine::thread_init(int)", "execute_native_thread_routine",
           "start_thread", "__xmknodat"},
          1, "torch::autograd::generated::MmBackward0::apply (aten::mm)"},
      {{PYTORCH_ALLOCATES, "at::_ops::ones::call(c10::ArrayRef<long>)",
           "Net::forward(at::Tensor)@/src/net.cpp:30", "main@/src/net.cpp:77"},
          1, "Net::forward(at::Tensor) net.cpp:30 (aten::ones)"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_compiled_models_kernels_and_the_interpreter_own_nothing)
{
  static const recorded_t stacks[] = {
      {{PYTORCH_ALLOCATES, "at::_ops::empty_strided::call(c10::ArrayRef<long>)",
           "torch::dynamo::(anonymous namespace)::_empty_strided_device(_object*, _object*, bool) [clone .isra.0]",
           "_PyEval_EvalFrameDefault", "call@/tmp/torchinductor_me/ab/cab.py:30",
           "dynamo_custom_eval_frame_shim@/torch/csrc/dynamo/eval_frame.c:2",
           "forward@/home/me/transformer.py:22"},
          1, "forward transformer.py:22 (aten::empty_strided)"},
      {{PYTORCH_ALLOCATES,
           "fmha_cutlassF_f32_notaligned_32x128_gmem_sm75(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
           "at::_ops::mm::call(at::Tensor const&)",
           "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "start_thread"},
          1, "torch::autograd::generated::MmBackward0::apply (aten::mm)"},
      {{"cudaMalloc", "load", "PyUnicode_Tailmatch", "tupledealloc", "PySys_WriteStderr",
           "PyObject_RichCompare.localalias", "binary_op1", "main@/src/own.c:3"},
          1, "load"},
      {{PYTORCH_ALLOCATES, "PyUnicode_Tailmatch", "PySys_WriteStderr", "subtype_dealloc"}, 1,
          "python3 train.py (Python frames are not recorded)"},
  };
  gp_snapshot_t *snapshot = snapshot_of(stacks, 3, "");
  ck_assert_int_eq(gp_stack_owners_find(snapshot, NULL), 0);
  size_t caller = gp_stack_next_user(snapshot, 2, gp_stack_owner_place(snapshot, 2));
  ck_assert_str_eq(snapshot->frames[snapshot->stacks.frame_indexes[caller]].function, "main");
  gp_snapshot_destroy(snapshot);
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_variants_of_a_function_have_its_name)
{
  static const recorded_t stacks[] = {
      {{"cudaMalloc", "load(int) [clone .isra.0] [clone .part.1]@/src/model.cu:12", "main"}, 1,
          "load(int) model.cu:12"},
      {{"cudaMalloc", "work.constprop.0.llvm.17104391946697789317", "main"}, 1, "work"},
      {{"cudaMalloc", "work.cold", "main"}, 1, "work"},
      {{"cudaMalloc", "Model.cold@/home/me/model.py:3"}, 1, "Model.cold model.py:3"},
      {{"cudaMalloc", "model.parts.7", "main"}, 1, "model.parts.7"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_what_only_hands_on_is_seen_through)
{
  static const recorded_t stacks[] = {
      {{"cudaMalloc", "gpu_alloc(unsigned long)@/src/b.h:9",
           "Buffer<float>::Buffer(unsigned long)@/src/b.h:20",
           "Buffer<float>* hand<Buffer<float> >(unsigned long)@/src/b.h:30",
           "Model::load(int)@/src/model.cu:12", "main@/src/model.cu:80"},
          1, "Model::load(int) model.cu:12 through hand<Buffer<float> >"},
      {{"cudaMalloc", "thrust::detail::allocate<int>(unsigned long)",
           "rmm::device_buffer::device_buffer(unsigned long)", "std::vector<int>::resize(unsigned long)",
           "cub::DeviceSort::run()", "Cache::grow()@/src/cache.cu:33", "main"},
          1, "Cache::grow() cache.cu:33"},
      /* a name that allocates, called by main: the line of main; real code that is a template stays */
      {{"cudaMalloc", "checked_malloc(unsigned long)@/src/b.h:9", "main@/src/model.cu:81"}, 1,
          "main model.cu:81 through checked_malloc"},
      {{"cudaMalloc", "void step<float>(float*)@/src/step.cu:9", "void run<float>()@/src/step.cu:70",
           "main@/src/model.cu:82"},
          1, "void step<float>(float*) step.cu:9"},
      {{"cudaMalloc", "main@/src/model.cu:83"}, 1, "main model.cu:83"},
      {{"cudaMalloc", "work(void*)@/src/work.c:5", "start_thread", "clone3"}, 1, "work(void*) work.c:5"},
      /* the workspace of a library is the program's that called it */
      {{"cudaMalloc!/usr/lib/libcudart.so.13", "!/usr/lib/libcublas.so.13",
           "cublasCreate_v2!/usr/lib/libcublas.so.13", "Model::begin()@/src/model.cu:5", "main"},
          1, "Model::begin() model.cu:5 through cublasCreate_v2"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_a_script_is_named_where_its_frames_are_not_recorded)
{
  static const recorded_t stacks[] = {
      {{"cudaMalloc!/usr/lib/libcudart.so.13", "!/usr/lib/libffi.so.8", "ffi_call!/usr/lib/libffi.so.8",
           "!/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "!/usr/bin/python3.11",
           "Py_BytesMain!/usr/bin/python3.11", "!/lib/libc.so.6", "_start!/usr/bin/python3.11"},
          1, "python3 train.py (Python frames are not recorded)"},
      {{"cudaMalloc", "at::native::empty_cuda(long)", "at::_ops::conv2d::call(int)", "THPVariable_x",
           "!/usr/bin/python3.11"},
          1, "python3 train.py (aten::conv2d; Python frames are not recorded)"},
      {{"cudaMalloc", "grow_cache!/home/me/fast.cpython-311-x86_64-linux-gnu.so", "!/usr/bin/python3.11"}, 1,
          "grow_cache"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_options_of_python_are_no_script)
{
  static const recorded_t stack = {
      {"cudaMalloc", "!/usr/bin/python3.11"}, 1, "python3 train.py (Python frames are not recorded)"};
  gp_snapshot_t *snapshot =
      snapshot_of(&stack, 1, "\"python3\",\"-u\",\"-X\",\"utf8\",\"/home/me/train.py\"");
  expect(snapshot, &stack, 1, NULL);
  gp_snapshot_destroy(snapshot);
}
END_TEST

START_TEST(test_code_as_an_argument_is_no_name)
{
  static const recorded_t stack = {
      {"cudaMalloc", "!/usr/bin/python3.11"}, 1, "python3 -c (Python frames are not recorded)"};
  gp_snapshot_t *snapshot = snapshot_of(&stack, 1, "\"python3\",\"-u\",\"-c\",\"import torch\\nrun()\"");
  expect(snapshot, &stack, 1, NULL);
  gp_snapshot_destroy(snapshot);
}
END_TEST

START_TEST(test_without_names_callers_tell_a_wrapper)
{
  static const recorded_t stacks[] = {
      {{"cudaMalloc!/usr/lib/libcudart.so.13", "take", "hold", "load", "main"}, 60, "load through hold"},
      {{"cudaMalloc!/usr/lib/libcudart.so.13", "take", "hold", "grow", "main"}, 30, "grow through hold"},
      {{"cudaMalloc!/usr/lib/libcudart.so.13", "scratch", "main"}, 5, "scratch"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

/* One of several callers is where the program or a thread begins; a single caller that is stays behind what
 * it called. */
START_TEST(test_main_may_be_one_of_several_callers)
{
  static const recorded_t stacks[] = {
      {{"cudaMalloc", "gpu@/src/b.c:14", "main@/src/b.c:30"}, 60, "main b.c:30 through gpu"},
      {{"cudaMalloc", "gpu@/src/b.c:14", "run@/src/b.c:34", "start_thread", "clone3"}, 30,
          "run b.c:34 through gpu"},
  };
  static const recorded_t one[] = {
      {{"cudaMalloc", "load@/src/b.c:14", "main@/src/b.c:30"}, 60, "load b.c:14"},
      {{"cudaMalloc", "load@/src/b.c:15", "main@/src/b.c:31"}, 30, "load b.c:15"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
  check_stacks(one, sizeof(one) / sizeof(one[0]));
}
END_TEST

START_TEST(test_a_python_function_that_allocates_hands_on)
{
  static const recorded_t stacks[] = {
      {{"torch::unwind::unwind()", "allocate@/home/me/backend.py:195", "__init__@/home/me/layer.py:7",
           "<module>@/home/me/train.py:9"},
          60, "__init__ layer.py:7 through allocate"},
      {{"torch::unwind::unwind()", "make_mask@/home/me/backend.py:30", "<module>@/home/me/train.py:12"}, 30,
          "make_mask backend.py:30"},
  };
  check_stacks(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
END_TEST

START_TEST(test_what_the_user_names_owns_nothing)
{
  char line[2048];
  gp_owner_text_t text;
  gp_patterns_t skip = {0};
  static const recorded_t stacks[] = {
      {{"cudaMalloc", "take@/src/pool/a.cu:3", "load()@/src/model.cu:12", "main@/src/model.cu:80"}, 1,
          "load() model.cu:12"}};
  gp_snapshot_t *snapshot = snapshot_of(stacks, 1, "");

  ck_assert(gp_patterns_add(&skip, "/src/pool/"));
  expect(snapshot, stacks, 1, &(gp_owner_options_t){.skip = &skip});
  ck_assert_int_eq(gp_stack_owner(snapshot, 0), 2);
  gp_patterns_fini(&skip);
  ck_assert_int_eq(gp_stack_owners_find(snapshot, &(gp_owner_options_t){.all_frames = true}), 0);
  ck_assert(gp_stack_owner_text(snapshot, 0, &text));
  ck_assert_str_eq(gp_owner_describe(&text, line, sizeof(line)), "cudaMalloc");
  gp_snapshot_destroy(snapshot);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stack_owners");
  TCase *owners = tcase_create("owners");
  tcase_add_test(owners, test_an_owner_is_the_users_line_of_python);
  tcase_add_test(owners, test_compiled_models_kernels_and_the_interpreter_own_nothing);
  tcase_add_test(owners, test_variants_of_a_function_have_its_name);
  tcase_add_test(owners, test_what_only_hands_on_is_seen_through);
  tcase_add_test(owners, test_a_script_is_named_where_its_frames_are_not_recorded);
  tcase_add_test(owners, test_options_of_python_are_no_script);
  tcase_add_test(owners, test_code_as_an_argument_is_no_name);
  tcase_add_test(owners, test_without_names_callers_tell_a_wrapper);
  tcase_add_test(owners, test_main_may_be_one_of_several_callers);
  tcase_add_test(owners, test_a_python_function_that_allocates_hands_on);
  tcase_add_test(owners, test_what_the_user_names_owns_nothing);
  suite_add_tcase(suite, owners);

  return gp_check_main(suite);
}
