/* game_loop DEVICE FRAMES FILE...: several models inside a loop that may not wait, as a game's is.
 *
 * A frame has 1/60 s, of which models may take 4 ms: one that is not done by then goes on while the next frames are
 * drawn, and the frame that finds it done takes its result. Nothing is allocated in the loop. */
#define _POSIX_C_SOURCE 199309L
#include <heddle/runtime/heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { most_models = 8 };

typedef struct agent {
  heddle_model* model;
  unsigned char *input, *output;
  heddle_port in, out;
  int running;
  unsigned long results, late; /* late: frames that ended before it was done */
} agent;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int open_agent(agent* a, const char* file, const char* device) {
  if (heddle_open(file, device, 0, &a->model) != HEDDLE_OK) {
    fprintf(stderr, "%s: %s\n", file, heddle_error(NULL));
    return 1;
  }
  if (heddle_input_port(a->model, 0, &a->in) != HEDDLE_OK) return 1;
  if (heddle_output_port(a->model, 0, &a->out) != HEDDLE_OK) return 1;
  a->input = calloc((size_t)a->in.bytes + 1, 1);
  a->output = calloc((size_t)a->out.bytes + 1, 1);
  return a->input == NULL || a->output == NULL;
}

/* Takes a result that is there, starts the next run. 0: it goes on; -1: it failed. */
static int step(agent* a) {
  int done = 0;
  if (!a->running) {
    if (heddle_input(a->model, 0, a->input, a->in.bytes) != HEDDLE_OK || heddle_run(a->model) != HEDDLE_OK) return -1;
    a->running = 1;
  }
  if (heddle_done(a->model, &done) != HEDDLE_OK) return -1;
  if (!done) return 0;
  if (heddle_output(a->model, 0, a->output, a->out.bytes) != HEDDLE_OK) return -1;
  a->running = 0;
  a->results++;
  return 1;
}

static int frame(agent* agents, int count, double budget) {
  const double begin = now();
  int fresh[most_models] = {0}, left = count;
  while (left > 0 && now() - begin < budget) {
    for (int i = 0; i < count; ++i) {
      int state;
      if (fresh[i]) continue;
      state = step(&agents[i]);
      if (state < 0) return -1;
      fresh[i] = state;
      left -= state;
    }
  }
  for (int i = 0; i < count; ++i) agents[i].late += (unsigned long)!fresh[i];
  return 0;
}

int main(int count, char** arguments) {
  const double frame_seconds = 1.0 / 60, budget = 0.004;
  static agent agents[most_models];
  const int models = count - 3;
  int failed = models < 1 || models > most_models;
  const int frames = failed ? 0 : atoi(arguments[2]);
  double worst = 0;
  for (int i = 0; i < models && !failed; ++i) failed = open_agent(&agents[i], arguments[3 + i], arguments[1]);
  for (int f = 0; f < frames && !failed; ++f) {
    const double begin = now();
    struct timespec rest = {0, 0};
    double spent;
    failed = frame(agents, models, budget) < 0;
    spent = now() - begin;
    if (spent > worst) worst = spent;
    if (spent < frame_seconds) rest.tv_nsec = (long)(1e9 * (frame_seconds - spent)); /* the game draws */
    nanosleep(&rest, NULL);
  }
  for (int i = 0; i < models && agents[i].model != NULL; ++i) {
    if (failed) fprintf(stderr, "%s: %s\n", arguments[3 + i], heddle_error(agents[i].model));
    printf("%s: %lu results, %lu frames without one\n", arguments[3 + i], agents[i].results, agents[i].late);
    heddle_close(agents[i].model);
    free(agents[i].input);
    free(agents[i].output);
  }
  printf("%d frames, models took at most %.1f ms of one\n", frames, 1e3 * worst);
  return failed;
}
