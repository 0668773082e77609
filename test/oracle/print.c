/*
 * A program in words, and as C.
 */
#include "program.h"

#include <string.h>

static void print_lane(FILE *file, int lane)
{
  if (lane < CTXS)
    fprintf(file, " legacy(ctx%d)", lane);
  else if (lane < LANE_CREATED)
    fprintf(file, " own_of_thread%d(ctx%d)", (lane - CTXS) % THREADS, (lane - CTXS) / THREADS);
  else
    fprintf(file, " s%d", lane - LANE_CREATED);
}

void print_steps(FILE *file, const program_t *program)
{
  int inside = 0;
  for (int i = 0; i < program->count; i++) {
    const step_t *step = &program->steps[i];
    unsigned flags = step_infos[step->kind].flags;
    fprintf(file, "%3d: %sthread %d: %s", i, inside ? "    " : "", step->thread, step_infos[step->kind].name);
    if (flags & F_MEM)
      fprintf(file, " m%d", step->mem);
    if (flags & F_SOURCE)
      fprintf(file, " from m%d", step->mem2);
    if (step->kind == STEP_ALLOC || step->kind == STEP_ALLOC_ASYNC)
      fprintf(file, " %u bytes", step->bytes);
    if (flags & F_EVENT)
      fprintf(file, " e%d", step->event);
    if (flags & F_GRAPH)
      fprintf(file, " g%d", step->graph);
    if (flags & F_WAIT)
      fprintf(file, " w%d", step->wait);
    if (flags & F_LANE)
      print_lane(file, step->lane);
    if (step->kind == STEP_STREAM_CREATE && step->flags)
      fprintf(file, " non-blocking");
    if (flags & F_CTX)
      fprintf(file, " ctx%d", step->ctx);
    if (inside)
      inside--;
    if (step->inside) {
      inside = step->inside;
      fprintf(file, "; at its moment %d:", step->moment);
    }
    fputc('\n', file);
  }
}

/* ---- C ---- */

/* What programs with kernels that wait need besides; the others have the empty one. */
static const char find_waits[] =
    "static CUfunction busy[3], waits[3], meets[3];\n"
    "static volatile uint32_t flags[32], cells[32];\n"
    "static void (*simcuda_late)(uint64_t), (*simcuda_writes)(const volatile void *);\n"
    "\n"
    "static void find_further(int c, CUmodule module)\n"
    "{\n"
    "  CUfunction empty;\n"
    "  *(void **)&simcuda_late = dlsym(RTLD_DEFAULT, \"simcuda_late\");\n"
    "  *(void **)&simcuda_writes = dlsym(RTLD_DEFAULT, \"simcuda_writes\");\n"
    "  OK(cuModuleGetFunction(&waits[c], module, \"simcuda_wait\"));\n"
    "  OK(cuModuleGetFunction(&busy[c], module, \"simcuda_busy\"));\n"
    "  OK(cuModuleGetFunction(&meets[c], module, \"simcuda_meet\"));\n"
    "  OK(cuModuleGetFunction(&empty, module, \"empty\"));\n"
    "}\n"
    "\n"
    "static void launch_busy(CUfunction f, CUstream stream, uint64_t ns)\n"
    "{\n"
    "  void *params[] = {&ns};\n"
    "  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));\n"
    "}\n"
    "\n"
    "static void launch_wait(CUfunction f, volatile uint32_t *where, CUstream stream)\n"
    "{\n"
    "  uint64_t address = (uintptr_t)where, parties = 2;\n"
    "  void *params[] = {&address, &parties};\n"
    "  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));\n"
    "}\n"
    "\n";
static const char find_none[] = "static void find_further(int c, CUmodule module)\n{\n}\n\n";

