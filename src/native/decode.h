// Decode: few query rows against many keys. Keys and values are read where they lie, once for all
// the heads of a group, and only the scores of a tile are kept.
#pragma once
#include "softmax.h"

namespace hitherto::HITHERTO_ISA {

constexpr int64_t SUMS = W > 8 ? 16 : 8;  // registers that hold sums, in both products
constexpr int64_t LINE = 64;              // bytes of a cache line

// Where the rows of a tile's keys and values lie. `ahead`: from a key to the same one a tile later.
struct Lines {
  const char *k[kBlockKeys], *v[kBlockKeys];
  int64_t ahead;

  Lines(const Problem& p, int64_t b, int64_t kv_head, int64_t key0) {
    const int64_t count = least(kBlockKeys, p.k_len - key0);
    int64_t j = 0;
    for (int64_t piece = piece_of(p, key0); j < count; ++piece) {
      const Piece& at = p.pieces[piece];
      const bool last = piece + 1 == p.piece_count;
      const int64_t stop = last ? count : least(count, p.pieces[piece + 1].start - key0);
      const char* key = at.k.at(b, kv_head, key0 + j - at.start);
      const char* value = at.v.at(b, kv_head, key0 + j - at.start);
      const int64_t size = at.k.dtype == Dtype::float32 ? 4 : 2;
      for (; j < stop; ++j, key += size * at.k.row, value += size * at.v.row)
        k[j] = key, v[j] = value;
    }
    for (; j < kBlockKeys; ++j) k[j] = k[count - 1], v[j] = v[count - 1];  // hidden
    ahead = (k[1] - k[0]) * kBlockKeys;
  }
};

// Calls `body` with the first row and, as a constant, the number of rows: fours, then two or one.
template <typename Body>
INLINE void in_groups(int64_t count, Body body) {
  int64_t row = 0;
  for (; count - row > 2; row += 4) body(row, std::integral_constant<int64_t, 4>{});
  if (count - row == 2) body(row, std::integral_constant<int64_t, 2>{});
  if (count - row == 1) body(row, std::integral_constant<int64_t, 1>{});
}

// Products of R rows and C keys, still spread over lanes: sum[r * W + j]. Memory must not rest while
// this computes, so the values of the same keys are asked for.
template <Dtype D, int64_t R, int64_t C>
INLINE void multiply_keys(const char* const* k, const char* const* v, int64_t depth, const float* q,
                          int64_t ld, F* sum) {
  constexpr int64_t size = D == Dtype::float32 ? 4 : 2;
  const int64_t whole = depth / W * W;
  F acc[R][C] = {};
  const auto add = [&](int64_t i, auto read) INLINE_LAMBDA {
    F key[C];
#pragma GCC unroll 16
    for (int64_t j = 0; j < C; ++j) key[j] = read(k[j], i);
#pragma GCC unroll 4
    for (int64_t r = 0; r < R; ++r) {
      const F left = once(load(q + r * ld + i));
#pragma GCC unroll 16
      for (int64_t j = 0; j < C; ++j) acc[r][j] += left * key[j];
    }
  };
#pragma GCC unroll 1
  for (int64_t i = 0; i < whole; i += W) {
#pragma GCC unroll 16
    for (int64_t j = 0; j < C; ++j) __builtin_prefetch(v[j] + i * size, 0, 2);
    add(i, [](const char* row, int64_t n) INLINE_LAMBDA { return load_as<D>(row, n); });
  }
  if (whole < depth)
    add(whole, [&](const char* row, int64_t n) { return load_rest<D>(row, n, depth - n); });
#pragma GCC unroll 4
  for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int64_t j = 0; j < C; ++j) sum[r * W + j] = acc[r][j];
}

template <Dtype D, int64_t R, int64_t At = 0>
INLINE void multiply_unit(const char* const* k, const char* const* v, int64_t depth, const float* q,
                          int64_t ld, F* sum) {
  constexpr int64_t many = R == 4 ? (W > 8 ? 4 : 3) : SUMS / R;
  constexpr int64_t C = W - At < many ? W - At : many;
  multiply_keys<D, R, C>(k + At, v + At, depth, q, ld, sum + At);
  if constexpr (At + C < W) multiply_unit<D, R, At + C>(k, v, depth, q, ld, sum);
}

