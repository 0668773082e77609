#include "trace/stacks/known_stacks.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "trace/stacks/cfi.h"
#include "trace/stacks/stack_room.h"
#include "base/pages.h"

#define ENTRIES       128
#define BUCKETS       64
#define WORDS         3600
#define ENTRY_WORDS   256 /* maximum number of words */
#define LEARNT_FRAMES 96  /* maximum, including this library's frames */
#define SEEN          64

/* Largest frame. Stacks with a larger frame are not stored. */
#define FRAME_BYTES_MAX ((uintptr_t)1 << 20)

/* Limits of attempts to store a stack. Reading the rules takes as long as one or two captures, which is
 * wasted if a program's stacks never repeat. The first FREE_ATTEMPTS attempts are always made. After that an
 * attempt needs HITS_PER_ATTEMPT hits, except for one in SKIPPED_ATTEMPTS. */
#define FREE_ATTEMPTS    256
#define HITS_PER_ATTEMPT 4
#define SKIPPED_ATTEMPTS 32

/* A word of the stack that determines how the unwinder proceeds. */
typedef struct word {
  uintptr_t value;
  uintptr_t distance; /* distance from the site's frame in bytes */
} word_t;

/* A known stack. Members that refer to an entry contain its index plus one; 0 means none. */
typedef struct entry {
  uintptr_t frame; /* address of the site's frame; 0: no entry */
  uint32_t number;
  uint16_t first; /* index of the entry's first word */
  uint16_t count;
  uint16_t shared;   /* number of leading words that are the same in the entry `next` */
  uint8_t next;      /* next entry in the bucket, which is older */
  uint8_t successor; /* the entry that was found or added after this one last time */
} entry_t;

/*
 * The known stacks of a thread. Entries and words are two rings, freed in the order of allocation:
 *   entry_count <= ENTRIES; the used entries are oldest, oldest + 1, ... (mod ENTRIES)
 *   an entry's words are words[first .. first + count), between the words of the next older and newer entries
 * All entries are for the same table of stacks and the same state of the loader.
 */
typedef struct table {
  bool is_busy; /* set while the thread uses the table; a signal handler must then not use it */
  uint64_t table_id;
  uint64_t unloads;
  uint32_t oldest;
  uint32_t entry_count;
  uint32_t head; /* index at which the next entry's words begin */
  uint32_t skipped;
  uint64_t attempts;
  gp_known_counts_t counts;
  uint8_t last; /* the last entry that was found or added */
  uint8_t buckets[BUCKETS];
  uint32_t seen[SEEN]; /* numbers of recently captured stacks, by number % SEEN */
  entry_t entries[ENTRIES];
  word_t words[WORDS];
} table_t;

static_assert(sizeof(table_t) <= 64 * 1024, "what a thread takes at most");
static_assert(ENTRIES < UINT8_MAX && WORDS <= UINT16_MAX, "indexes");

/* A pointer, because thread-local variables take space from the thread's stack, and the table is large. */
static __thread table_t *tls_table __attribute__((tls_model("initial-exec")));

static bool enter(table_t *table)
{
  if (!table || table->is_busy)
    return false;
  table->is_busy = true;
  atomic_signal_fence(memory_order_seq_cst); /* a signal handler sees is_busy before any later change */
  return true;
}

static void leave(table_t *table)
{
  atomic_signal_fence(memory_order_seq_cst);
  table->is_busy = false;
}

