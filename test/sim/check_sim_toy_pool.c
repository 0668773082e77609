/*
 * A pool on top of cuMemAllocAsync, right and with one rule left out at a time: the oracle finds each wrong
 * one by random programs that are legal, and has nothing to say of the right one. So it is a judge for real
 * pools.
 *
 * The toy takes segments of two pieces from the driver. An idle piece goes to the stream that it was freed in
 * at once; to another when the whole context has done what was submitted before the free.
 */
#include "oracle.h"
#include "sim_test.h"

#include <stdbool.h>

#define WORDS    64u
#define BYTES    (WORDS * 8)
#define SEGMENTS 64
#define BLOCKS   12
#define STEPS    120
#define PROGRAMS 300

enum {
  RIGHT,
  ANY_STREAM_AT_ONCE,          /* a hit does not ask for another stream's work */
  FRESH_FOR_ALL,               /* nor does the second piece of a fresh segment for the allocation */
  NOTHING_IN_LEGACY,           /* a hit in the legacy stream leaves no operation there */
  HANDLE_IS_IDENTITY,          /* a new stream with the handle of an old one counts as that one */
  PROGRAMMATIC_IS_NOTHING,     /* programmatic launches change nothing */
  PROGRAMMATIC_ONLY_FROM_THEN, /* the first one is noticed, what was handed out before is forgotten */
  RELEASE_AT_ONCE,             /* idle segments go to the driver while work on them is pending */
  FLAWS
};

/* ---- the toy ---- */

typedef struct {
  CUdeviceptr address;
  bool is_idle;
  uint64_t stream; /* idle: the identity that freed it */
  CUevent freed;   /* idle: what was submitted in the context before that */
} piece_t;

static int flaw;
static CUcontext context;
static CUevent scratch;
static piece_t pieces[SEGMENTS][2];
static bool saw_programmatic;

enum { LEGACY, BLOCKING, OTHER_BLOCKING, FREE, OTHER_FREE, STREAMS };
static struct {
  CUstream handle;
  uint64_t number; /* of the creation */
} streams[STREAMS];

static uint64_t identity_of(int s)
{
  return flaw == HANDLE_IS_IDENTITY ? (uint64_t)(uintptr_t)streams[s].handle : streams[s].number;
}

static bool is_complete(const piece_t *piece)
{
  return cuEventQuery(piece->freed) == CUDA_SUCCESS;
}

static void make_idle(piece_t *piece, int s)
{
  piece->is_idle = true;
  piece->stream = identity_of(s);
  OK(cuCtxRecordEvent(context, piece->freed));
}

static bool may_serve(const piece_t *piece, int s)
{
  if (!piece->is_idle)
    return false;
  bool same = piece->stream == identity_of(s);
  bool overlaps = saw_programmatic && flaw != PROGRAMMATIC_IS_NOTHING;
  return flaw == ANY_STREAM_AT_ONCE || (flaw == FRESH_FOR_ALL && piece->stream == 0) || (same && !overlaps) ||
         is_complete(piece);
}

static piece_t *grow(int s)
{
  CUdeviceptr segment;
  int i = 0;
  while (pieces[i][0].address)
    i++;
  ck_assert_int_lt(i, SEGMENTS);
  OK(cuMemAllocAsync(&segment, (size_t)2 * BYTES, streams[s].handle));
  for (int half = 0; half < 2; half++) {
    piece_t *piece = &pieces[i][half];
    piece->address = segment + (CUdeviceptr)half * BYTES;
    if (!piece->freed)
      OK(cuEventCreate(&piece->freed, CU_EVENT_DISABLE_TIMING));
    make_idle(piece, s);
  }
  if (flaw == FRESH_FOR_ALL)
    pieces[i][1].stream = 0;
  return &pieces[i][0];
}

static piece_t *toy_alloc(int s)
{
  piece_t *found = NULL;
  for (int i = 0; i < SEGMENTS && !found; i++) {
    for (int half = 0; half < 2 && pieces[i][0].address && !found; half++)
      found = may_serve(&pieces[i][half], s) ? &pieces[i][half] : NULL;
  }
  if (!found)
    found = grow(s);
  else if (s == LEGACY && flaw != NOTHING_IN_LEGACY)
    OK(cuEventRecord(scratch, CU_STREAM_LEGACY));
  found->is_idle = false;
  return found;
}

static void toy_release(void)
{
  for (int i = 0; i < SEGMENTS; i++) {
    piece_t *pair = pieces[i];
    if (!pair[0].address || !pair[0].is_idle || !pair[1].is_idle)
      continue;
    if (flaw != RELEASE_AT_ONCE && !(is_complete(&pair[0]) && is_complete(&pair[1])))
      continue;
    OK(cuMemFree(pair[0].address));
    pair[0].address = pair[1].address = 0;
  }
}

