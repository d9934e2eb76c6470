// x W' + bias for 1 to 8 rows of x: every weight is read once, several rows of W at a time so that
// memory is asked for more than one stream.
#pragma once
#include "vec.h"

namespace hitherto::HITHERTO_ISA {

template <bool Brain>
INLINE F load_weight(const char* p, int64_t i) {
  if constexpr (Brain) return load_bfloat(reinterpret_cast<const uint16_t*>(p) + i);
  else return load(reinterpret_cast<const float*>(p) + i);
}

INLINE float read_one(const char* p, Dtype dtype, int64_t i) {
  float x;
  widen(&x, p + i * (dtype == Dtype::float32 ? 4 : 2), dtype, 1);
  return x;
}

// R rows of x by C rows of W. x has been widened, `width` apart.
template <int64_t R, int64_t C, bool Brain>
INLINE void dots(const Linear& p, const float* x, int64_t output) {
  const int64_t size = Brain ? 2 : 4, whole = p.width / W * W;
  const char* weight[C];
  for (int64_t c = 0; c < C; ++c) weight[c] = p.weight + (output + c) * p.w_stride * size;
  F acc[R][C] = {};
  for (int64_t i = 0; i < whole; i += W) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) {
      const F w = load_weight<Brain>(weight[c], i);
#pragma GCC unroll 8
      for (int64_t r = 0; r < R; ++r) acc[r][c] += load(x + r * p.width + i) * w;
    }
  }
  for (int64_t r = 0; r < R; ++r)
    for (int64_t c = 0; c < C; ++c) {
      float total = sum(acc[r][c]);
      for (int64_t i = whole; i < p.width; ++i)
        total += x[r * p.width + i] * read_one(weight[c], p.dtype, i);
      if (p.bias) total += p.bias[output + c];
      narrow(p.out + (r * p.outputs + output + c) * size, &total, p.dtype, 1, 1.0f);
    }
}

template <int64_t R, bool Brain>
inline void outputs_between(const Linear& p, const float* x, int64_t first, int64_t stop) {
  constexpr int64_t C = R <= 2 ? 4 : R <= 4 ? 2 : 1;
  for (; first + C <= stop; first += C) dots<R, C, Brain>(p, x, first);
  for (; first < stop; ++first) dots<R, 1, Brain>(p, x, first);
}

template <bool Brain, int64_t R = 8>
inline void outputs_of(const Linear& p, const float* x, int64_t first, int64_t stop) {
  if (p.rows == R) return outputs_between<R, Brain>(p, x, first, stop);
  if constexpr (R > 1) outputs_of<Brain, R - 1>(p, x, first, stop);
}

inline void linear(const Linear& p) {
  const Buffer x(p.rows * p.width);
  const int64_t size = p.dtype == Dtype::float32 ? 4 : 2;
  for (int64_t r = 0; r < p.rows; ++r)
    widen(x + r * p.width, p.x + r * p.x_stride * size, p.dtype, p.width);
  constexpr int64_t step = 32;  // outputs a thread takes at a time
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static)
  for (int64_t first = 0; first < p.outputs; first += step) {
    const int64_t stop = least(first + step, p.outputs);
    if (p.dtype == Dtype::bfloat16) outputs_of<true>(p, x, first, stop);
    else outputs_of<false>(p, x, first, stop);
  }
}

}  // namespace hitherto::HITHERTO_ISA
