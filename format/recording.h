/* How much is recorded (recording.def). */
#ifndef GP_FORMAT_RECORDING_H
#define GP_FORMAT_RECORDING_H

typedef enum gp_recording {
#define RECORDING(enumerator, name) GP_RECORDING_##enumerator,
#include "format/recording.def"
  GP_RECORDING_COUNT
} gp_recording_t;

/* Returns the name in the snapshot of a value of GPUPOOL_TRACE; never NULL for a valid enumerator. */
const char *gp_recording_name(gp_recording_t recording);

#endif
