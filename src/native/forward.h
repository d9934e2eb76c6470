// Forward: each block of query rows visits the key blocks its mask touches, keeping a running
// maximum and total for every row. Decode is the same with the keys of a row dealt out and merged.
#pragma once
#include "decode.h"

namespace hitherto::HITHERTO_ISA {

// Read and pack one block of keys and values, a few rows at a time so that they stay in L1.
inline void pack_keys(const Problem& p, const Widths& w, int64_t b, int64_t kv_head, int64_t block,
                      float* raw, float* k, float* v) {
  const int64_t piece = piece_of(p, block * kBlockKeys);
  KeyReader keys{p, &Piece::k, b, kv_head, p.head_dim, w.q, piece};
  KeyReader values{p, &Piece::v, b, kv_head, p.v_dim, w.v, piece};
  // What lies after the last key is never read.
  for (int64_t at = 0; at < least(kBlockKeys, p.k_len - block * kBlockKeys); at += W) {
    keys(raw, block * kBlockKeys + at);
    check_finite(p, raw, W * w.q);
    pack_columns(k, raw, w.q, at, p.head_dim);
    values(raw, block * kBlockKeys + at);
    check_finite(p, raw, W * w.v);
    pack_rows(v, raw, w.v, at, W, kBlockKeys, w.v);
  }
}

inline void attend_tile(const Problem& p, const Widths& w, const Rows& rows, int64_t key0,
                        const float* q, const float* k, const float* v, float* s, State& state) {
  Cover cover[STRIPS];
  cover_tile(rows, key0, cover);
  score_product(rows, cover, q, w.q, k, p.head_dim, s);
  for (int64_t strip = 0; strip < rows.strips; ++strip) {
    finish_scores(p, rows, strip, cover[strip], key0, s, nullptr);
    for (int64_t i = strip * MR; i < least(rows.count, (strip + 1) * MR); ++i)
      soften(s + i * kBlockKeys, cover[strip].any, state.values + i * w.v, w.v, state.top[i],
             state.total[i]);
  }
  for (int64_t at = 0; at < w.v; at += PANEL, v += kBlockKeys * PANEL)
    for (int64_t strip = 0; strip < rows.strips; ++strip) {
      prefetch_slice(v + kBlockKeys * PANEL, kBlockKeys * PANEL, strip, rows.strips);
      for (uint64_t left = cover[strip].any; left;) {
        const int64_t first = __builtin_ctzll(left);
        const uint64_t rest = ~(left >> first);
        const int64_t stop = first + (rest ? __builtin_ctzll(rest) : 64);
        strip_tile<false, true>(rows.count - strip * MR, least(NV, (w.v - at) / W),
                                s + strip * MR * kBlockKeys + first * W, kBlockKeys,
                                v + first * W * PANEL, state.values + strip * MR * w.v + at, w.v,
                                (stop - first) * W);
        left &= ~bits_between(first, stop);
      }
    }
}

// Let the sink join the total, divide, and write the rows.
inline void write_rows(const Forward& p, const Widths& w, const Rows& rows, State& state) {
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t b = rows.batch, h = rows.head[i], r = rows.row[i];
    float top = state.top[i], total = state.total[i], factor = 0;
    float& lse = p.lse[(b * p.heads + h) * p.q_len + r];
    lse = -__builtin_inff();
    if (total != 0) {
      if (p.sinks) {
        const float sink = p.sinks[h] * LOG2E, higher = sink > top ? sink : top;
        factor = exp2(splat(top - higher))[0];
        total = total * factor + exp2(splat(sink - higher))[0];
        top = higher;
      } else {
        factor = 1;
      }
      factor /= total;
      lse = (top + __builtin_log2f(total)) * LN2;
    }
    narrow(p.out.at(b, h, r), state.values + i * w.v, p.out.dtype, p.v_dim, factor);
  }
}

// Calls `body` with every key block of a piece of work.
template <typename Body>
INLINE void each_block(const Spans& m, const Work& work, Body body) {
  int64_t number = 0;
  for (int64_t j = m.key_offsets[work.block]; j < m.key_offsets[work.block + 1]; ++j)
    for (int64_t block = m.key_start[j]; block < m.key_stop[j]; ++block, ++number)
      if (number >= work.from && number < work.to) body(block);
}

