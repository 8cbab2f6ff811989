/* run_model FILE DEVICE [OUTPUTS [INPUTS]]: runs a model that `heddle compile` made and says what it takes and gives.
 *
 * INPUTS holds the values of all inputs one after the other, as they lie in memory; without it they are zeros. OUTPUTS
 * gets those of all outputs. Build: cc -std=c99 run_model.c -lheddle_runtime. */
#include <heddle/runtime/heddle.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const heddle_model* model, const char* what) {
  fprintf(stderr, "%s: %s\n", what, heddle_error(model));
  return 1;
}

static void show(const char* what, const heddle_port* port) {
  printf("%s %s: type %d, %llu bytes, shape", what, port->name, (int)port->type, (unsigned long long)port->bytes);
  for (int32_t d = 0; d < port->rank; ++d) printf(" %lld", (long long)port->shape[d]);
  printf("\n");
}

static int give_inputs(heddle_model* model, FILE* file) {
  heddle_port port;
  for (uint32_t i = 0; heddle_input_port(model, i, &port) == HEDDLE_OK; ++i) {
    void* values = calloc(port.bytes > 0 ? (size_t)port.bytes : 1, 1);
    heddle_status status = HEDDLE_OUT_OF_MEMORY;
    show("input", &port);
    if (values != NULL && (file == NULL || fread(values, 1, (size_t)port.bytes, file) == (size_t)port.bytes))
      status = heddle_input(model, i, values, port.bytes);
    free(values);
    if (status != HEDDLE_OK) return fail(model, port.name);
  }
  return 0;
}

static int take_outputs(heddle_model* model, FILE* file) {
  heddle_port port;
  for (uint32_t i = 0; heddle_output_port(model, i, &port) == HEDDLE_OK; ++i) {
    void* values = malloc(port.bytes > 0 ? (size_t)port.bytes : 1);
    heddle_status status = values == NULL ? HEDDLE_OUT_OF_MEMORY : heddle_output(model, i, values, port.bytes);
    show("output", &port);
    if (status == HEDDLE_OK && file != NULL) fwrite(values, 1, (size_t)port.bytes, file);
    free(values);
    if (status != HEDDLE_OK) return fail(model, port.name);
  }
  return 0;
}

int main(int count, char** arguments) {
  heddle_model* model = NULL;
  FILE* inputs = count > 4 ? fopen(arguments[4], "rb") : NULL;
  FILE* outputs = count > 3 ? fopen(arguments[3], "wb") : NULL;
  int result;
  if (count < 3) return 2;
  if (heddle_open(arguments[1], arguments[2], 0, &model) != HEDDLE_OK) return fail(NULL, arguments[1]);
  printf("%s on %s, bucket '%s'\n", arguments[1], heddle_device(model), heddle_bucket(model, 0));
  result = give_inputs(model, inputs);
  if (result == 0 && heddle_run(model) != HEDDLE_OK) result = fail(model, "run");
  if (result == 0) result = take_outputs(model, outputs);
  heddle_close(model);
  if (inputs != NULL) fclose(inputs);
  if (outputs != NULL) fclose(outputs);
  return result;
}
