// One tile of scores: query rows of a block against a block of keys, biased, capped and masked.
#pragma once
#include "formats.h"
#include "mask.h"
#include "product.h"

namespace hitherto::HITHERTO_ISA {

constexpr int64_t STRIPS = kBlockRows / MR;
constexpr float LOG2E = 1.44269504f, LN2 = 0.693147181f;

// The query rows of a block. With few queries, the heads of a group follow one another.
struct Rows {
  int64_t count, strips, batch;
  int64_t head[kBlockRows], row[kBlockRows], position[kBlockRows];
  const Spans* spans;

  Rows(const Problem& p, int64_t b, int64_t h, int64_t first, int64_t n)
      : count(n), strips((n + MR - 1) / MR), batch(b), spans(&p.spans_at(b, h)) {
    for (int64_t i = 0; i < n; ++i, ++first) {
      if (first == p.q_len) first = 0, ++h;
      head[i] = h, row[i] = first, position[i] = spans->q_start + first;
    }
  }
};

// Read rows of a (batch, heads, rows, width) tensor as floats with whole vectors, zeros after them.
inline void read_rows(float* to, int64_t ld, const Tensor& x, const Rows& rows, int64_t width,
                      float factor) {
  for (int64_t i = 0; i < rows.strips * MR; ++i, to += ld) {
    int64_t n = 0;
    if (i < rows.count) {
      widen(to, x.at(rows.batch, rows.head[i], rows.row[i]), x.dtype, width);
      for (; n < width; ++n) to[n] *= factor;
    }
    for (; n < ld; ++n) to[n] = 0;
  }
}

// The last piece that starts at or before a key.
inline int64_t piece_of(const Problem& p, int64_t key) {
  int64_t low = 0, high = p.piece_count;
  while (low + 1 < high) {
    const int64_t middle = (low + high) / 2;
    (p.pieces[middle].start <= key ? low : high) = middle;
  }
  return low;
}

// Reads keys or values W at a time, from the pieces they lie in, zeros after the last.
struct KeyReader {
  const Problem& p;
  Tensor Piece::*which;
  int64_t b, h, width, ld;
  int64_t piece;  // where the first key lies, or before

