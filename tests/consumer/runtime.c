/* The C interface as an installed library: what can be said without a device. */
#include <heddle/runtime/heddle.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  heddle_model* model = NULL;
  if (heddle_abi() != HEDDLE_ABI) return 1;
  if (heddle_open("none.heddle", NULL, 0, &model) != HEDDLE_NO_FILE || model != NULL) return 2;
  if (strstr(heddle_error(NULL), "none.heddle") == NULL) return 3;
  heddle_close(model);
  puts("runtime: as it should be");
  return 0;
}
