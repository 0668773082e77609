/* What the libraries have that `stacks unload` loads. */
#ifndef GP_PROG_STACKS_PLUGIN_H
#define GP_PROG_STACKS_PLUGIN_H

typedef int plugin_run_fn(void);
plugin_run_fn plugin_run; /* 0: good */

#endif