static const char prologue[] =
    "#define __CUDA_API_VERSION_INTERNAL\n"
    "#include <cuda.h>\n"
    "#include <dlfcn.h>\n"
    "#include <stdint.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "\n"
    "#define OK(call) ok(call, #call)\n"
    "static void ok(CUresult result, const char *call)\n"
    "{\n"
    "  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)\n"
    "    return;\n"
    "  printf(\"%s: %d\\n\", call, (int)result);\n"
    "  exit(1);\n"
    "}\n"
    "\n"
    "static CUcontext ctx[3];\n"
    "static CUfunction fill[3], expect[3];\n"
    "static unsigned char *pinned[3], registered[3][512] __attribute__((aligned(4096)));\n"
    "static CUdeviceptr managed[3];\n"
    "static void (*simcuda_own)(uint64_t, uint64_t, uint64_t), (*simcuda_disown)(uint64_t), (*simcuda_step)(uint64_t);\n"
    "static void (*simcuda_seed)(uint64_t);\n"
    "\n";

/* Of driver 14.0; others do not have them. The library may refuse such a free. */
static const char frees[] =
    "static CUresult free_newest(CUdeviceptr address)\n"
    "{\n"
    "  CUresult (*find)(CUdeviceptr, unsigned long long) = dlsym(RTLD_DEFAULT, \"cuMemFree_v3\");\n"
    "  CUresult result = find ? find(address, 0) : CUDA_ERROR_NOT_SUPPORTED;\n"
    "  return result == CUDA_ERROR_NOT_SUPPORTED ? cuMemFree_v2(address) : result;\n"
    "}\n"
    "\n"
    "static CUresult free_async_newest(CUdeviceptr address, CUstream stream)\n"
    "{\n"
    "  CUresult (*find)(CUdeviceptr, CUstream, unsigned long long) = dlsym(RTLD_DEFAULT, \"cuMemFreeAsync_v2\");\n"
    "  CUresult result = find ? find(address, stream, 0) : CUDA_ERROR_NOT_SUPPORTED;\n"
    "  return result == CUDA_ERROR_NOT_SUPPORTED ? cuMemFreeAsync(address, stream) : result;\n"
    "}\n"
    "\n";

static const char functions[] =
    "static void create(int c)\n"
    "{\n"
    "  CUmodule module;\n"
    "  OK(c == 2 ? cuCtxCreate_v2(&ctx[c], 0, 0) : cuDevicePrimaryCtxRetain(&ctx[c], c));\n"
    "  OK(cuCtxSetCurrent(ctx[c]));\n"
    "  OK(cuModuleLoadData(&module, \"no image\"));\n"
    "  OK(cuModuleGetFunction(&fill[c], module, \"simcuda_fill\"));\n"
    "  OK(cuModuleGetFunction(&expect[c], module, \"simcuda_expect\"));\n"
    "  find_further(c, module);\n"
    "  pinned[c] = NULL;\n"
    "  for (int i = 0; i < 2 && c < 2 && ctx[0] && ctx[1]; i++) {\n"
    "    OK(cuCtxSetCurrent(ctx[i]));\n"
    "    OK(cuCtxEnablePeerAccess(ctx[1 - i], 0));\n"
    "  }\n"
    "}\n"
    "\n"
    "/* A free is legal with any context current, so the thread's own stays. */\n"
    "static void enter_any(void)\n"
    "{\n"
    "  CUcontext now = NULL;\n"
    "  int c;\n"
    "  cuCtxGetCurrent(&now);\n"
    "  for (c = 0; c < 3 && !(now && ctx[c] == now); c++)\n"
    "    ;\n"
    "  if (c == 3)\n"
    "    for (c = 0; c < 2 && !ctx[c]; c++)\n"
    "      ;\n"
    "  OK(cuCtxSetCurrent(ctx[c]));\n"
    "}\n"
    "\n"
    "static void places(int c)\n"
    "{\n"
    "  if (pinned[c])\n"
    "    return;\n"
    "  OK(cuMemHostAlloc((void **)&pinned[c], 512, CU_MEMHOSTALLOC_DEVICEMAP));\n"
    "  OK(cuMemHostRegister_v2(registered[c], 512, 0));\n"
    "  OK(cuMemAllocManaged(&managed[c], 512, CU_MEM_ATTACH_GLOBAL));\n"
    "}\n"
    "\n"
    "static void launch(CUfunction f, CUdeviceptr p, CUstream stream, int byte)\n"
    "{\n"
    "  uint64_t words = 64, value = UINT64_C(0x0101010101010101) * (uint64_t)byte;\n"
    "  void *params[] = {&p, &words, &value};\n"
    "  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));\n"
    "}\n"
    "\n"
    "static void launch_early(CUfunction f, CUdeviceptr p, CUstream stream, int byte)\n"
    "{\n"
    "  uint64_t words = 64, value = UINT64_C(0x0101010101010101) * (uint64_t)byte;\n"
    "  void *params[] = {&p, &words, &value};\n"
    "  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};\n"
    "  attribute.value.programmaticStreamSerializationAllowed = 1;\n"
    "  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};\n"
    "  OK(cuLaunchKernelEx(&config, f, params, NULL));\n"
    "}\n"
    "\n"
    "static void trim(int device, size_t keep)\n"
    "{\n"
    "  CUmemoryPool pool;\n"
    "  OK(cuDeviceGetDefaultMemPool(&pool, device));\n"
    "  OK(cuMemPoolTrimTo(pool, keep));\n"
    "}\n"
    "\n"
    "static void nothing(void *user)\n"
    "{\n"
    "}\n"
    "\n";

