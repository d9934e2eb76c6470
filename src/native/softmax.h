// What a block of rows has seen of its keys so far, and how the next scores join it.
#pragma once
#include "tile.h"

namespace hitherto::HITHERTO_ISA {

struct Widths {
  int64_t q, v;            // rows of q and v, in whole vectors
  int64_t k_block, v_block;  // floats of a packed block of keys and of values
  int64_t key_blocks;
  explicit Widths(const Problem& p)
      : q(round_up(p.head_dim, W)), v(round_up(p.v_dim, W)), k_block(p.head_dim * kBlockKeys),
        v_block(round_up(p.v_dim, PANEL) * kBlockKeys),
        key_blocks((p.k_len + kBlockKeys - 1) / kBlockKeys) {}
};

// What a block of rows has seen so far: weighted values, and each row's maximum and total weight.
struct State {
  float *values, *top, *total;
  State(float* at, const Widths& w)
      : values(at), top(at + kBlockRows * w.v), total(top + kBlockRows) {}
  static int64_t size(const Widths& w) { return kBlockRows * (w.v + 2); }

  void clear(const Widths& w) {
    std::memset(values, 0, 4 * kBlockRows * w.v);
    for (int64_t i = 0; i < kBlockRows; ++i) top[i] = -__builtin_inff(), total[i] = 0;
  }
};

// Scores become weights relative to the new maximum, and what was seen is put on the same footing.
inline void soften(float* s, uint64_t units, float* values, int64_t width, float& top,
                   float& total) {
  F highest = splat(top);
  for (uint64_t left = units; left; left &= left - 1)
    highest = larger(highest, load(s + __builtin_ctzll(left) * W));
  const float now = largest(highest);
  const F base = splat(now == -__builtin_inff() ? 0.0f : now);
  F added = {};
  for (uint64_t left = units; left;) {
    const int64_t first = __builtin_ctzll(left);
    const uint64_t rest = ~(left >> first);
    const int64_t stop = first + (rest ? __builtin_ctzll(rest) : 64);
    for (int64_t u = first; u < stop; ++u) {
      const F x = exp2(load(s + u * W) - base);
      store(s + u * W, x);
      added += x;
    }
    left &= ~bits_between(first, stop);
  }
  if (now != top) {
    const F fade = exp2(splat(top) - base);
    total *= fade[0];
    for (int64_t c = 0; c < width; c += W) store(values + c, load(values + c) * fade);
    top = now;
  }
  total += sum(added);
}

}  // namespace hitherto::HITHERTO_ISA
