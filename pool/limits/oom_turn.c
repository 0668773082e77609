#include "pool/limits/oom_turn.h"

#include "pool/space/driver_calls.h"
#include "pool/engine_record.h"

/* A thread that waits for the turn. The record is on the thread's stack, and the list is in the order of
 * tickets. */
typedef struct waiter {
  gp_list_t link;
  uint64_t ticket;
} waiter_t;

static void enqueue(gp_oom_turn_t *turn, waiter_t *waiter)
{
  gp_list_t *next = &turn->waiting;

  while (next->prev != &turn->waiting && gp_list_entry(next->prev, waiter_t, link)->ticket > waiter->ticket)
    next = next->prev;
  gp_list_push_back(next, &waiter->link);
}

static bool is_free_for(const gp_oom_turn_t *turn, const waiter_t *waiter)
{
  return turn->holder == 0 && (gp_list_is_empty(&turn->waiting) || turn->waiting.next == &waiter->link);
}

static bool is_reserved_for_another(const gp_oom_turn_t *turn)
{
  return turn->is_reserved && turn->holder != gp_this_thread();
}

/* The progress of the turn's holder as seen by a thread that waits for it. */
typedef struct patience {
  uint64_t progress; /* result of progress_of at the last check */
  uint64_t since_ns; /* time at which the thread last saw `progress` change */
  uint64_t pause_ns;
} patience_t;

/* Returns a number that changes when the holder makes progress. The caller holds the device's lock. */
static uint64_t progress_of(const gp_device_t *device)
{
  return device->oom_turn.changes + device->releases.finished_count;
}

static patience_t begin(gp_engine_t *engine, const gp_device_t *device)
{
  return (patience_t){
      .progress = progress_of(device), .since_ns = gp_now(engine), .pause_ns = GP_FIRST_PAUSE_NS};
}

/* Releases the device's lock, sleeps, and takes the lock again. Returns false, without sleeping, if the
 * holder has made no progress for GP_OOM_STALL_NS. */
static bool sleep_on(gp_engine_t *engine, gp_device_t *device, patience_t *patience)
{
  uint64_t now_ns = gp_now(engine);

  if (patience->progress != progress_of(device)) {
    *patience = begin(engine, device);
    patience->since_ns = now_ns;
  } else if (now_ns - patience->since_ns >= GP_OOM_STALL_NS) {
    return false;
  }
  gp_lock_release(&device->lock);
  gp_driver_pause(engine, patience->pause_ns);
  patience->pause_ns = gp_next_pause(patience->pause_ns);
  gp_lock_take(&device->lock);
  return true;
}

bool gp_oom_turn_take(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts)
{
  gp_oom_turn_t *turn = &device->oom_turn;
  waiter_t waiter;
  bool waits;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (attempts->ticket == 0)
    attempts->ticket = ++turn->tickets;
  waiter.ticket = attempts->ticket;
  waits = turn->holder != gp_this_thread() && !is_free_for(turn, &waiter);
  if (waits) {
    patience_t patience = begin(engine, device);
    enqueue(turn, &waiter);
    while (!is_free_for(turn, &waiter) && sleep_on(engine, device, &patience))
      ;
    gp_list_remove(&waiter.link);
  }
  if (turn->holder != gp_this_thread()) {
    turn->holder = gp_this_thread();
    turn->is_reserved = false;
  }
  turn->changes++;
  gp_lock_release(&device->lock);
  return waits;
}

void gp_oom_turn_leave(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  gp_oom_turn_t *turn = &gp_locked(device)->oom_turn;
  if (turn->holder == gp_this_thread()) {
    turn->holder = 0;
    turn->is_reserved = false;
    turn->changes++;
  }
  gp_lock_release(&device->lock);
}

void gp_oom_turn_pause(gp_engine_t *engine, gp_device_t *device, uint64_t ns)
{
  gp_oom_turn_leave(device);
  gp_driver_pause(engine, ns);
}

static void set_reserved(gp_device_t *device, bool is_reserved)
{
  gp_lock_take(&device->lock);
  gp_oom_turn_t *turn = &gp_locked(device)->oom_turn;
  if (turn->holder == gp_this_thread())
    turn->is_reserved = is_reserved;
  gp_lock_release(&device->lock);
}

void gp_oom_turn_reserve(gp_device_t *device)
{
  set_reserved(device, true);
}

void gp_oom_turn_attempted(gp_device_t *device)
{
  set_reserved(device, false);
}

void gp_oom_turn_respect(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_oom_turn_t *turn = &gp_locked(device)->oom_turn;
  turn->is_shared |= turn->thread != 0 && turn->thread != gp_this_thread();
  turn->thread = gp_this_thread();
  if (is_reserved_for_another(turn)) {
    patience_t patience = begin(engine, device);
    while (is_reserved_for_another(turn) && sleep_on(engine, device, &patience))
      ;
  }
  gp_lock_release(&device->lock);
}