static const char entry[] = "int main(void)\n"
                            "{\n"
                            "  *(void **)&simcuda_own = dlsym(RTLD_DEFAULT, \"simcuda_own\");\n"
                            "  *(void **)&simcuda_disown = dlsym(RTLD_DEFAULT, \"simcuda_disown\");\n"
                            "  *(void **)&simcuda_step = dlsym(RTLD_DEFAULT, \"simcuda_step\");\n"
                            "  *(void **)&simcuda_seed = dlsym(RTLD_DEFAULT, \"simcuda_seed\");\n"
                            "  OK(cuInit(0));\n";

static int ctx_of_lane(const program_t *program, int lane)
{
  if (lane < LANE_CREATED)
    return lane < CTXS ? lane : (lane - CTXS) / THREADS;
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].kind == STEP_STREAM_CREATE && program->steps[i].lane == lane)
      return program->steps[i].ctx;
  }
  return 0;
}

static void lane_name(int lane, char *name, size_t size)
{
  if (lane < CTXS)
    snprintf(name, size, "CU_STREAM_LEGACY");
  else if (lane < LANE_CREATED)
    snprintf(name, size, "CU_STREAM_PER_THREAD");
  else
    snprintf(name, size, "s[%d]", lane - LANE_CREATED);
}

static void print_call(FILE *file, const program_t *program, const step_t *step)
{
  char s[40], to[40];
  int m = step->mem, e = step->event, c = step->ctx, v = step->value,
      lane_ctx = ctx_of_lane(program, step->lane);
  const char *suffix = step->lane >= CTXS ? "_ptds" : "";
  lane_name(step->lane, s, sizeof s);
  switch (step->kind) {
  case STEP_ALLOC:
    fprintf(file, "OK(cuMemAlloc_v2(&m[%d], %u));\n  simcuda_own(m[%d], %u, %d);\n", m, step->bytes, m,
        step->bytes, m);
    break;
  case STEP_FREE:
    fprintf(file, "enter_any();\n  simcuda_disown(m[%d]);\n  OK(%s(m[%d]));\n", m,
        is_freed_by_newer(m, false) ? "free_newest" : "cuMemFree_v2", m);
    break;
  case STEP_FREE_ASYNC:
    fprintf(file, "simcuda_disown(m[%d]);\n  OK(%s(m[%d], %s));\n", m,
        is_freed_by_newer(m, true) ? "free_async_newest" : "cuMemFreeAsync", m, s);
    break;
  case STEP_ALLOC_ASYNC:
    fprintf(file, "OK(cuMemAllocAsync(&m[%d], %u, %s));\n  simcuda_own(m[%d], %u, %d);\n", m, step->bytes, s,
        m, step->bytes, m);
    break;
  case STEP_TRIM: fprintf(file, "trim(%d, %d);\n", c == 1, v % 2 ? 0 : 1 << 20); break;
  case STEP_CAPTURE_MEMORY:
    fprintf(file,
        "OK(cuMemAllocAsync(&own, 512, %s));\n  launch(fill[%d], own, %s, %d);\n  OK(cuMemFreeAsync(own, %s));\n",
        s, lane_ctx, s, v, s);
    break;
  case STEP_FILL: fprintf(file, "launch(fill[%d], m[%d], %s, %d);\n", lane_ctx, m, s, v); break;
  case STEP_FILL_EARLY: fprintf(file, "launch_early(fill[%d], m[%d], %s, %d);\n", lane_ctx, m, s, v); break;
  case STEP_EXPECT: fprintf(file, "launch(expect[%d], m[%d], %s, %d);\n", lane_ctx, m, s, v); break;
  case STEP_MEMSET: fprintf(file, "OK(cuMemsetD8Async(m[%d], %d, 512, %s));\n", m, v, s); break;
  case STEP_COPY:
    fprintf(file, "OK(cuMemcpyDtoDAsync_v2(m[%d], m[%d], 512, %s));\n", m, step->mem2, s);
    break;
  case STEP_MEMSET_SYNC: fprintf(file, "OK(cuMemsetD8_v2%s(m[%d], %d, 512));\n", suffix, m, v); break;
  case STEP_TO_DEVICE:
    fprintf(file, "memset(host, %d, 512);\n  OK(cuMemcpyHtoD_v2%s(m[%d], host, 512));\n", v, suffix, m);
    break;
  case STEP_TO_HOST:
    if (step->flags != PLACE_PAGEABLE)
      fprintf(file, "places(%d);\n  ", lane_ctx);
    snprintf(to, sizeof to,
        step->flags == PLACE_PINNED       ? "pinned[%d]"
        : step->flags == PLACE_REGISTERED ? "registered[%d]"
                                          : "host",
        lane_ctx);
    fprintf(file,
        "OK(cuMemcpyDtoH_v2%s(%s, m[%d], 512));\n  for (int i = 0; i < 512; i++)\n    wrong += %s[i] != %d;\n",
        suffix, to, m, to, v);
    break;
  case STEP_TO_MANAGED:
    fprintf(file, "places(%d);\n  OK(cuMemcpyDtoH_v2%s((void *)managed[%d], m[%d], 512));\n", lane_ctx,
        suffix, lane_ctx, m);
    break;
  case STEP_TO_OTHER:
    fprintf(file, "OK(cuMemcpyDtoH_v2%s((void *)m[%d], m[%d], 512));\n", suffix, m, step->mem2);
    break;
  case STEP_HOST_TO_HOST:
    fprintf(file, "places(%d);\n  OK(cuMemcpyDtoH_v2%s(host, (CUdeviceptr)pinned[%d], 512));\n", lane_ctx,
        suffix, lane_ctx);
    break;
  case STEP_HOST_FUNC: fprintf(file, "OK(cuLaunchHostFunc(%s, nothing, NULL));\n", s); break;
  case STEP_STREAM_CREATE: fprintf(file, "OK(cuStreamCreate(&%s, %d));\n", s, step->flags); break;
  case STEP_STREAM_DESTROY: fprintf(file, "OK(cuStreamDestroy_v2(%s));\n", s); break;
  case STEP_STREAM_SYNC: fprintf(file, "OK(cuStreamSynchronize(%s));\n", s); break;
  case STEP_STREAM_QUERY: fprintf(file, "OK(cuStreamQuery(%s));\n", s); break;
  case STEP_EVENT_CREATE: fprintf(file, "OK(cuEventCreate(&e[%d], CU_EVENT_DISABLE_TIMING));\n", e); break;
  case STEP_EVENT_DESTROY: fprintf(file, "OK(cuEventDestroy_v2(e[%d]));\n", e); break;
  case STEP_EVENT_RECORD: fprintf(file, "OK(cuEventRecord(e[%d], %s));\n", e, s); break;
  case STEP_EVENT_WAIT: fprintf(file, "OK(cuStreamWaitEvent(%s, e[%d], 0));\n", s, e); break;
  case STEP_EVENT_SYNC: fprintf(file, "OK(cuEventSynchronize(e[%d]));\n", e); break;
  case STEP_EVENT_QUERY: fprintf(file, "OK(cuEventQuery(e[%d]));\n", e); break;
  case STEP_CTX_RECORD: fprintf(file, "OK(cuCtxRecordEvent(ctx[%d], e[%d]));\n", c, e); break;
  case STEP_CTX_WAIT: fprintf(file, "OK(cuCtxWaitEvent(ctx[%d], e[%d]));\n", c, e); break;
  case STEP_CTX_SYNC:
    fprintf(file, v % 2 ? "OK(cuCtxSynchronize());\n" : "OK(cuCtxSynchronize_v2(ctx[%d]));\n", c);
    break;
  case STEP_CTX_CREATE: fprintf(file, "create(%d);\n", c); break;
  case STEP_CTX_DESTROY:
    if (c == 2)
      fprintf(file, "OK(cuCtxDestroy_v2(ctx[2]));\n");
    else
      fprintf(file, "OK(cuDevicePrimaryCtxReset_v2(%d));\n", c);
    fprintf(file, "  ctx[%d] = NULL;\n", c);
    break;
  case STEP_CAPTURE_BEGIN: fprintf(file, "OK(cuStreamBeginCapture_v2(%s, %d));\n", s, step->flags); break;
  case STEP_CAPTURE_END:
    fprintf(file,
        "OK(cuStreamEndCapture(%s, &graph));\n  OK(cuGraphInstantiate_v2(&g[%d], graph, NULL, NULL, 0));\n",
        s, step->graph);
    break;
  case STEP_GRAPH_LAUNCH: fprintf(file, "OK(cuGraphLaunch(g[%d], %s));\n", step->graph, s); break;
  case STEP_GRAPH_DESTROY: fprintf(file, "OK(cuGraphExecDestroy(g[%d]));\n", step->graph); break;
  case STEP_BUSY:
    fprintf(file, "launch_busy(busy[%d], %s, %llu);\n", lane_ctx, s, (unsigned long long)BUSY_NS(v));
    break;
  case STEP_WAIT: fprintf(file, "launch_wait(waits[%d], &flags[%d], %s);\n", lane_ctx, step->wait, s); break;
  case STEP_MEET: fprintf(file, "launch_wait(meets[%d], &cells[%d], %s);\n", lane_ctx, step->wait, s); break;
  case STEP_WRITE:
    fprintf(file, "simcuda_writes(&flags[%d]);\n  flags[%d] = 1;\n", step->wait, step->wait);
    break;
  case STEP_LATE_FILL:
  case STEP_LATE_EXPECT:
    fprintf(file, "simcuda_late(%d);\n  launch(%s[%d], m[%d], %s, %d);\n  simcuda_late(UINT64_MAX);\n", m,
        step->kind == STEP_LATE_FILL ? "fill" : "expect", lane_ctx, m, s, v);
    fprintf(file, "  OK(cuStreamSynchronize(%s));\n", s);
    break;
  case STEP_THREAD_END:
  case STEP_KINDS: fprintf(file, ";\n"); break;
  }
}

