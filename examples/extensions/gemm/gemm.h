// A library of one's own that multiplies matrices: plain C, and knows nothing of Weft.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// c [m, n] = a [m, k] times b [k, n], row-major, all in a row. Counts its calls; with
// MINE_GEMM_COUNT in the environment it says at the end of the process how many there were.
void mine_gemm(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);
int64_t mine_gemm_calls(void);

#ifdef __cplusplus
}
#endif
