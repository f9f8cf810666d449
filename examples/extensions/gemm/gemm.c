#include "gemm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_llong calls;

int64_t mine_gemm_calls(void) {
  return calls;
}

static void say(void) {
  fprintf(stderr, "mine_gemm: %lld call(s)\n", (long long)calls);
}

void mine_gemm(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  if (calls++ == 0 && getenv("MINE_GEMM_COUNT"))
    atexit(say);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j)
      c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] += a[i * k + p] * b[p * n + j];
  }
}