/* Launches would overlap with work on what was handed out since the last operation of their stream. */
static void toy_before_programmatic(void)
{
  bool is_first = !saw_programmatic;
  saw_programmatic = true;
  for (int s = 0; s < STREAMS && is_first; s++) {
    if (flaw != PROGRAMMATIC_IS_NOTHING && flaw != PROGRAMMATIC_ONLY_FROM_THEN)
      OK(cuEventRecord(scratch, streams[s].handle));
  }
}

/* ---- programs ---- */

static struct {
  piece_t *piece; /* NULL: none */
  int owner;      /* stream of its allocation and its free */
  int user;       /* that works on it: the owner, or a blocking one for the legacy stream's */
} blocks[BLOCKS];
static CUfunction fill;
static uint64_t rng, owners, creations;
static bool is_programmatic; /* the program makes such launches */

static unsigned draw(unsigned below)
{
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (unsigned)((rng >> 32) % below);
}

static void use(int b)
{
  uint64_t words = WORDS, value = owners;
  void *params[] = {&blocks[b].piece->address, &words, &value};
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {
      1, 1, 1, 1, 1, 1, 0, streams[blocks[b].user].handle, &attribute, is_programmatic && draw(8) == 0};
  if (config.numAttrs)
    toy_before_programmatic();
  OK(cuLaunchKernelEx(&config, fill, params, NULL));
}

static void allocate(int b)
{
  int s = (int)draw(STREAMS);
  blocks[b].owner = blocks[b].user = s;
  if (s == LEGACY && draw(2))
    blocks[b].user = draw(2) ? BLOCKING : OTHER_BLOCKING;
  blocks[b].piece = toy_alloc(s);
  simcuda_own(blocks[b].piece->address, BYTES, ++owners);
  use(b);
}

static void release(int b)
{
  simcuda_disown(blocks[b].piece->address);
  make_idle(blocks[b].piece, blocks[b].owner);
  blocks[b].piece = NULL;
}

static void create(int s)
{
  OK(cuStreamCreate(&streams[s].handle, s >= FREE ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  streams[s].number = ++creations;
}

/* Its blocks end before; the work on them does not. */
static void replace(int s)
{
  for (int b = 0; b < BLOCKS; b++) {
    if (blocks[b].piece && (blocks[b].owner == s || blocks[b].user == s))
      release(b);
  }
  OK(cuStreamDestroy(streams[s].handle));
  create(s);
}

static void step(void)
{
  int b = (int)draw(BLOCKS);
  switch (draw(24)) {
  case 0: OK(cuStreamSynchronize(streams[draw(STREAMS)].handle)); break;
  case 1: toy_release(); break;
  case 2: replace(draw(2) ? FREE : OTHER_FREE); break;
  default:
    if (!blocks[b].piece)
      allocate(b);
    else if (draw(3) == 0)
      use(b);
    else
      release(b);
  }
}

static void run_program(uint64_t seed)
{
  rng = seed * 0x9e3779b97f4a7c15u + 1;
  is_programmatic = draw(3) == 0;
  saw_programmatic = false;
  simcuda_seed(seed);
  for (int i = 0; i < STEPS; i++) {
    simcuda_step(seed * 1000 + (uint64_t)i);
    step();
  }
  for (int b = 0; b < BLOCKS; b++) {
    if (blocks[b].piece)
      release(b);
  }
  OK(cuCtxSynchronize());
  toy_release();
}

static void start(void)
{
  static char image[] = "no image";
  CUmodule module;
  setenv("SIMCUDA_ORACLE", "1", 1);
  context = test_start();
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  OK(cuEventCreate(&scratch, CU_EVENT_DISABLE_TIMING));
  streams[LEGACY].handle = CU_STREAM_LEGACY;
  streams[LEGACY].number = ++creations;
  for (int s = BLOCKING; s < STREAMS; s++)
    create(s);
}

START_TEST(test_toy)
{
  static const bool is_early[FLAWS] = {[FRESH_FOR_ALL] = true}, is_late[FLAWS] = {[RELEASE_AT_ONCE] = true};
  simcuda_oracle_t counts;
  flaw = _i;
  start();
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
    run_program(seed);
  simcuda_counts(&counts);
  ck_assert_uint_eq(counts.strays, 0);
  ck_assert_uint_gt(counts.pending_reuses, 0);
  if (flaw == RIGHT)
    ck_assert_uint_eq(
        counts.early_reuse + counts.early_accesses + counts.late_accesses + counts.violations, 0);
  else if (is_early[flaw])
    ck_assert_uint_gt(counts.early_accesses, 0);
  else if (is_late[flaw])
    ck_assert_uint_gt(counts.late_accesses, 0);
  else
    ck_assert_uint_gt(counts.early_reuse, 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_toy_pool");
  TCase *tests = tcase_create("toy_pool");
  tcase_add_loop_test(tests, test_toy, RIGHT, FLAWS);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
