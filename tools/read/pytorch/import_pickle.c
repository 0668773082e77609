/*
 * Reads a Python pickle of protocol 2 to 5 into values. A pickle is a program for a stack machine. This
 * reader supports only opcodes that create numbers, texts, lists and dicts, and never executes anything.
 * Python would import and call the class of an object. Here the object becomes a dict of the members that the
 * pickle sets, like an OrderedDict.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/read/pytorch/import_value.h"

#define PROTOCOL_MOST 5

typedef struct machine {
  gp_value_tree_t *tree;
  size_t at;        /* offset of the next byte */
  size_t opcode_at; /* offset of the current opcode */
  bool is_cut;      /* the input ended too early */
  gp_value_t *stack;
  size_t depth, stack_room;
  size_t *marks; /* stack depth at each mark */
  size_t mark_count, mark_room;
  gp_value_t *memo;
  size_t memo_count, memo_room; /* memo_count is the highest used index plus 1 */
  const gp_import_taker_t *taker;
  const gp_container_t *trace; /* latest trace whose events were passed to the taker */
  size_t trace_events;
  size_t trace_device;
} machine_t;

static bool fail(machine_t *machine, const char *text)
{
  return gp_value_tree_fail(machine->tree, machine->opcode_at, "%s", text);
}

/* Makes room for one more item in an array. */
#define RESERVE(machine, items, count, room)                                                                 \
  gp_value_tree_reserve((machine)->tree, (machine)->opcode_at, &(items), count, &(room), sizeof(*(items)))

static bool push(machine_t *machine, const gp_value_t *value)
{
  if (!RESERVE(machine, machine->stack, machine->depth, machine->stack_room))
    return false;
  machine->stack[machine->depth++] = *value;
  return true;
}

static bool push_kind(machine_t *machine, gp_value_kind_t kind, int64_t integer)
{
  const gp_value_t value = {.integer = integer, .kind = (uint8_t)kind};
  return push(machine, &value);
}

/* Reads the next `bytes` bytes, an opcode's argument. Returns them, or NULL if the input is too short. */
static const char *take(machine_t *machine, uint64_t bytes)
{
  if (bytes > machine->tree->length - machine->at) {
    machine->is_cut = true;
    return NULL;
  }
  const char *from = machine->tree->text + machine->at;
  machine->at += (size_t)bytes;
  return from;
}

static bool take_number(machine_t *machine, int bytes, uint64_t *ret_number)
{
  const char *from = take(machine, (uint64_t)bytes);
  if (!from)
    return false;
  *ret_number = 0;
  for (int i = 0; i < bytes; i++)
    *ret_number |= (uint64_t)(unsigned char)from[i] << 8 * i;
  return true;
}

/*
 * Values
 */

static bool push_number(machine_t *machine, int bytes, bool is_signed)
{
  uint64_t number;
  if (!take_number(machine, bytes, &number))
    return false;
  return push_kind(machine, GP_VALUE_INTEGER, is_signed ? (int32_t)(uint32_t)number : (int64_t)number);
}

/* Pushes an integer of any length in little-endian two's complement. */
static bool push_long(machine_t *machine, int length_bytes)
{
  uint64_t length, number = 0;
  const char *from = take_number(machine, length_bytes, &length) ? take(machine, length) : NULL;
  if (!from)
    return false;
  if (length > 8)
    return push_kind(machine, GP_VALUE_OTHER, 0);
  for (uint64_t i = 0; i < length; i++)
    number |= (uint64_t)(unsigned char)from[i] << 8 * i;
  if (length > 0 && length < 8 && (unsigned char)from[length - 1] >= 0x80)
    number |= UINT64_MAX << 8 * length;
  return push_kind(machine, GP_VALUE_INTEGER, (int64_t)number);
}

