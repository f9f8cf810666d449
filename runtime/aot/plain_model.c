// A C program with no model of its own: it shows that the header is C, and that nothing of oneDNN
// comes along unasked.
#include <stdio.h>

#include "runtime/aot/weft_model.h"

int main(void) {
  weft_model *model;
  return weft_model_open(NULL, NULL, &model) == 0 || puts(weft_model_error()) < 0;
}
