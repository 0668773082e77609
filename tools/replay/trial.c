#include "tools/replay/trial.h"

#include "tools/replay/figures.h"

int gp_trial_hit_rate(
    const gp_workload_t *workload, const gp_settings_t *settings, int device, double *ret_rate)
{
  static gp_simulation_t simulation; /* static, as `options` is, because it is too large for the stack */
  static gp_options_t options;
  gp_figures_t figures;

  gp_settings_resolve(settings, workload, &options);
  int error = gp_simulate(&simulation, workload, &options, 0, 1, NULL);
  gp_figures_of(&figures, &simulation, workload, GP_PASS_COLD, device);
  *ret_rate = gp_figures_hit_rate(&figures);
  return error;
}
