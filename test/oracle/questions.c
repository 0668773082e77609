/*
 * What a generator asks of the model: what exists, what is free, what a program still waits for.
 */
#include "model_state.h"

const model_mem_t *model_mem(const model_t *model, int mem)
{
  return &model->mems[mem];
}

const model_mem_t *model_late_mem(const model_t *model, int mem)
{
  const late_t *late = &model->lates[mem];
  return late->gates ? &late->mem : NULL;
}

bool model_lane_is_live(const model_t *model, int lane)
{
  return lane >= 0 && model->lanes[lane].live;
}

bool model_event_is_live(const model_t *model, int event)
{
  return model->events[event].live;
}

bool model_ctx_is_live(const model_t *model, int ctx)
{
  return model->ctx_live[ctx];
}

bool model_graph_is_live(const model_t *model, int graph)
{
  return model->graphs[graph].live;
}

int model_capture(const model_t *model)
{
  return model->capture;
}

int model_new_mem(const model_t *model)
{
  return model->mem_count < MAX_MEMS ? model->mem_count : -1;
}

int model_new_lane(const model_t *model)
{
  return model->lane_count < LANE_END ? model->lane_count : -1;
}

int model_new_event(const model_t *model)
{
  return model->event_count < MAX_EVENTS ? model->event_count : -1;
}

int model_new_graph(const model_t *model)
{
  return model->graph_count < MAX_GRAPHS ? model->graph_count : -1;
}

int model_new_wait(const model_t *model)
{
  return model->behind.count < MAX_WAITS ? model->behind.count : -1;
}

int model_open_wait(const model_t *model, bool meets)
{
  for (int i = 0; i < model->behind.count; i++) {
    if (model->behind.kernels[i].open && model->behind.kernels[i].meets == meets)
      return i;
  }
  return -1;
}

int model_lane_ctx(const model_t *model, int lane)
{
  return model->lanes[lane].ctx;
}

/* Contexts 0 and 2 are of device 0. */
bool model_share_device(int ctx, int other)
{
  return (ctx == 1) == (other == 1);
}

int model_open(const model_t *model)
{
  return model->around.steps;
}
