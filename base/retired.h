/* Settings of earlier versions. They are accepted, and one line names what replaces them. */
#ifndef GP_BASE_RETIRED_H
#define GP_BASE_RETIRED_H

#include <stdbool.h>

/*
 * Whether an earlier version had this setting, or this value of a setting that still exists. If so, reports
 * one line, which is no malformed value. name: as in options.def, with or without GPUPOOL_ in front.
 * *ret_used: the value that is used instead, a constant; NULL: the setting has no effect. problem may be
 * NULL. Any thread.
 */
bool gp_retired_report(const char *name, const char *value,
    void (*problem)(void *arg, bool malformed, const char *message), void *problem_arg,
    const char **ret_used);

#endif