// Scores of R rows for W keys. Returns 0 in every lane, or NaN where a number was not finite.
template <Dtype D, int64_t R>
INLINE F score_unit(const char* const* k, const char* const* v, int64_t depth, const float* q,
                    int64_t ld, float* s) {
  F sum[R][W], probe{};
  multiply_unit<D, R>(k, v, depth, q, ld, sum[0]);
#pragma GCC unroll 1
  for (int64_t r = 0; r < R; ++r) {
    const F total = sums(sum[r]);
    probe += total * 0.0f;
    store(s + r * kBlockKeys, total);
  }
  return probe;
}

// out (R x N vectors) += s (R x keys) v, for the keys [first, stop) and columns from `at` on. The
// keys of the next tile are asked for meanwhile.
template <Dtype D, int64_t R, int64_t N, bool Rest>
INLINE void add_values(const Lines& lines, int64_t first, int64_t stop, const float* s, float* out,
                       int64_t ld, int64_t at, int64_t rest) {
  constexpr int64_t size = D == Dtype::float32 ? 4 : 2;
  F acc[R][N];
#pragma GCC unroll 4
  for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int64_t n = 0; n < N; ++n) acc[r][n] = load(out + r * ld + n * W);
#pragma GCC unroll 1
  for (int64_t key = first; key < stop; ++key) {
    if constexpr (!Rest)
      for (int64_t b = 0; b < N * W * size; b += LINE)
        __builtin_prefetch(lines.k[key] + lines.ahead + at * size + b, 0, 2);
    F value[N];
#pragma GCC unroll 16
    for (int64_t n = 0; n < N; ++n)
      value[n] = Rest ? load_rest<D>(lines.v[key], at, rest) : load_as<D>(lines.v[key], at + n * W);
#pragma GCC unroll 4
    for (int64_t r = 0; r < R; ++r) {
      const F weight = splat(s[r * kBlockKeys + key]);
#pragma GCC unroll 16
      for (int64_t n = 0; n < N; ++n) acc[r][n] += weight * value[n];
    }
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int64_t n = 0; n < N; ++n) store(out + r * ld + n * W, acc[r][n]);
}

// The same for all columns.
template <Dtype D, int64_t R, int64_t N = SUMS / R>
INLINE void add_columns(const Lines& lines, int64_t first, int64_t stop, const float* s, float* out,
                        int64_t ld, int64_t at, int64_t width) {
  for (; at + N * W <= width; at += N * W)
    add_values<D, R, N, false>(lines, first, stop, s, out + at, ld, at, 0);
  if constexpr (N > 1) add_columns<D, R, N / 2>(lines, first, stop, s, out, ld, at, width);
  else if (at < width)
    add_values<D, R, 1, true>(lines, first, stop, s, out + at, ld, at, width - at);
}

// What all rows together see of a tile.
inline Cover cover_together(const Rows& rows, int64_t key0) {
  Cover cover{0, EVERY_UNIT};
  const Spans& m = *rows.spans;
  cover_rows(m, m.q_start, m.q_start + m.q_len, key0, cover);
  cover.all &= cover.any;
  return cover;
}

template <Dtype D>
inline void attend_lines(const Problem& p, const Widths& w, const Rows& rows, const Lines& lines,
                         int64_t key0, const float* q, float* s, State& state, F& probe) {
  const Cover cover = cover_together(rows, key0);
  for (uint64_t left = cover.any; left; left &= left - 1) {
    const int64_t at = __builtin_ctzll(left) * W;
    in_groups(rows.count, [&](int64_t row, auto count) INLINE_LAMBDA {
      probe += score_unit<D, count>(lines.k + at, lines.v + at, p.head_dim, q + row * w.q, w.q,
                                    s + row * kBlockKeys + at);
    });
  }
  for (int64_t strip = 0; strip < rows.strips; ++strip)
    finish_scores(p, rows, strip, cover, key0, s, nullptr);
  for (int64_t i = 0; i < rows.count; ++i)
    soften(s + i * kBlockKeys, cover.any, state.values + i * w.v, w.v, state.top[i],
           state.total[i]);
  for (int64_t part = 0; part < UNITS; part += 64 / W)
    for (uint64_t left = cover.any & bits_between(part, part + 64 / W); left;) {
      const int64_t first = __builtin_ctzll(left);
      const uint64_t rest = ~(left >> first);
      const int64_t stop = first + (rest ? __builtin_ctzll(rest) : 64);
      in_groups(rows.count, [&](int64_t row, auto count) INLINE_LAMBDA {
        add_columns<D, count>(lines, first * W, stop * W, s + row * kBlockKeys,
                              state.values + row * w.v, w.v, 0, p.v_dim);
      });
      left &= ~bits_between(first, stop);
    }
}

}  // namespace hitherto::HITHERTO_ISA
