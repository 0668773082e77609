#include "tools/control/live_owners.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "tools/model/sites.h"
#include "tools/read/load.h"
#include "tools/read/record/record_reader.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"

/* The snapshot of the record, through a file that has no name. NULL: it cannot be made. */
static gp_snapshot_t *snapshot_of(int fd)
{
  static gp_record_t record; /* too large for a stack */
  static char buffer[65536];
  gp_snapshot_t *snapshot = NULL;
  char path[64];
  gp_json_t json;

  int file = (int)syscall(SYS_memfd_create, "gpupool", MFD_CLOEXEC); /* newer than the C library may be */
  if (file >= 0 && gp_record_read(fd, &record)) {
    gp_json_init(&json, file, buffer, sizeof(buffer));
    gp_document_write(&json, &record.document);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (gp_json_finish(&json) == 0)
      snapshot = gp_snapshot_load(path, 0);
  }
  gp_record_fini(&record);
  if (file >= 0)
    close(file);
  return snapshot;
}

static bool find_owners(gp_snapshot_t *snapshot, gp_live_owners_t *owners)
{
  const gp_request_t everything = {.device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX};
  gp_lifetimes_t lifetimes;
  gp_moments_t now;
  gp_filter_t filter;
  gp_sites_t sites;

  if (gp_stack_owners_find(snapshot, NULL) || gp_filter_init(&filter, &everything, snapshot, "the record"))
    return false;
  bool good = gp_lifetimes_init(&lifetimes, snapshot) == 0;
  if (good) {
    gp_moments_end(&now, &lifetimes);
    good = gp_sites_init(&sites, &lifetimes, &filter, &now, GP_SITE_BY_FUNCTION, NULL, NULL) == 0;
    gp_sites_sort(&sites, GP_SITE_LIVE, false);
    owners->bytes = sites.sums[GP_SITE_LIVE].bytes;
    for (size_t i = 0; good && i < sites.count && owners->count < GP_LIVE_OWNERS; i++) {
      const gp_site_t *site = &sites.sites[i];
      gp_live_owner_t *owner = &owners->owners[owners->count];
      if (!site->flat[GP_SITE_LIVE].bytes)
        break;
      *owner = (gp_live_owner_t){
          .bytes = site->flat[GP_SITE_LIVE].bytes, .blocks = site->flat[GP_SITE_LIVE].count};
      snprintf(owner->name, sizeof(owner->name), "%s", site->name);
      owners->count++;
    }
    gp_sites_fini(&sites);
  }
  gp_lifetimes_fini(&lifetimes);
  gp_filter_fini(&filter);
  return good;
}

bool gp_live_owners_read(int fd, gp_live_owners_t *ret_owners)
{
  ret_owners->count = 0;
  ret_owners->bytes = 0;
  gp_snapshot_t *snapshot = snapshot_of(fd);
  if (!snapshot)
    return false;
  gp_symbols_resolve(snapshot, NULL);
  bool good = find_owners(snapshot, ret_owners);
  gp_snapshot_destroy(snapshot);
  return good;
}
