// Matrix products on packed panels. A panel holds PANEL columns of the right-hand matrix, row after
// row, so that a register tile of MR x PANEL reads it in order. Left-hand numbers are broadcast.
#pragma once
#include "vec.h"

namespace hitherto::HITHERTO_ISA {

// c (M x N vectors) (+)= a (M x depth) b (depth x N vectors). `a` is row after row, `lda` apart;
// turned, it is read along columns instead: element (r, k) at a[k * lda + r].
template <int64_t M, int64_t N, bool Turned, bool Add>
INLINE void register_tile(const float* a, int64_t lda, const float* b, float* c, int64_t ldc,
                          int64_t depth) {
  F acc[M][N];
#pragma GCC unroll 8
  for (int64_t r = 0; r < M; ++r)
#pragma GCC unroll 4
    for (int64_t v = 0; v < N; ++v) acc[r][v] = Add ? load(c + r * ldc + v * W) : F{};
#pragma GCC unroll 1
  for (int64_t k = 0; k < depth; ++k, b += PANEL) {
    F right[N];
#pragma GCC unroll 4
    for (int64_t v = 0; v < N; ++v) right[v] = load(b + v * W);
#pragma GCC unroll 8
    for (int64_t r = 0; r < M; ++r) {
      const F left = splat(Turned ? a[k * lda + r] : a[r * lda + k]);
#pragma GCC unroll 4
      for (int64_t v = 0; v < N; ++v) acc[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < M; ++r)
#pragma GCC unroll 4
    for (int64_t v = 0; v < N; ++v) store(c + r * ldc + v * W, acc[r][v]);
}

// The same for 1 .. NV vectors of columns.
template <int64_t M, bool Turned, bool Add, int64_t N = NV>
inline void narrow_tile(int64_t vectors, const float* a, int64_t lda, const float* b, float* c,
                        int64_t ldc, int64_t depth) {
  if (vectors == N) return register_tile<M, N, Turned, Add>(a, lda, b, c, ldc, depth);
  if constexpr (N > 1) narrow_tile<M, Turned, Add, N - 1>(vectors, a, lda, b, c, ldc, depth);
}

// The same for 1 .. MR rows, of which a few more may be computed.
template <bool Turned, bool Add>
INLINE void strip_tile(int64_t rows, int64_t vectors, const float* a, int64_t lda, const float* b,
                       float* c, int64_t ldc, int64_t depth) {
  if (rows > 4) narrow_tile<MR, Turned, Add>(vectors, a, lda, b, c, ldc, depth);
  else if (rows > 2) narrow_tile<4, Turned, Add>(vectors, a, lda, b, c, ldc, depth);
  else if (rows > 1) narrow_tile<2, Turned, Add>(vectors, a, lda, b, c, ldc, depth);
  else narrow_tile<1, Turned, Add>(vectors, a, lda, b, c, ldc, depth);
}

// c (MR x width) += a (MR x depth) b, where b's panels are `panel_stride` apart.
template <bool Turned>
inline void add_product(const float* a, int64_t lda, const float* b, int64_t panel_stride, float* c,
                        int64_t ldc, int64_t depth, int64_t width) {
  for (int64_t at = 0; at < width; at += PANEL, b += panel_stride)
    narrow_tile<MR, Turned, true>(least(NV, (width - at) / W), a, lda, b, c + at, ldc, depth);
}

// Rows become rows of panels: element (r, c) goes to panel c / PANEL, row r. `from` holds rows
// `at` .. `at + n` of `rows`, in whole vectors.
inline void pack_rows(float* to, const float* from, int64_t ld, int64_t at, int64_t n, int64_t rows,
                      int64_t width) {
  for (int64_t c = 0; c < width; c += W) {
    float* panel = to + c / PANEL * rows * PANEL + at * PANEL + c % PANEL;
    for (int64_t r = 0; r < n; ++r) store(panel + r * PANEL, load(from + r * ld + c));
  }
}

// W rows become columns of a panel: (r, c) goes to panel r / PANEL, row c, column r % PANEL.
inline void pack_columns(float* to, const float* from, int64_t ld, int64_t at, int64_t width) {
  float* panel = to + at / PANEL * width * PANEL + at % PANEL;
  for (int64_t c = 0; c < width; c += W) {
    F x[W];
#pragma GCC unroll 16
    for (int64_t i = 0; i < W; ++i) x[i] = load(from + i * ld + c);
    transpose(x);
#pragma GCC unroll 16
    for (int64_t i = 0; i < W; ++i)
      if (c + i < width) store(panel + (c + i) * PANEL, x[i]);
  }
}

}  // namespace hitherto::HITHERTO_ISA