static bool push_float(machine_t *machine)
{
  const char *from = take(machine, 8);
  uint64_t bits = 0;
  if (!from)
    return false;
  for (int i = 0; i < 8; i++)
    bits = bits << 8 | (unsigned char)from[i];
  gp_value_t value = {.kind = GP_VALUE_FLOAT};
  memcpy(&value.number, &bits, sizeof(bits));
  return push(machine, &value);
}

static bool push_text(machine_t *machine, int length_bytes)
{
  uint64_t length;
  const char *from = take_number(machine, length_bytes, &length) ? take(machine, length) : NULL;
  if (!from)
    return false;
  if (length > UINT32_MAX)
    return fail(machine, "a text of more than 4 GiB");
  const gp_value_t value = {.text = from, .length = (uint32_t)length, .kind = GP_VALUE_TEXT};
  return push(machine, &value);
}

/* Containers. An opcode that makes a container uses the values above the last mark. */

static size_t base_of(const machine_t *machine)
{
  return machine->mark_count ? machine->marks[machine->mark_count - 1] : 0;
}

static bool need(machine_t *machine, size_t count)
{
  return machine->depth - base_of(machine) >= count ? true : fail(machine, "a value is missing");
}

static bool pop_mark(machine_t *machine, size_t *ret_first)
{
  if (!machine->mark_count)
    return fail(machine, "a mark is missing");
  *ret_first = machine->marks[--machine->mark_count];
  return true;
}

static bool push_container(machine_t *machine, gp_value_kind_t kind, size_t first)
{
  gp_container_t *container = gp_value_tree_container(machine->tree, machine->opcode_at);
  size_t count = machine->depth - first;
  if (!container)
    return false;
  if (kind == GP_VALUE_DICT && count % 2)
    return fail(machine, "a dict with a name that has no value");
  if (count && !gp_container_append(machine->tree, container, machine->stack + first, count))
    return false;
  machine->depth = first;
  const gp_value_t value = {.container = container, .kind = (uint8_t)kind};
  return push(machine, &value);
}

/* Replaces the values above the mark with a container of these values. */
static bool gather(machine_t *machine, gp_value_kind_t kind)
{
  size_t first = 0;
  return pop_mark(machine, &first) && push_container(machine, kind, first);
}

static bool push_tuple(machine_t *machine, size_t count)
{
  return need(machine, count) && push_container(machine, GP_VALUE_LIST, machine->depth - count);
}

/* Returns true if the value at stack index `at` is the list "device_traces" in the outermost dict. */
static bool is_traces(const machine_t *machine, size_t at)
{
  return at >= 2 && machine->stack[0].kind == GP_VALUE_DICT && machine->stack[at].kind == GP_VALUE_LIST &&
         gp_value_is(&machine->stack[at - 1], "device_traces") && machine->mark_count &&
         machine->marks[0] == 1 && (machine->mark_count == 1 || machine->marks[1] > at);
}

/* Returns the stack index of the list of traces to which APPEND or APPENDS will add the list at index `at`.
 * Returns 0 if the list at `at` is not a trace. */
static size_t traces_of(const machine_t *machine, size_t at)
{
  size_t base = base_of(machine);
  if (at && is_traces(machine, at - 1))
    return at - 1;
  return base && base <= at && is_traces(machine, base - 1) ? base - 1 : 0;
}

/* Passes the segments to the taker. All members of the outermost dict before the traces are complete then. */
static bool take_segments(machine_t *machine, size_t traces)
{
  for (size_t i = 1; i + 2 < traces; i += 2) {
    if (gp_value_is(&machine->stack[i], "segments"))
      return machine->taker->segments(machine->taker->self, &machine->stack[i + 1]);
  }
  return true;
}

/* Returns true if the list at stack index `at` is a trace. Its events are passed to the taker instead of
 * being appended to the list. */