static bool is_in_one_thread(const program_t *program)
{
  for (int i = 0; i < program->count; i++) {
    if (program->steps[i].thread || program->steps[i].inside)
      return false;
  }
  return true;
}

static void print_step(FILE *file, const program_t *program, int index)
{
  const step_t *step = &program->steps[index];
  unsigned flags = step_infos[step->kind].flags;
  fprintf(file, "  simcuda_step(%d);\n", index);
  if (flags & (F_LANE | F_CTX) && step->kind != STEP_CTX_CREATE && step->kind != STEP_CTX_DESTROY)
    fprintf(file, "  OK(cuCtxSetCurrent(ctx[%d]));\n",
        flags & F_CTX ? step->ctx : ctx_of_lane(program, step->lane));
  fprintf(file, "  ");
  print_call(file, program, step);
}

/* Several threads: a function for each step, and the turns of turns.c. */
static void print_threads(FILE *file, const program_t *program)
{
  for (int i = 0; i < program->count; i++) {
    fprintf(file, "static void step_%d(void)\n{\n", i);
    print_step(file, program, i);
    fprintf(file, "}\n\n");
  }
  fprintf(file,
      "static const struct {\n  void (*take)(void);\n  int thread, inside, moment, ends;\n} steps[] = {\n");
  for (int i = 0; i < program->count; i++) {
    const step_t *step = &program->steps[i];
    fprintf(file, "  {step_%d, %d, %d, %d, %d},\n", i, step->thread, step->inside, step->moment,
        step->kind == STEP_THREAD_END);
  }
  fprintf(file,
      "};\n\n"
      "static _Thread_local int around = -1, moment;\n\n"
      "static void run_inside(void)\n{\n"
      "  int index = around;\n  around = -1;\n"
      "  for (int i = index + 1; i <= index + steps[index].inside; i++)\n    turns_take(steps[i].thread, i);\n}\n\n"
      "static void between_calls(int entering)\n{\n  if (around >= 0 && moment-- == 0)\n    run_inside();\n}\n\n"
      "static void take(int index)\n{\n"
      "  around = steps[index].inside ? index : -1;\n  moment = steps[index].moment;\n  steps[index].take();\n"
      "  if (around >= 0)\n    run_inside();\n}\n\n");
}

