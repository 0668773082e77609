/*
 * Writes a tree as a Python pickle of protocol 2, which all readers of PyTorch's snapshots support: Python's
 * pickle module, and the viewer's reader in JavaScript. Uses only opcodes that both readers support. Writes
 * lists in batches, because the viewer passes each batch as the arguments of one call. The memo contains
 * texts, and values that the caller refers to again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/export_tree.h"
#include "tools/hash_index.h"

#define BATCH_MOST 1000 /* the same as in Python's pickle module */
#define DEPTH_MOST 16   /* most nested lists and dicts; the callers determine the depth, not the input */

enum {
  OP_PROTO = 0x80,
  OP_STOP = '.',
  OP_MARK = '(',
  OP_EMPTY_DICT = '}',
  OP_SETITEMS = 'u',
  OP_EMPTY_LIST = ']',
  OP_APPENDS = 'e',
  OP_BINUNICODE = 'X',
  OP_BININT = 'J',
  OP_BININT1 = 'K',
  OP_BININT2 = 'M',
  OP_LONG1 = 0x8a,
  OP_TUPLE2 = 0x86,
  OP_NEWTRUE = 0x88,
  OP_NEWFALSE = 0x89,
  OP_BINPUT = 'q',
  OP_LONG_BINPUT = 'r',
  OP_BINGET = 'h',
  OP_LONG_BINGET = 'j',
};

typedef struct memo_text {
  const char *text; /* borrowed */
  uint32_t number;
} memo_text_t;

typedef struct pickle_tree {
  gp_tree_t tree;
  FILE *stream;
  int error;
  uint32_t memo_count;
  memo_text_t *texts;
  size_t text_count;
  gp_hash_index_t index;      /* finds the texts */
  uint32_t batch[DEPTH_MOST]; /* number of elements in the open batch of each open list or dict */
  unsigned depth;
} pickle_tree_t;

static pickle_tree_t *of(gp_tree_t *tree)
{
  return (pickle_tree_t *)tree; /* `tree` is the first member of pickle_tree_t */
}

static void put(pickle_tree_t *pickle, int byte)
{
  (void)putc_unlocked(byte, pickle->stream); /* finish() checks the stream for errors */
}

static void put_little_endian(pickle_tree_t *pickle, uint64_t number, int bytes)
{
  for (int i = 0; i < bytes; i++)
    put(pickle, (int)(number >> 8 * i & 0xff));
}

static void begin(gp_tree_t *tree, char bracket)
{
  pickle_tree_t *pickle = of(tree);
  put(pickle, bracket == '{' ? OP_EMPTY_DICT : OP_EMPTY_LIST);
  if (pickle->depth == DEPTH_MOST)
    abort(); /* no input can cause this */
  pickle->batch[pickle->depth++] = 0;
}

/* Begins a new batch if none is open, after ending a full one with `opcode`. Call it before each element. */
static void next_in_batch(pickle_tree_t *pickle, int opcode)
{
  uint32_t *batch = &pickle->batch[pickle->depth - 1];
  if (*batch == BATCH_MOST) {
    put(pickle, opcode);
    *batch = 0;
  }
  if ((*batch)++ == 0)
    put(pickle, OP_MARK);
}

static void end(gp_tree_t *tree, char bracket)
{
  pickle_tree_t *pickle = of(tree);
  if (pickle->batch[--pickle->depth] > 0)
    put(pickle, bracket == '}' ? OP_SETITEMS : OP_APPENDS);
}

static void item(gp_tree_t *tree)
{
  next_in_batch(of(tree), OP_APPENDS);
}

static void put_memo(pickle_tree_t *pickle, uint32_t at, int short_op, int long_op)
{
  put(pickle, at < 256 ? short_op : long_op);
  put_little_endian(pickle, at, at < 256 ? 1 : 4);
}