  void operator()(float* to, int64_t key) {
    for (int64_t j = 0; j < W; ++j, ++key, to += ld) {
      int64_t c = 0;
      if (key < p.k_len) {
        while (piece + 1 < p.piece_count && p.pieces[piece + 1].start <= key) ++piece;
        const Tensor& x = p.pieces[piece].*which;
        widen(to, x.at(b, h, key - p.pieces[piece].start), x.dtype, width);
        c = width;
      }
      for (; c < ld; ++c) to[c] = 0;
    }
  }
};

inline void check_finite(const Problem& p, const float* x, int64_t n) {
  if (!all_finite(x, n)) __atomic_store_n(p.finite, 0, __ATOMIC_RELAXED);
}

inline void cover_tile(const Rows& rows, int64_t key0, Cover (&cover)[STRIPS]) {
  for (int64_t s = 0; s < rows.strips; ++s) {
    cover[s] = {0, EVERY_UNIT};
    const int64_t stop = least(rows.count, (s + 1) * MR);
    for (int64_t i = s * MR, j; i < stop; i = j) {
      for (j = i + 1; j < stop && rows.position[j] == rows.position[j - 1] + 1; ++j) {}
      cover_rows(*rows.spans, rows.position[i], rows.position[j - 1] + 1, key0, cover[s]);
    }
    cover[s].all &= cover[s].any;
  }
}

// Ask for a slice of the panel that comes next: it starts on another page, where the processor's
// own prefetcher does not follow.
INLINE void prefetch_slice(const float* next, int64_t size, int64_t part, int64_t parts) {
  const int64_t step = (size / parts + 15) / 16 * 16;
  for (int64_t i = part * step; i < least(size, (part + 1) * step); i += 16)
    __builtin_prefetch(next + i, 0, 2);
}

// s (rows x kBlockKeys) = q k, in the units that each strip touches. k is packed by columns.
inline void score_product(const Rows& rows, const Cover (&cover)[STRIPS], const float* q,
                          int64_t ld, const float* k, int64_t depth, float* s) {
  for (int64_t at = 0; at < kBlockKeys; at += PANEL, k += depth * PANEL)
    for (int64_t i = 0; i < rows.strips; ++i) {
      const uint64_t units = cover[i].any >> (at / W) & ((1ull << NV) - 1);
      if (!units) continue;
      prefetch_slice(k + depth * PANEL, depth * PANEL, i, rows.strips);
      const int64_t first = __builtin_ctzll(units), last = 63 - __builtin_clzll(units);
      strip_tile<false, false>(rows.count - i * MR, last - first + 1, q + i * MR * ld, ld,
                               k + first * W, s + i * MR * kBlockKeys + at + first * W, kBlockKeys,
                               depth);
    }
}

// The bias of one row for `n` keys from key0.
inline void read_bias(const Problem& p, int64_t b, int64_t h, int64_t row, int64_t position,
                      int64_t key0, int64_t n, float* to) {
  const Bias& bias = p.bias;
  if (bias.kind == BiasKind::given) {
    const float* from =
        bias.data + b * bias.stride[0] + h * bias.stride[1] + row * bias.stride[2];
    for (int64_t j = 0; j < n; ++j) to[j] = from[(key0 + j) * bias.stride[3]];
    return;
  }
  const float* from = bias.data + h * bias.stride[1];
  for (int64_t j = 0; j < n; ++j) {
    const int64_t offset = (p.k_pos ? p.k_pos[key0 + j] : key0 + j) - position;
    if (bias.kind == BiasKind::alibi) to[j] = -*from * float(offset < 0 ? -offset : offset);
    else to[j] = from[least(most(offset - bias.first, 0), bias.columns - 1)];
  }
}

// Cap and bias the scores of a strip, in base 2; `slope`, where given, gets the cap's derivative.
inline void bend(const Problem& p, const Rows& rows, int64_t strip, uint64_t units, int64_t key0,
                 float* s, float* slope) {
  float bias[kBlockKeys];
  const int64_t n = least(kBlockKeys, p.k_len - key0);
  for (int64_t j = n; j < kBlockKeys; ++j) bias[j] = 0;
  for (int64_t i = strip * MR; i < least(rows.count, (strip + 1) * MR); ++i) {
    const bool biased = p.bias.kind != BiasKind::none;
    if (biased)
      read_bias(p, rows.batch, rows.head[i], rows.row[i], rows.position[i], key0, n, bias);
    for (uint64_t left = units; left; left &= left - 1) {
      const int64_t at = __builtin_ctzll(left) * W;
      float* cell = s + i * kBlockKeys + at;
      F x = load(cell);
      if (p.softcap != 0) {
        const F bent = tanh(x);
        if (slope) store(slope + i * kBlockKeys + at, 1.0f - bent * bent);
        x = bent * (p.softcap * LOG2E);
      }
      if (biased) x += load(bias + at) * LOG2E;
      store(cell, x);
    }
  }
}

// Factor on the queries such that the product is what `bend` expects.
INLINE float query_factor(const Problem& p) {
  return p.softcap != 0 ? p.scale / p.softcap : p.scale * LOG2E;
}

// Finish the scores of a strip: base 2, and -inf where the mask hides.
inline void finish_scores(const Problem& p, const Rows& rows, int64_t strip, const Cover& cover,
                          int64_t key0, float* s, float* slope) {
  if (p.softcap != 0 || p.bias.kind != BiasKind::none)
    bend(p, rows, strip, cover.any, key0, s, slope);
  const uint64_t units = cover.any & ~cover.all;
  if (!units) return;
  for (int64_t i = strip * MR; i < least(rows.count, (strip + 1) * MR); ++i)
    hide(*rows.spans, rows.position[i], key0, s + i * kBlockKeys, units);
}

}  // namespace hitherto::HITHERTO_ISA