static bool is_trace(machine_t *machine, size_t at)
{
  gp_container_t *list = machine->stack[at].container;
  size_t traces = traces_of(machine, at);
  if (!traces || list->count)
    return false;
  if (list == machine->trace)
    return true;
  size_t device = at - traces - 1;
  if (device >= GP_SNAPSHOT_DEVICES || list->note != GP_CONTAINER_NEW ||
      machine->stack[traces].container->count)
    return false;
  for (size_t i = traces + 1; i < at; i++) { /* events of a lower device must not follow */
    const gp_value_t *lower = &machine->stack[i];
    if (lower->kind != GP_VALUE_LIST || lower->container->count)
      return false;
  }
  if (!machine->trace && !take_segments(machine, traces))
    return false;
  machine->trace = list;
  machine->trace_device = device;
  machine->trace_events = 0;
  list->note = GP_CONTAINER_PART;
  return true;
}

/* Passes events to the taker and frees each event. Two million events would take a gigabyte as values. */
static bool take_events(machine_t *machine, size_t first, size_t count)
{
  const gp_import_taker_t *taker = machine->taker;
  for (size_t i = first; i < first + count; i++) {
    gp_value_t *event = &machine->stack[i];
    if (!taker->event(taker->self, event, (int)machine->trace_device, machine->trace_events++))
      return false;
    gp_container_release(machine->tree, event->container);
  }
  return true;
}

/* Moves the values from stack index `first` on into the container below them. */
static bool put_into(machine_t *machine, size_t first, gp_value_kind_t kind)
{
  size_t count = machine->depth - first;
  if (first <= base_of(machine) || machine->stack[first - 1].kind != kind)
    return fail(machine, kind == GP_VALUE_LIST ? "there is no list to add to" : "there is no dict to add to");
  if (kind == GP_VALUE_DICT && count % 2)
    return fail(machine, "a name without a value");
  machine->depth = first;
  if (kind == GP_VALUE_LIST && is_trace(machine, first - 1))
    return take_events(machine, first, count);
  return !machine->tree->failed && gp_container_append(machine->tree, machine->stack[first - 1].container,
                                       machine->stack + first, count);
}

static bool put_marked(machine_t *machine, gp_value_kind_t kind)
{
  size_t first = 0;
  return pop_mark(machine, &first) && put_into(machine, first, kind);
}

/*
 * Memo
 */

static bool put_memo(machine_t *machine, uint64_t index)
{
  if (!need(machine, 1))
    return false;
  if (index >= machine->tree->length) /* each entry takes two bytes of the input */
    return fail(machine, "a memo that is larger than the file");
  while (index >= machine->memo_count) {
    if (!RESERVE(machine, machine->memo, machine->memo_count, machine->memo_room))
      return false;
    machine->memo[machine->memo_count++] = (gp_value_t){.kind = GP_VALUE_OTHER};
  }
  machine->memo[index] = machine->stack[machine->depth - 1];
  return true;
}

static bool put_memo_at(machine_t *machine, int index_bytes)
{
  uint64_t index;
  return take_number(machine, index_bytes, &index) && put_memo(machine, index);
}

static bool get_memo_at(machine_t *machine, int index_bytes)
{
  uint64_t index;
  if (!take_number(machine, index_bytes, &index))
    return false;
  if (index >= machine->memo_count)
    return fail(machine, "a reference to what was not there");
  return push(machine, &machine->memo[index]);
}

/*
 * Execution of opcodes
 */

static bool refuse(machine_t *machine, unsigned char opcode)
{
  return gp_value_tree_fail(
      machine->tree, machine->opcode_at, "opcode 0x%02x of the pickle is none that a snapshot has", opcode);
}

/* Skips two lines, the name of a module and a name in that module. */
static bool skip_lines(machine_t *machine)
{
  for (int line = 0; line < 2; line++) {
    const char *from = machine->tree->text + machine->at;
    const char *end = memchr(from, '\n', machine->tree->length - machine->at);
    if (!take(machine, end ? (uint64_t)(end - from) + 1 : machine->tree->length - machine->at + 1))
      return false;
  }
  return true;
}

