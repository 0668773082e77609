/* The details of events (details.def): one stored code, and an enumeration for each group of details. The
 * enumerators equal the stored codes, so code can assign one to the other. */
#ifndef GP_FORMAT_DETAILS_H
#define GP_FORMAT_DETAILS_H

#include <stdint.h>

/* A stored code. The event's action determines the enumeration to which the code belongs. */
typedef uint8_t gp_detail_t;

enum {
#define REASON(enumerator, name)         GP_DETAIL_##enumerator,
#define TRIM_REASON(enumerator, name)    GP_DETAIL_TRIM_##enumerator,
#define MODE(enumerator, name)           GP_DETAIL_MODE_##enumerator,
#define MODE_CAUSE(enumerator, name)     GP_DETAIL_MODE_CAUSE_##enumerator,
#define FORWARDED_KIND(enumerator, name) GP_DETAIL_FORWARDED_##enumerator,
#define DAMAGE_KIND(enumerator, name)    GP_DETAIL_DAMAGE_##enumerator,
#include "format/details.def"
  GP_DETAIL_COUNT
};

/* The reason of a trim event, and of the segment_free events that the trim causes. */
typedef enum gp_trim_reason {
#define TRIM_REASON(enumerator, name) GP_TRIM_##enumerator = GP_DETAIL_TRIM_##enumerator,
#include "format/details.def"
} gp_trim_reason_t;

/* The new mode in a mode event. */
typedef enum gp_mode {
#define MODE(enumerator, name) GP_MODE_##enumerator = GP_DETAIL_MODE_##enumerator,
#include "format/details.def"
} gp_mode_t;

/* For damage events. */
typedef enum gp_damage_kind {
#define DAMAGE_KIND(enumerator, name) GP_DAMAGE_##enumerator = GP_DETAIL_DAMAGE_##enumerator,
#include "format/details.def"
} gp_damage_kind_t;

/* The kind of memory in passthrough_alloc and passthrough_free events. */
typedef enum gp_forwarded_kind {
#define FORWARDED_KIND(enumerator, name) GP_FORWARDED_##enumerator = GP_DETAIL_FORWARDED_##enumerator,
#include "format/details.def"
} gp_forwarded_kind_t;

/* Returns the detail's name in the snapshot; never NULL for a code below GP_DETAIL_COUNT. */
const char *gp_detail_name(gp_detail_t detail);

#endif
