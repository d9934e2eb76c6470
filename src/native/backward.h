// Backward: one pass over the tiles, scores recomputed from lse. A thread owns the key blocks that
// were dealt to its part of a kv head, and a dq of its own: no two threads ever add to one number,
// and parts are summed in a fixed order, so every run gives the same bits.
#pragma once
#include "forward.h"

namespace hitherto::HITHERTO_ISA {

constexpr int64_t GROUPS = kBlockKeys / MR;  // strips of keys, where keys are rows of a product
static_assert(GROUPS * MR == kBlockKeys && STRIPS * MR == kBlockRows);

// Every row's lse in base 2 and the weighted mean of its incoming gradient.
struct RowTerms {
  float *lse, *mean;
};

inline void read_terms(const Backward& p, int64_t line, float* scratch, RowTerms terms) {
  const int64_t r = line % p.q_len, h = line / p.q_len % p.heads, b = line / p.q_len / p.heads;
  float *out = scratch, *grad = scratch + p.v_dim, total = 0;
  widen(out, p.out.at(b, h, r), p.out.dtype, p.v_dim);
  widen(grad, p.grad.at(b, h, r), p.grad.dtype, p.v_dim);
  for (int64_t c = 0; c < p.v_dim; ++c) total += out[c] * grad[c];
  terms.mean[line] = p.grad_lse ? total - p.grad_lse[line] : total;
  // Scores of an empty row are all -inf; any finite lse gives them weight 0.
  terms.lse[line] = p.lse[line] == -__builtin_inff() ? 0 : p.lse[line] * LOG2E;
}

// A thread's buffers for one tile.
struct Desk {
  float *q, *grad;              // rows, as left-hand sides
  float *q_panels, *g_panels;   // the same rows, as right-hand sides
  float *k_columns, *v_columns, *k_rows, *raw;
  float *s, *d, *slope;         // weights, gradients of scores, derivative of the cap
  float *dk, *dv;
  static int64_t size(const Widths& w) {
    const int64_t panels = round_up(w.q, PANEL) + round_up(w.v, PANEL);
    return kBlockRows * (w.q + w.v + panels + 3 * kBlockKeys) +
           W * most(w.q, w.v) + kBlockKeys * (2 * w.q + 2 * w.v + round_up(w.q, PANEL));
  }
  Desk(float* at, const Widths& w) {
    const int64_t q_wide = round_up(w.q, PANEL), v_wide = round_up(w.v, PANEL);
    const auto take = [&at](int64_t n) { float* p = at; at += n; return p; };
    q = take(kBlockRows * w.q), grad = take(kBlockRows * w.v);
    q_panels = take(kBlockRows * q_wide), g_panels = take(kBlockRows * v_wide);
    s = take(kBlockRows * kBlockKeys), d = take(kBlockRows * kBlockKeys);
    slope = take(kBlockRows * kBlockKeys);
    k_columns = take(kBlockKeys * w.q), v_columns = take(kBlockKeys * w.v);
    k_rows = take(kBlockKeys * q_wide), raw = take(W * most(w.q, w.v));
    dk = take(kBlockKeys * w.q), dv = take(kBlockKeys * w.v);
  }
};

inline void load_key_block(const Backward& p, const Widths& w, int64_t b, int64_t kv_head,
                           int64_t block, Desk& desk) {
  const int64_t piece = piece_of(p, block * kBlockKeys);
  KeyReader keys{p, &Piece::k, b, kv_head, p.head_dim, w.q, piece};
  KeyReader values{p, &Piece::v, b, kv_head, p.v_dim, w.v, piece};
  for (int64_t at = 0; at < kBlockKeys; at += W) {
    keys(desk.raw, block * kBlockKeys + at);
    pack_columns(desk.k_columns, desk.raw, w.q, at, p.head_dim);
    pack_rows(desk.k_rows, desk.raw, w.q, at, W, kBlockKeys, w.q);
    values(desk.raw, block * kBlockKeys + at);
    pack_columns(desk.v_columns, desk.raw, w.v, at, p.v_dim);
  }
  std::memset(desk.dk, 0, 4 * kBlockKeys * w.q);
  std::memset(desk.dv, 0, 4 * kBlockKeys * w.v);
}

inline void load_rows(const Backward& p, const Widths& w, const Rows& rows, Desk& desk) {
  const int64_t n = rows.strips * MR;
  read_rows(desk.q, w.q, p.q, rows, p.head_dim, 1.0f);
  read_rows(desk.grad, w.v, p.grad, rows, p.v_dim, 1.0f);
  pack_rows(desk.q_panels, desk.q, w.q, 0, n, n, w.q);
  pack_rows(desk.g_panels, desk.grad, w.v, 0, n, n, w.v);
  const float factor = query_factor(p);
  for (int64_t i = 0; i < n * w.q; ++i) desk.q[i] *= factor;
}

inline void add_bias_gradient(const Backward& p, const Rows& rows, int64_t i, int64_t key0,
                              uint64_t units, const float* d, double* dbias) {
  for (; units; units &= units - 1) {
    const int64_t at = __builtin_ctzll(units) * W;
    for (int64_t j = at; j < least(at + W, p.k_len - key0); ++j) {
      const int64_t key = p.k_pos ? p.k_pos[key0 + j] : key0 + j, offset = key - rows.position[i];
      if (p.bias.kind == BiasKind::alibi) *dbias -= d[j] * float(offset < 0 ? -offset : offset);
      else dbias[least(most(offset - p.bias.first, 0), p.bias.columns - 1)] += d[j];
    }
  }
}

// Weights into s and gradients of the scores into d; zeros where a strip does not reach.
inline void weigh(const Backward& p, const Rows& rows, const Cover (&cover)[STRIPS], uint64_t ever,
                  RowTerms terms, double* dbias, int64_t key0, Desk& desk) {
  for (int64_t i = 0; i < rows.strips * MR; ++i) {
    float *s = desk.s + i * kBlockKeys, *d = desk.d + i * kBlockKeys;
    const uint64_t units = i < rows.count ? cover[i / MR].any : 0;
    const int64_t line = (rows.batch * p.heads + rows.head[0]) * p.q_len + rows.row[0] + i;
    const F lse = splat(units ? terms.lse[line] : 0), mean = splat(units ? terms.mean[line] : 0);
    for (uint64_t left = units; left; left &= left - 1) {
      const int64_t at = __builtin_ctzll(left) * W;
      const F weight = exp2(load(s + at) - lse);
      store(s + at, weight);
      store(d + at, weight * (load(d + at) - mean));
    }
    if (dbias && units) add_bias_gradient(p, rows, i, key0, units, d, dbias);
    if (p.softcap != 0)
      for (uint64_t left = units; left; left &= left - 1) {
        const int64_t at = __builtin_ctzll(left) * W;
        store(d + at, load(d + at) * load(desk.slope + i * kBlockKeys + at));
      }
    for (uint64_t left = ever & ~units; left; left &= left - 1) {
      const int64_t at = __builtin_ctzll(left) * W;
      store(s + at, F{}), store(d + at, F{});
    }
  }
}

// dk += d' q and dv += s' grad, for each strip of keys over the rows that touch it.
inline void add_key_products(const Widths& w, const Rows& rows, const Cover (&cover)[STRIPS],
                             Desk& desk) {
  for (int64_t g = 0; g < GROUPS; ++g) {
    const uint64_t units = touched(g * MR, (g + 1) * MR);
    int64_t first = STRIPS, last = -1;
    for (int64_t i = 0; i < rows.strips; ++i)
      if (cover[i].any & units) first = least(first, i), last = i;
    if (last < 0) continue;
    const int64_t at = first * MR * kBlockKeys + g * MR, depth = (last - first + 1) * MR;
    const int64_t stride = rows.strips * MR * PANEL, skip = first * MR * PANEL;
    add_product<true>(desk.s + at, kBlockKeys, desk.g_panels + skip, stride,
                      desk.dv + g * MR * w.v, w.v, depth, w.v);
    add_product<true>(desk.d + at, kBlockKeys, desk.q_panels + skip, stride,
                      desk.dk + g * MR * w.q, w.q, depth, w.q);
  }
}

inline void add_query_products(const Widths& w, const Rows& rows, const Cover (&cover)[STRIPS],
                               const Desk& desk, float* dq) {
  for (int64_t strip = 0; strip < rows.strips; ++strip)
    for (uint64_t left = cover[strip].any; left;) {
      const int64_t first = __builtin_ctzll(left);
      const uint64_t rest = ~(left >> first);
      const int64_t stop = first + (rest ? __builtin_ctzll(rest) : 64);
      add_product<false>(desk.d + strip * MR * kBlockKeys + first * W, kBlockKeys,
                         desk.k_rows + first * W * PANEL, kBlockKeys * PANEL,
                         dq + strip * MR * w.q, w.q, (stop - first) * W, w.q);
      left &= ~bits_between(first, stop);
    }
}

inline void backward_tile(const Backward& p, const Widths& w, const Rows& rows, int64_t key0,
                          RowTerms terms, Desk& desk, float* dq, double* dbias) {
  Cover cover[STRIPS];
  cover_tile(rows, key0, cover);
  uint64_t ever = 0;
  for (int64_t i = 0; i < rows.strips; ++i) ever |= cover[i].any;
  if (!ever) return;
  load_rows(p, w, rows, desk);
  score_product(rows, cover, desk.q, w.q, desk.k_columns, p.head_dim, desk.s);
  score_product(rows, cover, desk.grad, w.v, desk.v_columns, p.v_dim, desk.d);
  for (int64_t strip = 0; strip < rows.strips; ++strip)
    finish_scores(p, rows, strip, cover[strip], key0, desk.s, desk.slope);
  // A strip of keys may lie across two units: both must hold zeros where nothing was computed.
  const uint64_t near = (ever | ever << 1 | ever >> 1) & EVERY_UNIT;
  weigh(p, rows, cover, near, terms, dbias, key0, desk);
  add_key_products(w, rows, cover, desk);
  add_query_products(w, rows, cover, desk, dq);
}

inline int64_t dq_rows(const Problem& p) { return round_up(p.q_len, kBlockRows); }

inline void backward_part(const Backward& p, const Widths& w, int64_t part, RowTerms terms,
                          Desk& desk, float* dq, double* dbias) {
  const int64_t split = part % p.splits, kv_head = part / p.splits % p.kv_heads;
  const int64_t b = part / p.splits / p.kv_heads, head_size = dq_rows(p) * w.q;
  std::memset(dq, 0, 4 * p.group() * head_size);
  if (dbias) std::memset(dbias, 0, 8 * p.group() * p.bias.columns);
  for (int64_t block = split; block < w.key_blocks; block += p.splits) {
    load_key_block(p, w, b, kv_head, block, desk);
    for (int64_t g = 0; g < p.group(); ++g) {
      const int64_t h = kv_head * p.group() + g;
      const Spans& m = p.spans_at(b, h);
      for (int64_t j = m.row_offsets[block]; j < m.row_offsets[block + 1]; ++j)
        for (int64_t i = m.row_start[j]; i < m.row_stop[j]; ++i) {
          const int64_t first = i * kBlockRows;
          const Rows rows(p, b, h, first, least(kBlockRows, p.q_len - first));
          backward_tile(p, w, rows, block * kBlockKeys, terms, desk,
                        dq + g * head_size + first * w.q,
                        dbias ? dbias + g * p.bias.columns : nullptr);
        }
    }
    for (int64_t j = 0; j < least(kBlockKeys, p.k_len - block * kBlockKeys); ++j) {
      const int64_t key = block * kBlockKeys + j;
      narrow(p.dk.at(b, kv_head, key), desk.dk + j * w.q, p.dk.dtype, p.head_dim, p.scale);
      narrow(p.dv.at(b, kv_head, key), desk.dv + j * w.v, p.dv.dtype, p.v_dim, 1.0f);
    }
  }
}

// Sum the parts of one row of dq.
inline void write_dq(const Backward& p, const Widths& w, int64_t line, float* parts) {
  const int64_t r = line % p.q_len, h = line / p.q_len % p.heads, b = line / p.q_len / p.heads;
  const int64_t size = p.group() * dq_rows(p) * w.q, kv = b * p.kv_heads + h / p.group();
  float* total = parts + kv * p.splits * size + (h % p.group() * dq_rows(p) + r) * w.q;
  for (int64_t split = 1; split < p.splits; ++split)
    for (int64_t c = 0; c < w.q; c += W)
      store(total + c, load(total + c) + load(total + split * size + c));
  narrow(p.dq.at(b, h, r), total, p.dq.dtype, p.head_dim, p.scale);
}

inline void write_dbias(const Backward& p, const double* parts) {
  const int64_t columns = p.bias.columns, lines = p.batch * p.kv_heads * p.splits * p.group();
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t kv_head = line / p.group() / p.splits % p.kv_heads;
    double* to = p.dbias + (kv_head * p.group() + line % p.group()) * p.bias.stride[1];
    for (int64_t c = 0; c < columns; ++c) to[c] += parts[line * columns + c];
  }
}