/* Pushes a placeholder for a class or function. */
static bool push_global(machine_t *machine)
{
  return push_kind(machine, GP_VALUE_OTHER, 0);
}

/* Replaces a class and its arguments with an object. */
static bool push_object(machine_t *machine, size_t count)
{
  if (!need(machine, count))
    return false;
  machine->depth -= count;
  return push_container(machine, GP_VALUE_DICT, machine->depth);
}

static bool drop(machine_t *machine, size_t count)
{
  if (!need(machine, count))
    return false;
  machine->depth -= count;
  return true;
}

static bool push_bytes(machine_t *machine, int length_bytes)
{
  uint64_t length;
  return take_number(machine, length_bytes, &length) && take(machine, length) &&
         push_kind(machine, GP_VALUE_OTHER, 0);
}

static bool check_protocol(machine_t *machine)
{
  uint64_t protocol;
  if (!take_number(machine, 1, &protocol))
    return false;
  if (protocol < 2 || protocol > PROTOCOL_MOST)
    return gp_value_tree_fail(machine->tree, machine->opcode_at,
        "a pickle of protocol %u; 2 to %d are understood", (unsigned)protocol, PROTOCOL_MOST);
  return true;
}

static bool push_mark(machine_t *machine)
{
  if (!RESERVE(machine, machine->marks, machine->mark_count, machine->mark_room))
    return false;
  machine->marks[machine->mark_count++] = machine->depth;
  return true;
}

static bool perform(machine_t *machine, unsigned char opcode)
{
  switch (opcode) {
  case 0x80: return check_protocol(machine);
  case 0x95: return take(machine, 8) != NULL; /* FRAME: a hint to read ahead */
  case '(': return push_mark(machine);
  case 'N': return push_kind(machine, GP_VALUE_NONE, 0);
  case 0x88: return push_kind(machine, GP_VALUE_BOOL, 1);
  case 0x89: return push_kind(machine, GP_VALUE_BOOL, 0);
  case 'K': return push_number(machine, 1, false);
  case 'M': return push_number(machine, 2, false);
  case 'J': return push_number(machine, 4, true);
  case 0x8a: return push_long(machine, 1);
  case 0x8b: return push_long(machine, 4);
  case 'G': return push_float(machine);
  case 0x8c: return push_text(machine, 1);
  case 'X': return push_text(machine, 4);
  case 0x8d: return push_text(machine, 8);
  case '}': return push_container(machine, GP_VALUE_DICT, machine->depth);
  case ']':
  case ')': return push_container(machine, GP_VALUE_LIST, machine->depth);
  case 'd': return gather(machine, GP_VALUE_DICT);
  case 'l':
  case 't': return gather(machine, GP_VALUE_LIST);
  case 0x85: return push_tuple(machine, 1);
  case 0x86: return push_tuple(machine, 2);
  case 0x87: return push_tuple(machine, 3);
  case 's': return need(machine, 3) && put_into(machine, machine->depth - 2, GP_VALUE_DICT);
  case 'u': return put_marked(machine, GP_VALUE_DICT);
  case 'a': return need(machine, 2) && put_into(machine, machine->depth - 1, GP_VALUE_LIST);
  case 'e': return put_marked(machine, GP_VALUE_LIST);
  case 'q': return put_memo_at(machine, 1);
  case 'r': return put_memo_at(machine, 4);
  case 0x94: return put_memo(machine, machine->memo_count);     /* MEMOIZE */
  case 'c': return skip_lines(machine) && push_global(machine); /* GLOBAL */
  case 0x93: return drop(machine, 2) && push_global(machine);   /* STACK_GLOBAL */
  case 'R':                                                     /* REDUCE */
  case 0x81: return push_object(machine, 2);                    /* NEWOBJ */
  case 0x92: return push_object(machine, 3);                    /* NEWOBJ_EX */
  case 'b': return need(machine, 2) && drop(machine, 1);        /* BUILD: the object's state */
  case '0': return drop(machine, 1);
  case 0x8f: return push_container(machine, GP_VALUE_LIST, machine->depth); /* sets */
  case 0x90: return put_marked(machine, GP_VALUE_LIST);
  case 0x91: return gather(machine, GP_VALUE_LIST);
  case 'C': return push_bytes(machine, 1);
  case 'B': return push_bytes(machine, 4);
  case 0x8e:
  case 0x96: return push_bytes(machine, 8);
  case 'h': return get_memo_at(machine, 1);
  case 'j': return get_memo_at(machine, 4);
  default: return refuse(machine, opcode);
  }
}