static inline uint8_t *bucket_of(table_t *table, uintptr_t frame)
{
  return &table->buckets[(uint64_t)frame * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

/* Returns the number of leading words of the entry that are unchanged in memory. The first `from` words are
 * known to be unchanged. Compares in order and stops at the first difference, because the addresses of later
 * words may no longer be part of the stack. */
static inline uint32_t count_unchanged(
    const table_t *table, const entry_t *entry, uint32_t from, uintptr_t frame)
{
  const word_t *words = &table->words[entry->first];

  while (from < entry->count && *(const uintptr_t *)(frame + words[from].distance) == words[from].value)
    from++;
  return from;
}

static inline bool is_unchanged(const table_t *table, const entry_t *entry, uintptr_t frame)
{
  return entry->frame == frame && count_unchanged(table, entry, 0, frame) == entry->count;
}

/*
 * Searches a bucket. Returns the entry's index plus one, or 0 if there is none. Stacks with the same frame
 * mostly begin with the same words. So words that an entry shares with the previous entry are not compared
 * again: if the previous entry differs within the shared words, this entry differs, too.
 */
static inline uint8_t find_in_bucket(const table_t *table, uint8_t at, uintptr_t frame)
{
  const entry_t *before = NULL;
  uint32_t same = 0; /* number of leading words of `before` that are unchanged in memory */

  for (; at; at = table->entries[at - 1].next) {
    const entry_t *entry = &table->entries[at - 1];
    if (entry->frame != frame) {
      before = NULL;
      continue;
    }
    if (!before || before->shared <= same) {
      same = count_unchanged(table, entry, before ? before->shared : 0, frame);
      if (same == entry->count)
        return at;
    }
    before = entry;
  }
  return 0;
}

static inline uint8_t guess(const table_t *table)
{
  return table->last ? table->entries[table->last - 1].successor : 0;
}

/* Returns the index plus one of the entry for the current stack, or 0 if there is none. First tries the entry
 * that followed the last entry the previous time, because programs repeat themselves. */
static uint8_t find(table_t *table, uintptr_t frame)
{
  uint8_t at = guess(table);

  if (at && is_unchanged(table, &table->entries[at - 1], frame))
    return at;
  return find_in_bucket(table, *bucket_of(table, frame), frame);
}

static inline void note_last(table_t *table, uint8_t at)
{
  if (table->last)
    table->entries[table->last - 1].successor = at;
  table->last = at;
}

uint32_t gp_known_stacks_find(const gp_known_site_t *site)
{
  table_t *table = tls_table;
  uint32_t number = 0;

  if (!enter(table))
    return 0;
  if (table->table_id == site->table_id && table->unloads == site->unloads) {
    uint8_t at = find(table, (uintptr_t)site->frame);
    if (at) {
      number = table->entries[at - 1].number;
      table->counts.found++;
      note_last(table, at);
    }
  }
  leave(table);
  return number;
}

static void drop_oldest(table_t *table)
{
  entry_t *entry = &table->entries[table->oldest];
  uint8_t *link = bucket_of(table, entry->frame);

  gp_assert(table->entry_count > 0);
  while (*link != table->oldest + 1)
    link = &table->entries[*link - 1].next;
  *link = entry->next;
  *entry = (entry_t){0};
  table->oldest = (table->oldest + 1) % ENTRIES;
  table->entry_count--;
}

static void clear(table_t *table, const gp_known_site_t *site)
{
  while (table->entry_count > 0)
    drop_oldest(table);
  table->head = 0;
  table->last = 0;
  for (size_t i = 0; i < SEEN; i++)
    table->seen[i] = 0;
  table->table_id = site->table_id;
  table->unloads = site->unloads;
}

/* Makes room for a new entry and its words by dropping old entries. Returns the position for the words. */
static word_t *make_room(table_t *table)
{
  if (table->head + ENTRY_WORDS > WORDS) {
    while (table->entry_count > 0 && table->entries[table->oldest].first >= table->head)
      drop_oldest(table);
    table->head = 0;
  }
  while (table->entry_count > 0) {
    uint32_t first = table->entries[table->oldest].first;
    bool is_in_the_way = first >= table->head && first < table->head + ENTRY_WORDS;
    if (table->entry_count < ENTRIES && !is_in_the_way)
      break;
    drop_oldest(table);
  }
  return &table->words[table->head];
}

static uint32_t count_shared(const table_t *table, const entry_t *a, const entry_t *b)
{
  const word_t *left = &table->words[a->first], *right = &table->words[b->first];
  uint32_t most = a->count < b->count ? a->count : b->count, shared = 0;

  while (a->frame == b->frame && shared < most && left[shared].value == right[shared].value &&
         left[shared].distance == right[shared].distance)
    shared++;
  return shared;
}

static void add(table_t *table, uintptr_t frame, uint32_t number, uint32_t count)
{
  uint32_t index = (table->oldest + table->entry_count) % ENTRIES;
  uint8_t *bucket = bucket_of(table, frame);

  gp_assert(table->entry_count < ENTRIES && count <= ENTRY_WORDS);
  table->entries[index] = (entry_t){
      .frame = frame,
      .number = number,
      .first = (uint16_t)table->head,
      .count = (uint16_t)count,
      .next = *bucket,
  };
  if (*bucket)
    table->entries[index].shared =
        (uint16_t)count_shared(table, &table->entries[index], &table->entries[*bucket - 1]);
  *bucket = (uint8_t)(index + 1);
  table->head += count;
  table->entry_count++;
  table->counts.learnt++;
  note_last(table, (uint8_t)(index + 1));
}

/* The state of an unwinding by rules. rbp matters only if a rule needs it. Elsewhere a function may keep any
 * value in rbp, and two stacks that differ only in such a value are the same stack. */
typedef struct walk {
  uintptr_t frame;
  uintptr_t cfa;     /* CFA of the frame that was left last */
  uintptr_t rbp_at;  /* address of the word that contains the current rbp */
  bool has_rbp;      /* false: rbp_at is unknown */
  bool rbp_is_noted; /* the word at rbp_at is already stored in `words` */
  word_t *words;
  uint32_t count;
} walk_t;

/* Returns true if the address is aligned, on this stack and near the current frame. The unwinder has just
 * read this part of the stack, so such an address is readable. */
static bool is_near(const walk_t *walk, uintptr_t address)
{
  return address >= walk->frame && address < walk->cfa + FRAME_BYTES_MAX &&
         address % sizeof(uintptr_t) == 0 && gp_stack_holds_words(address);
}

static bool note(walk_t *walk, uintptr_t address, uintptr_t *ret_value)
{
  if (walk->count == ENTRY_WORDS || !is_near(walk, address))
    return false;
  *ret_value = *(const uintptr_t *)address;
  walk->words[walk->count++] = (word_t){*ret_value, address - walk->frame};
  return true;
}

static bool need_rbp(walk_t *walk, uintptr_t *ret_rbp)
{
  if (!walk->has_rbp || !is_near(walk, walk->rbp_at))
    return false;
  *ret_rbp = *(const uintptr_t *)walk->rbp_at;
  uintptr_t noted;
  if (!walk->rbp_is_noted && !note(walk, walk->rbp_at, &noted))
    return false;
  walk->rbp_is_noted = true;
  return true;
}

/* Unwinds one frame. Stores the words that determine the result, and the word that contains the return
 * address. Returns false if the rule cannot be followed. */
static bool leave_frame(walk_t *walk, const gp_frame_rule_t *rule, uintptr_t *ret_address)
{
  uintptr_t cfa = walk->cfa, rbp = 0;

  if (rule->cfa == GP_CFA_UNKNOWN || rule->cfa == GP_CFA_OUTERMOST)
    return false;
  if ((rule->cfa != GP_CFA_RSP || rule->rbp == GP_RBP_AT_RBP) && !need_rbp(walk, &rbp))
    return false;
  if (rule->cfa == GP_CFA_RSP)
    cfa += (uintptr_t)(intptr_t)rule->cfa_offset;
  else if (rule->cfa == GP_CFA_RBP)
    cfa = rbp + (uintptr_t)(intptr_t)rule->cfa_offset;
  else if (!note(walk, rbp + (uintptr_t)(intptr_t)rule->cfa_offset, &cfa))
    return false;
  if (cfa <= walk->cfa || !note(walk, cfa - sizeof(uintptr_t), ret_address))
    return false;
  if (rule->rbp != GP_RBP_SAME) {
    walk->has_rbp = rule->rbp != GP_RBP_UNKNOWN;
    walk->rbp_at = (rule->rbp == GP_RBP_AT_CFA ? cfa : rbp) + (uintptr_t)(intptr_t)rule->rbp_offset;
    walk->rbp_is_noted = false;
  }
  walk->cfa = cfa;
  return true;
}

/* Follows the rules from frame to frame. Returns true if they lead to exactly these addresses and, unless
 * is_cut is set, end after the last one. */
static bool walk_to(
    walk_t *walk, const gp_frame_rule_t *rules, void *const *addresses, size_t count, bool is_cut)
{
  uintptr_t address;

  /* The walk starts in the site's function, whose frame pointer is known. */
  walk->cfa = walk->frame + 2 * sizeof(uintptr_t);
  walk->rbp_at = walk->frame;
  walk->has_rbp = true;
  if (!note(walk, walk->frame + sizeof(uintptr_t), &address))
    return false;
  for (size_t i = 0; i + 1 < count; i++) {
    if (address != (uintptr_t)addresses[i] || !leave_frame(walk, &rules[i], &address))
      return false;
  }
  if (address != (uintptr_t)addresses[count - 1])
    return false;
  if (is_cut || rules[count - 1].cfa == GP_CFA_OUTERMOST)
    return true;
  return leave_frame(walk, &rules[count - 1], &address) && address == 0;
}

static __attribute__((noinline)) bool learn(table_t *table, const gp_known_site_t *site, uint32_t number,
    void *const *addresses, size_t count, bool is_cut)
{
  gp_frame_rule_t rules[LEARNT_FRAMES];
  walk_t walk = {.frame = (uintptr_t)site->frame};

  /* The rules must be those of the captured code, so nothing may have been unloaded since the capture. */
  if (count > LEARNT_FRAMES || gp_frame_rules_find(addresses, count, rules).unloads != site->unloads)
    return false;
  walk.words = make_room(table);
  if (!walk_to(&walk, rules, addresses, count, is_cut))
    return false;
  add(table, walk.frame, number, walk.count);
  return true;
}

/* Returns true if the stack is captured for the second time. Limits the number of attempts if they rarely
 * lead to hits. */
static bool is_worth_it(table_t *table, uint32_t number)
{
  uint32_t *seen = &table->seen[number % SEEN];

  if (*seen != number) {
    *seen = number;
    return false;
  }
  if (table->attempts >= FREE_ATTEMPTS + table->counts.found / HITS_PER_ATTEMPT &&
      ++table->skipped % SKIPPED_ATTEMPTS != 0)
    return false;
  table->attempts++;
  return true;
}

void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut)
{
  const void *returns_to = ((void *const *)site->frame)[1];
  size_t own = 0; /* number of frames of the functions that the site has called */

  while (own < count && addresses[own] != returns_to)
    own++;
  if (number == 0 || own == count)
    return;
  if (!tls_table)
    tls_table = gp_pages_map(sizeof(*tls_table), false);
  table_t *table = tls_table;
  if (!enter(table))
    return;
  if (table->table_id != site->table_id || table->unloads != site->unloads)
    clear(table, site);
  if (is_worth_it(table, number) && !learn(table, site, number, addresses + own, count - own, is_cut))
    table->counts.refused++;
  leave(table);
}

void gp_known_stacks_thread_ended(void)
{
  table_t *table = tls_table;
  tls_table = NULL;
  gp_pages_unmap(table, sizeof(*table));
}

gp_known_counts_t gp_known_stacks_counts(void)
{
  return tls_table ? tls_table->counts : (gp_known_counts_t){0};
}
