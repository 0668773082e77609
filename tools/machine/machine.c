#include "tools/machine/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/saturated.h"
#include "tools/tool.h"
#include "trace/region/record_file.h"

typedef struct reading {
  gp_machine_t *machine;
  gp_processes_t processes;
  gp_record_look_t look;
} reading_t;

/* The command is the arguments, with the program's name in the place of the first. */
void gp_machine_describe(const gp_record_look_t *look, gp_machine_process_t *process)
{
  const gp_description_t *description = &look->description;
  const char *program = gp_description_find(description, "program");
  const char *host = gp_description_find(description, "host");
  const char *slash = program ? strrchr(program, '/') : NULL;
  char command[GP_COMMAND_BYTES];
  gp_description_pair_t pair;
  bool is_first = true;

  gp_printable(slash ? slash + 1 : program ? program : "?", process->program, sizeof(process->program));
  gp_printable(host ? host : "", process->host, sizeof(process->host));
  gp_printable(look->header.library_version, process->version, sizeof(process->version));
  size_t used = (size_t)snprintf(command, sizeof(command), "%s", process->program);
  for (size_t at = 0; used < sizeof(command) && gp_description_next(description, &at, &pair);) {
    if (strcmp(pair.key, "argument") != 0)
      continue;
    if (!is_first)
      used += (size_t)snprintf(command + used, sizeof(command) - used, " %s", pair.value);
    is_first = false;
  }
  gp_printable(command, process->command, sizeof(process->command));
}

void gp_machine_figures(const gp_device_record_t *record, gp_machine_device_t *device)
{
  const gp_stats_t *stats = &record->stats;
  *device = (gp_machine_device_t){
      .held = gp_add_saturated(stats->reserved_bytes.current, stats->passthrough_bytes.current),
      .peak = gp_add_saturated(stats->reserved_bytes.peak, stats->passthrough_bytes.peak),
      .used = gp_add_saturated(stats->requested_bytes.current, stats->passthrough_bytes.current),
      .cached = stats->cached_bytes.current,
      .pinned = stats->pinned_host_bytes.current,
      .limit = record->limit,
      .hits = stats->cache_hits,
      .misses = stats->cache_misses,
      .driver_calls = gp_add_saturated(stats->driver_allocs, stats->driver_frees),
      .ooms = stats->num_ooms};
}

static int add_device(reading_t *reading, int fd, int ordinal)
{
  gp_machine_t *machine = reading->machine;
  gp_device_record_t record;
  bool is_settled;

  if (!gp_record_look_device(fd, &reading->look, ordinal, &record, &is_settled))
    return 0;
  gp_machine_device_t *device = GP_ARRAY_ADD(machine->devices, machine->device_count);
  if (!device)
    return ENOMEM;
  gp_machine_figures(&record, device);
  device->process = machine->process_count - 1;
  device->ordinal = ordinal;
  device->is_settled = is_settled;
  machine->processes[device->process].device_count++;
  return 0;
}

static int add_process(void *self, const gp_found_record_t *found)
{
  reading_t *reading = self;
  gp_machine_t *machine = reading->machine;
  int error = 0;

  if (!gp_record_file_is_in_use(found->fd, found->pid))
    return 0;
  gp_look_result_t result = gp_record_look(found->fd, &reading->look);
  if (result == GP_LOOK_NOTHING)
    return 0;
  gp_machine_process_t *process = GP_ARRAY_ADD(machine->processes, machine->process_count);
  if (!process)
    return ENOMEM;
  process->pid = gp_processes_find(
      &reading->processes, found->pid, found->place, found->user, found->device, found->inode);
  process->inside = found->pid;
  process->user = found->user;
  process->start_time_us = found->start_time_us;
  process->is_of_other_build = result == GP_LOOK_OTHER_BUILD;
  process->first_device = machine->device_count;
  gp_machine_describe(&reading->look, process);
  if (process->pid > 0)
    gp_process_container(process->pid, process->container, process->pod);
  for (int ordinal = 0; !error && !process->is_of_other_build && ordinal < GP_MAX_DEVICES; ordinal++)
    error = add_device(reading, found->fd, ordinal);
  return error;
}

int gp_machine_visit(gp_record_visit_fn visit, void *self)
{
  gp_processes_t processes;
  int error = gp_processes_read(&processes);
  if (!error)
    error = gp_records_walk(&processes, visit, self);
  gp_processes_fini(&processes);
  return error;
}

int gp_machine_read(gp_machine_t *machine)
{
  *machine = (gp_machine_t){0};
  reading_t *reading = calloc(1, sizeof(*reading));
  if (!reading)
    return ENOMEM;
  reading->machine = machine;
  int error = gp_processes_read(&reading->processes);
  if (!error)
    error = gp_records_walk(&reading->processes, add_process, reading);
  gp_processes_fini(&reading->processes);
  free(reading);
  return error;
}

void gp_machine_fini(gp_machine_t *machine)
{
  free(machine->processes);
  free(machine->devices);
  *machine = (gp_machine_t){0};
}