inline void attend_rows(const Forward& p, const Widths& w, const Work& work, const float* packed,
                        float* scratch, float* slots) {
  const Rows rows(p, work.batch, work.head, work.first, work.count);
  float *q = scratch, *s = q + kBlockRows * w.q, *own = s + kBlockRows * kBlockKeys;
  float *k = own + State::size(w), *v = k + w.k_block, *raw = v + w.v_block;
  State state(work.slot < 0 ? own : slots + work.slot * State::size(w), w);
  state.clear(w);
  read_rows(q, w.q, p.q, rows, p.head_dim, query_factor(p));
  check_finite(p, q, rows.count * w.q);
  const int64_t kv_head = work.head / p.group();
  if (p.in_place) {
    with_dtype(p.pieces[0].k.dtype, [&](auto dtype) INLINE_LAMBDA {
      F probe{};
      each_block(*rows.spans, work, [&](int64_t block) INLINE_LAMBDA {
        const Lines lines(p, work.batch, kv_head, block * kBlockKeys);
        attend_lines<dtype>(p, w, rows, lines, block * kBlockKeys, q, s, state, probe);
      });
      check_finite(p, reinterpret_cast<const float*>(&probe), W);
    });
    // A value that is not finite stays in the sums, whatever it was multiplied by.
    check_finite(p, state.values, rows.count * w.v);
  } else {
    each_block(*rows.spans, work, [&](int64_t block) INLINE_LAMBDA {
      if (packed) {
        const int64_t at = (work.batch * p.kv_heads + kv_head) * w.key_blocks + block;
        k = const_cast<float*>(packed) + at * (w.k_block + w.v_block), v = k + w.k_block;
      } else {
        pack_keys(p, w, work.batch, kv_head, block, raw, k, v);
      }
      attend_tile(p, w, rows, block * kBlockKeys, q, k, v, s, state);
    });
  }
  if (work.slot < 0) write_rows(p, w, rows, state);
}

// Join the parts of a block of rows, in the order of their keys.
inline void merge_rows(const Forward& p, const Widths& w, const Merge& merge, float* slots) {
  const Work& work = p.work[merge.work];
  const Rows rows(p, work.batch, work.head, work.first, work.count);
  State all(slots + merge.slot * State::size(w), w);
  for (int64_t part = 1; part < merge.slots; ++part) {
    const State next(slots + (merge.slot + part) * State::size(w), w);
    for (int64_t i = 0; i < rows.count; ++i) {
      const float higher = next.top[i] > all.top[i] ? next.top[i] : all.top[i];
      const float base = higher == -__builtin_inff() ? 0 : higher;
      const F old = exp2(splat(all.top[i] - base)), now = exp2(splat(next.top[i] - base));
      for (int64_t c = i * w.v; c < (i + 1) * w.v; c += W)
        store(all.values + c, load(all.values + c) * old + load(next.values + c) * now);
      all.total[i] = all.total[i] * old[0] + next.total[i] * now[0];
      all.top[i] = higher;
    }
  }
  write_rows(p, w, rows, all);
}

inline void forward(const Forward& p) {
  const Widths w(p);
  const int64_t blocks = p.batch * p.kv_heads * w.key_blocks, size = w.k_block + w.v_block;
  const Buffer packed(p.pack_ahead ? blocks * size : 0), slots(p.slots * State::size(w));
  const bool alone = p.threads == 1 || (p.work_count == 1 && !p.pack_ahead);
#pragma omp parallel num_threads(p.threads) if (!alone)
  {
    const int64_t raw = W * most(w.q, w.v);
    const Buffer scratch(kBlockRows * (w.q + kBlockKeys) + State::size(w) +
                         (p.in_place ? 0 : size + raw));
    if (p.pack_ahead) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < blocks; ++i) {
        float* k = packed + i * size;
        pack_keys(p, w, i / w.key_blocks / p.kv_heads, i / w.key_blocks % p.kv_heads,
                  i % w.key_blocks, scratch, k, k + w.k_block);
      }
    }
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < p.work_count; ++i)
      attend_rows(p, w, p.work[i], p.pack_ahead ? packed.data : nullptr, scratch, slots);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p.merge_count; ++i) merge_rows(p, w, p.merges[i], slots);
  }
}

}  // namespace hitherto::HITHERTO_ISA
