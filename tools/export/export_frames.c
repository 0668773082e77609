/*
 * Returns texts for frames. Function names come from the snapshot. A frame without a name is shown as its
 * offset in a module, which is the same in every run, or else as its address.
 */
#include <inttypes.h>
#include <string.h>

#include "tools/export/export.h"
#include "tools/shorten.h"
#include "tools/tool.h"

#define OFFSET_BYTES 24 /* enough for "+0x" and 16 digits */

static const gp_snapshot_module_t *module_of(const gp_snapshot_t *snapshot, const gp_snapshot_frame_t *frame)
{
  return frame->module >= 0 ? &snapshot->modules[frame->module] : NULL;
}

const char *gp_export_frame_function(const gp_snapshot_t *snapshot, size_t index, char *buffer)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  const gp_snapshot_module_t *module = module_of(snapshot, frame);

  if (frame->function[0])
    return frame->function;
  if (module) {
    gp_printable(gp_base_name(module->path), buffer, GP_EXPORT_FRAME_BYTES - OFFSET_BYTES);
    size_t used = strlen(buffer);
    snprintf(buffer + used, OFFSET_BYTES, "+0x%" PRIx64, frame->address - module->bias);
  } else if (frame->address) {
    snprintf(buffer, GP_EXPORT_FRAME_BYTES, "0x%" PRIx64, frame->address);
  } else {
    return "??";
  }
  return buffer;
}

const char *gp_export_frame_file(const gp_snapshot_t *snapshot, size_t index)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  const gp_snapshot_module_t *module = module_of(snapshot, frame);
  return frame->file[0] ? frame->file : module ? module->path : "";
}