inline void backward(const Backward& p) {
  const Widths w(p);
  const int64_t parts = p.batch * p.kv_heads * p.splits, lines = p.batch * p.heads * p.q_len;
  const int64_t dq_size = p.group() * dq_rows(p) * w.q, bias_size = p.group() * p.bias.columns;
  const Buffer dq(parts * dq_size), lse(lines), mean(lines);
  const Buffer bias_parts(p.dbias ? 2 * parts * bias_size : 0);
  auto* dbias = reinterpret_cast<double*>(bias_parts.data);
  const RowTerms terms{lse, mean};
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
  {
    const Buffer scratch(Desk::size(w));
    Desk desk(scratch, w);
#pragma omp for schedule(static)
    for (int64_t line = 0; line < lines; ++line) read_terms(p, line, scratch, terms);
#pragma omp for schedule(dynamic, 1)
    for (int64_t part = 0; part < parts; ++part)
      backward_part(p, w, part, terms, desk, dq + part * dq_size,
                    p.dbias ? dbias + part * bias_size : nullptr);
#pragma omp for schedule(static)
    for (int64_t line = 0; line < lines; ++line) write_dq(p, w, line, dq);
  }
  if (p.dbias) write_dbias(p, dbias);
}

}  // namespace hitherto::HITHERTO_ISA