void print_c(FILE *file, const program_t *program)
{
  bool one = is_in_one_thread(program);
  fprintf(file,
      "/*\n * A program that went wrong, from seed %llu. In the source tree, with the simulated driver of build/test/sim:\n"
      " *   cc -w -Itest/oracle THIS.c%s -Lbuild/test/sim -l:libcuda.so.1 -ldl -pthread\n"
      " *   SIMCUDA_ORACLE=1 LD_LIBRARY_PATH=build/test/sim LD_PRELOAD=... ./a.out\n */\n",
      (unsigned long long)program->seed, one ? "" : " test/oracle/turns.c");
  fputs("#define _GNU_SOURCE\n", file);
  if (!one)
    fputs("#include \"turns.h\"\n", file);
  fputs(prologue, file);
  fputs(program->options.waits || program->options.tight ? find_waits : find_none, file);
  fputs(frees, file);
  fputs(functions, file);
  fputs(
      "static CUdeviceptr m[64], own;\nstatic CUstream s[64];\nstatic CUevent e[16];\nstatic CUgraph graph;\n"
      "static CUgraphExec g[4];\nstatic unsigned char host[512];\nstatic int wrong;\n\n",
      file);
  if (!one)
    print_threads(file, program);
  fputs(entry, file);
  fprintf(file, "  simcuda_seed(%llu);\n  create(0);\n", (unsigned long long)program->seed);
  if (one) {
    for (int i = 0; i < program->count; i++)
      print_step(file, program, i);
  } else {
    fputs("  void (*on_call)(void (*)(int));\n"
          "  *(void **)&on_call = dlsym(RTLD_DEFAULT, \"simcuda_on_call\");\n"
          "  turns_begin(take);\n  on_call(between_calls);\n"
          "  for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i += 1 + steps[i].inside) {\n"
          "    if (steps[i].ends)\n      turns_end_thread(steps[i].thread);\n"
          "    else\n      turns_take(steps[i].thread, i);\n  }\n  on_call(NULL);\n  turns_end();\n",
        file);
  }
  fputs("  OK(cuCtxSynchronize());\n  printf(\"%d bytes are wrong\\n\", wrong);\n  return wrong > 0;\n}\n",
      file);
}
