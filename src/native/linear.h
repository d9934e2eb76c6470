// x W' + bias for 1 to 8 rows of x: every weight is read once, several rows of W at a time so that
// memory is asked for more than one stream.
#pragma once
#include "formats.h"

namespace hitherto::HITHERTO_ISA {

constexpr int64_t GROUP = 4;  // rows of x that are multiplied at once

// The rows of x as floats, group after group, and in each one vector of every row after another:
// rows that lie a power of two apart would all want the same few lines of the first cache.
inline void interleave(const Linear& p, float* to) {
  const int64_t size = p.dtype == Dtype::float32 ? 4 : 2;
  for (int64_t first = 0; first < p.rows; first += GROUP)
    for (int64_t i = 0; i < p.width; i += W)
      for (int64_t r = first; r < least(first + GROUP, p.rows); ++r, to += W) {
        float part[W] = {};
        widen(part, p.x + (r * p.x_stride + i) * size, p.dtype, least(W, p.width - i));
        store(to, load(part));
      }
}

// R rows of x, from `row` on, by C rows of W. The next C rows are asked for ahead.
template <Dtype D, int64_t R, int64_t C>
INLINE void dots(const Linear& p, const float* x, int64_t row, int64_t output) {
  constexpr int64_t size = D == Dtype::float32 ? 4 : 2;
  const int64_t whole = p.width / W * W, ahead = C * p.w_stride * size;
  const char* weight[C];
  for (int64_t c = 0; c < C; ++c) weight[c] = p.weight + (output + c) * p.w_stride * size;
  F acc[R][C] = {};
  const auto add = [&](int64_t i, auto read) INLINE_LAMBDA {
    F w[C];
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) w[c] = read(weight[c], i);
#pragma GCC unroll 4
    for (int64_t r = 0; r < R; ++r) {
      const F left = load(x + i * R + r * W);
#pragma GCC unroll 4
      for (int64_t c = 0; c < C; ++c) acc[r][c] += left * w[c];
    }
  };
#pragma GCC unroll 1
  for (int64_t i = 0; i < whole; i += W) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < C; ++c) __builtin_prefetch(weight[c] + ahead + i * size, 0, 2);
    add(i, [](const char* from, int64_t n) INLINE_LAMBDA { return load_as<D>(from, n); });
  }
  if (whole < p.width)
    add(whole, [&](const char* from, int64_t n) { return load_rest<D>(from, n, p.width - n); });
  for (int64_t r = 0; r < R; ++r)
    for (int64_t c = 0; c < C; ++c) {
      const float total = sum(acc[r][c]) + (p.bias ? p.bias[output + c] : 0);
      narrow(p.out + ((row + r) * p.outputs + output + c) * size, &total, D, 1, 1.0f);
    }
}

// Every row of x by C rows of W, which after the first group are still in cache.
template <Dtype D, int64_t C>
inline void all_rows(const Linear& p, const float* x, int64_t output) {
  const int64_t width = round_up(p.width, W);
  for (int64_t row = 0; row < p.rows; row += GROUP, x += GROUP * width) switch (p.rows - row) {
      case 1: dots<D, 1, C>(p, x, row, output); break;
      case 2: dots<D, 2, C>(p, x, row, output); break;
      case 3: dots<D, 3, C>(p, x, row, output); break;
      default: dots<D, 4, C>(p, x, row, output);
    }
}

template <Dtype D>
inline void outputs_between(const Linear& p, const float* x, int64_t first, int64_t stop) {
  constexpr int64_t C = 3;  // with 4 rows of x, as many sums as 16 registers leave room for
  for (; first + C <= stop; first += C) all_rows<D, C>(p, x, first);
  for (; first < stop; ++first) all_rows<D, 1>(p, x, first);
}

inline void linear(const Linear& p) {
  const Buffer x(p.rows * round_up(p.width, W));
  interleave(p, x);
  constexpr int64_t step = 48;  // outputs a thread takes at a time
#pragma omp parallel for num_threads(p.threads) if (p.threads > 1) schedule(static)
  for (int64_t first = 0; first < p.outputs; first += step) {
    const int64_t stop = least(first + step, p.outputs);
    if (p.dtype == Dtype::bfloat16) outputs_between<Dtype::bfloat16>(p, x, first, stop);
    else outputs_between<Dtype::float32>(p, x, first, stop);
  }
}

}  // namespace hitherto::HITHERTO_ISA
