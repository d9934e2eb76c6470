// Which cells of a tile are visible, read from Spans. Columns are looked at in units of one vector:
// untouched units are skipped, units that all rows see cost nothing more, the rest are compared.
#pragma once
#include "vec.h"

namespace hitherto::HITHERTO_ISA {

constexpr int64_t UNITS = kBlockKeys / W;
constexpr uint64_t EVERY_UNIT = UNITS == 64 ? ~0ull : (1ull << UNITS) - 1;

// Units of a key block, one bit each, for one strip of rows.
struct Cover {
  uint64_t any;  // some row sees some key of the unit
  uint64_t all;  // every row sees every key
};

// Bits low .. high - 1; low < 64, high may be 64.
INLINE uint64_t bits_between(int64_t low, int64_t high) {
  if (low >= high) return 0;
  const uint64_t below = high >= 64 ? ~0ull : (1ull << high) - 1;
  return below & ~((1ull << low) - 1);
}

INLINE uint64_t touched(int64_t low, int64_t high) {
  low = most(low, 0), high = least(high, kBlockKeys);
  return low < high ? bits_between(low / W, (high + W - 1) / W) : 0;
}

INLINE uint64_t inside(int64_t low, int64_t high) {
  low = most(low, 0), high = least(high, kBlockKeys);
  return low < high ? bits_between((low + W - 1) / W, high / W) : 0;
}

// The last run that starts at or before a row.
inline int64_t run_of(const Spans& m, int64_t row) {
  int64_t low = 0, high = m.runs;
  while (low + 1 < high) {
    const int64_t middle = (low + high) / 2;
    (m.starts[middle] <= row ? low : high) = middle;
  }
  return low;
}

// The first entry of a run that may hold a key >= `key` at `row`.
inline int64_t first_entry(const Spans& m, int64_t run, int64_t row, int64_t key) {
  int64_t low = m.offsets[run], high = m.offsets[run + 1];
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const int64_t stop = m.bits[run] ? 64 * m.a[middle] + 64 : m.b[middle] + m.t[middle] * row;
    if (stop <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}

constexpr uint64_t UNIT_BITS = (1ull << W) - 1;

// Add what the rows [p0, p1) see of the key block that starts at key0.
inline void cover_rows(const Spans& m, int64_t p0, int64_t p1, int64_t key0, Cover& cover) {
  for (int64_t run = run_of(m, p0); run < m.runs && m.starts[run] < p1; ++run) {
    const int64_t stop = run + 1 < m.runs ? m.starts[run + 1] : m.q_start + m.q_len;
    const int64_t q0 = most(p0, m.starts[run]), q1 = least(p1, stop) - 1;
    Cover here{0, 0};
    for (int64_t i = first_entry(m, run, q1, key0); i < m.offsets[run + 1]; ++i) {
      if (m.bits[run]) {
        const int64_t key = 64 * m.a[i] - key0;
        if (key >= kBlockKeys) break;
        const uint64_t word = m.b[i];
        for (int64_t u = 0; u < 64 / W; ++u) {
          const uint64_t cells = word >> (u * W) & UNIT_BITS, unit = 1ull << (key / W + u);
          if (cells) here.any |= unit;
          if (cells == UNIT_BITS) here.all |= unit;
        }
        continue;
      }
      const int64_t low = m.a[i] + m.s[i] * q0 - key0;
      if (low >= kBlockKeys) break;
      here.any |= touched(low, m.b[i] + m.t[i] * q1 - key0);
      here.all |= inside(m.a[i] + m.s[i] * q1 - key0, m.b[i] + m.t[i] * q0 - key0);
    }
    cover.any |= here.any;
    cover.all &= here.all;
  }
}

// Put -inf into the keys [low, high) of a row, in the given units.
INLINE void hide_between(float* row, uint64_t units, int64_t low, int64_t high) {
  for (units &= touched(low, high); units; units &= units - 1) {
    const int32_t at = int32_t(__builtin_ctzll(units)) * W;
    const I key = lanes() + at;
    const I hidden = (key >= splat(int32_t(low))) & (key < splat(int32_t(high)));
    store(row + at, hidden ? splat(-__builtin_inff()) : load(row + at));
  }
}

// Put -inf into what the row at position p does not see, in the given units of its scores.
inline void hide(const Spans& m, int64_t p, int64_t key0, float* row, uint64_t units) {
  const int64_t run = run_of(m, p);
  int64_t i = first_entry(m, run, p, key0);
  const int64_t end = m.offsets[run + 1];
  if (!m.bits[run]) {
    int64_t seen = 0;
    for (; i < end && seen < kBlockKeys; ++i) {
      const int64_t low = m.a[i] + m.s[i] * p - key0, high = m.b[i] + m.t[i] * p - key0;
      if (low >= high) continue;
      hide_between(row, units, seen, least(low, kBlockKeys));
      seen = high;
    }
    hide_between(row, units, seen, kBlockKeys);
    return;
  }
  uint64_t words[kBlockKeys / 64] = {};
  for (; i < end && 64 * m.a[i] < key0 + kBlockKeys; ++i) words[m.a[i] - key0 / 64] = m.b[i];
  const I bit = splat(1) << lanes();
  for (; units; units &= units - 1) {
    const int64_t at = __builtin_ctzll(units) * W;
    const I seen = splat(int32_t(words[at / 64] >> (at % 64) & UNIT_BITS)) & bit;
    store(row + at, seen != 0 ? load(row + at) : splat(-__builtin_inff()));
  }
}

}  // namespace hitherto::HITHERTO_ISA