static bool refer(gp_tree_t *tree, const uint32_t *number)
{
  if (!*number)
    return false;
  put_memo(of(tree), *number - 1, OP_BINGET, OP_LONG_BINGET);
  return true;
}

static void remember(gp_tree_t *tree, uint32_t *number)
{
  pickle_tree_t *pickle = of(tree);
  if (pickle->memo_count == UINT32_MAX)
    return; /* the memo is full, so the text is written again each time */
  put_memo(pickle, pickle->memo_count, OP_BINPUT, OP_LONG_BINPUT);
  *number = ++pickle->memo_count;
}

static void text_once(gp_tree_t *tree, const char *value)
{
  pickle_tree_t *pickle = of(tree);
  size_t length = strlen(value);
  if (length > UINT32_MAX)
    length = 0; /* never happens, because readers of snapshots reject texts of this length */
  put(pickle, OP_BINUNICODE);
  put_little_endian(pickle, length, 4);
  (void)fwrite_unlocked(value, 1, length, pickle->stream);
}

static void text(gp_tree_t *tree, const char *value)
{
  pickle_tree_t *pickle = of(tree);
  memo_text_t *memo = GP_HASH_TEXT(&pickle->index, pickle->texts, pickle->text_count, value, false);
  if (!memo) {
    pickle->error = ENOMEM;
    return;
  }
  if (refer(tree, &memo->number))
    return;
  text_once(tree, value);
  remember(tree, &memo->number);
}

static void key(gp_tree_t *tree, const char *name)
{
  next_in_batch(of(tree), OP_SETITEMS);
  text(tree, name);
}

static void integer(gp_tree_t *tree, int64_t number)
{
  pickle_tree_t *pickle = of(tree);
  if (number >= 0 && number <= UINT8_MAX) {
    put(pickle, OP_BININT1);
    put_little_endian(pickle, (uint64_t)number, 1);
  } else if (number >= 0 && number <= UINT16_MAX) {
    put(pickle, OP_BININT2);
    put_little_endian(pickle, (uint64_t)number, 2);
  } else if (number >= INT32_MIN && number <= INT32_MAX) {
    put(pickle, OP_BININT);
    put_little_endian(pickle, (uint64_t)number, 4);
  } else {
    int bytes = 5;
    while (bytes < 8 && (number >> (8 * bytes - 1) != 0 && number >> (8 * bytes - 1) != -1))
      bytes++; /* one more byte for the sign bit */
    put(pickle, OP_LONG1);
    put(pickle, bytes);
    put_little_endian(pickle, (uint64_t)number, bytes);
  }
}

static void pair(gp_tree_t *tree, int64_t first, int64_t second)
{
  integer(tree, first);
  integer(tree, second);
  put(of(tree), OP_TUPLE2);
}

static void boolean(gp_tree_t *tree, bool value)
{
  put(of(tree), value ? OP_NEWTRUE : OP_NEWFALSE);
}

static int finish(gp_tree_t *tree)
{
  pickle_tree_t *pickle = of(tree);
  put(pickle, OP_STOP);
  errno = 0;
  int error = pickle->error;
  if (fflush(pickle->stream) && !error)
    error = errno ? errno : EIO;
  free(pickle->texts);
  gp_hash_index_fini(&pickle->index);
  free(pickle);
  return error;
}

static const gp_tree_ops_t ops = {
    .begin = begin,
    .end = end,
    .key = key,
    .item = item,
    .text = text,
    .text_once = text_once,
    .integer = integer,
    .pair = pair,
    .boolean = boolean,
    .refer = refer,
    .remember = remember,
    .finish = finish,
};

gp_tree_t *gp_tree_pickle(FILE *stream)
{
  pickle_tree_t *pickle = calloc(1, sizeof(*pickle));
  if (!pickle)
    return NULL;
  pickle->tree.ops = &ops;
  pickle->stream = stream;
  put(pickle, OP_PROTO);
  put(pickle, 2);
  return &pickle->tree;
}