/*
 * Completion of the values if the input ends too early. Values that are still on the stack are added to the
 * container for which they were pushed. Values above a mark belong to the last container below the mark. An
 * incomplete event or segment is omitted.
 */

/* Returns true if the value is an event or segment in which members may be missing. */
static bool is_incomplete(const gp_value_t *value, bool is_open)
{
  return value->kind == GP_VALUE_DICT && (is_open || value->container->count == 0);
}

/* Adds the stack values from `at` to `end` to the container. If the last value is a list, it becomes the next
 * container. `is_open` means that further values follow. Returns false if the further values belong to an
 * omitted value. */
static bool close_container(machine_t *machine, gp_value_t *container, size_t at, size_t end, bool is_open)
{
  bool is_list = container->kind == GP_VALUE_LIST;
  size_t count = is_list ? end - at : (end - at) / 2 * 2;

  if (is_list && count && is_incomplete(&machine->stack[end - 1], is_open))
    count--;
  if (count && !gp_container_append(machine->tree, container->container, machine->stack + at, count))
    return false;
  if (!count || machine->stack[at + count - 1].kind != GP_VALUE_LIST)
    return false;
  *container = machine->stack[at + count - 1];
  return at + count == end ||
         close_container(machine, container, at + count, end, is_open); /* a list with one element */
}

static bool close_all(machine_t *machine, gp_value_t *ret_value)
{
  size_t at = 1;

  if (!machine->depth || (machine->stack[0].kind != GP_VALUE_DICT && machine->stack[0].kind != GP_VALUE_LIST))
    return gp_value_tree_fail(
        machine->tree, machine->tree->length, "the input ends here, before anything of use");
  gp_value_t container = machine->stack[0];
  for (size_t i = 0; i <= machine->mark_count; i++) {
    bool is_open = i < machine->mark_count;
    size_t end = is_open ? machine->marks[i] : machine->depth;
    if (end <= at && is_open)
      continue; /* the mark belongs to the outermost container */
    if (!close_container(machine, &container, at, end, is_open))
      break;
    at = end;
  }
  *ret_value = machine->stack[0];
  return !machine->tree->failed;
}

static bool run(machine_t *machine, gp_value_t *ret_value)
{
  gp_value_tree_t *tree = machine->tree;
  for (;;) {
    machine->opcode_at = machine->at;
    machine->is_cut |= machine->at == tree->length;
    if (machine->is_cut)
      return close_all(machine, ret_value);
    unsigned char opcode = (unsigned char)tree->text[machine->at++];
    if (opcode == '.')
      break;
    if (!perform(machine, opcode) && !machine->is_cut)
      return false;
  }
  if (machine->depth != 1 || machine->mark_count)
    return fail(machine, "the pickle ends with values left over");
  if (machine->at != tree->length)
    return gp_value_tree_fail(tree, machine->at, "there is something after the end of the pickle");
  *ret_value = machine->stack[0];
  return true;
}

bool gp_pickle_read(
    gp_value_tree_t *tree, const gp_import_taker_t *taker, gp_value_t *ret_value, bool *ret_is_cut)
{
  machine_t machine = {.tree = tree, .taker = taker};
  bool good = run(&machine, ret_value);
  *ret_is_cut = machine.is_cut;
  free(machine.stack);
  free(machine.marks);
  free(machine.memo);
  return good;
}
