/* Sorts the rows of a float32 matrix, and says where each element came from; in C, with its
 * derivative. */
#include <stdlib.h>

#include "runtime/abi/weft_custom.h"

typedef struct {
  float value;
  int64_t index;
} entry;

static int before(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->value != y->value)
    return x->value < y->value ? -1 : 1;
  return x->index < y->index ? -1 : 1; /* equal ones stay in order */
}

static int64_t rows(const weft_custom_call *call) {
  return call->inputs[0].dims[0];
}

/* x -> (sorted, positions) */
static const char *infer_sort(const weft_custom_call *call, weft_custom_shape *outputs) {
  if (call->num_inputs != 1 || call->inputs[0].dtype != WEFT_FLOAT32 || call->inputs[0].rank != 2)
    return "takes one float32 matrix";
  for (int i = 0; i < 2; ++i) {
    outputs[i].dtype = i == 0 ? WEFT_FLOAT32 : WEFT_INT64;
    outputs[i].rank = 2;
    for (int d = 0; d < 2; ++d)
      outputs[i].dims[d] = call->inputs[0].dims[d];
  }
  return NULL;
}

static const char *run_sort(const weft_custom_call *call, int64_t begin, int64_t end) {
  const int64_t n = call->inputs[0].dims[1];
  entry *row = malloc((size_t)(n + 1) * sizeof *row);
  if (!row)
    return "out of memory";
  for (int64_t r = begin; r < end; ++r) {
    const float *x = (const float *)call->inputs[0].data + r * n;
    for (int64_t i = 0; i < n; ++i)
      row[i] = (entry){x[i], i};
    qsort(row, (size_t)n, sizeof *row, before);
    for (int64_t i = 0; i < n; ++i) {
      ((float *)call->outputs[0].data)[r * n + i] = row[i].value;
      ((int64_t *)call->outputs[1].data)[r * n + i] = row[i].index;
    }
  }
  free(row);
  return NULL;
}

/* (x, sorted, positions, gradient of sorted) -> gradient of x */
static const char *infer_grad(const weft_custom_call *call, weft_custom_shape *outputs) {
  outputs[0].dtype = WEFT_FLOAT32;
  outputs[0].rank = 2;
  for (int d = 0; d < 2; ++d)
    outputs[0].dims[d] = call->inputs[0].dims[d];
  return NULL;
}

static const char *run_grad(const weft_custom_call *call, int64_t begin, int64_t end) {
  const int64_t n = call->inputs[0].dims[1];
  const int64_t *position = call->inputs[2].data;
  const float *g = call->inputs[3].data;
  for (int64_t i = begin * n; i < end * n; ++i)
    ((float *)call->outputs[0].data)[i / n * n + position[i]] = g[i];
  return NULL;
}

const char *weft_kernel_plugin(weft_register_kernel_function register_kernel) {
  const weft_custom_kernel sort = {
      sizeof sort, WEFT_CUSTOM_ABI_VERSION, "mine.sort", 2, infer_sort, run_sort,
      rows,        "mine.sort_grad"};
  const weft_custom_kernel grad = {
      sizeof grad, WEFT_CUSTOM_ABI_VERSION, "mine.sort_grad", 1, infer_grad, run_grad, rows, NULL};
  const char *wrong = register_kernel(&sort);
  return wrong ? wrong : register_kernel(&grad);
}
