// What one call asks for, as plain pointers and numbers: the border between the module and the
// kernels. Axes are (batch, heads, rows, width); strides count numbers; the last axis has stride 1.
#pragma once
#include <cstdint>

namespace hitherto {

// A tile is kBlockRows query rows by kBlockKeys keys; its scores stay in L2. 192 keys are whole
// 64-key words, whole register tiles of 6 rows (when keys are rows, in the backward pass) and whole
// vectors.
constexpr int64_t kBlockRows = 48;
constexpr int64_t kBlockKeys = 192;

// Up to so many rows against one kv head, keys are read where they lie instead of being packed.
constexpr int64_t kFewRows = 16;

enum class Dtype : int64_t { float32, bfloat16, float16 };

struct Tensor {
  char* data;
  int64_t batch, head, row;  // strides
  Dtype dtype;

  char* at(int64_t b, int64_t h, int64_t r) const {
    const int64_t size = dtype == Dtype::float32 ? 4 : 2;
    return data + size * (b * batch + h * head + r * row);
  }
};

// The visible cells of a grid; see hitherto.mask.Spans. A run of rows with bits[run] holds words.
struct Spans {
  int64_t q_start, q_len, k_len, runs;
  const int64_t *starts, *offsets, *a, *s, *b, *t;
  const uint8_t* bits;
  // Key blocks that query block i touches: ranges key_start[j] .. key_stop[j], for j from
  // key_offsets[i] to key_offsets[i + 1]. And the query blocks that touch key block i, likewise.
  const int64_t *key_offsets, *key_start, *key_stop;
  const int64_t *row_offsets, *row_start, *row_stop;
};

// Keys and values may lie in several pieces, as in a paged cache; each starts at key `start`.
struct Piece {
  Tensor k, v;
  int64_t start;
};

enum class BiasKind : int64_t { none, alibi, relative, given };

struct Bias {
  BiasKind kind;
  const float* data;  // slopes (heads), table (heads or 1, columns), or any broadcast of the grid
  int64_t first;      // offset k - q of the table's column 0
  int64_t columns;
  int64_t stride[4];  // of data, by batch, head, row and key; a table uses the second
};

struct Problem {
  int64_t batch, heads, kv_heads, q_len, k_len, head_dim, v_dim;
  float scale, softcap;  // softcap 0: none
  Tensor q;
  const Piece* pieces;
  int64_t piece_count;
  const Spans* spans;         // the distinct ones
  const int64_t* span_of;     // (batch, heads): which one
  const int64_t* k_pos;       // position of every key, or null: its number
  Bias bias;
  const float* sinks;         // (heads), or null
  int64_t threads;
  int32_t* finite;            // set to 0 when an input that was read is NaN or infinite

  int64_t group() const { return heads / kv_heads; }
  const Spans& spans_at(int64_t b, int64_t h) const { return spans[span_of[b * heads + h]]; }
};

// Rows of one head (or, with few queries, of a group's heads in turn) that one thread computes:
// `count` from `first` on, over the touched key blocks number `from` to `to` of query block
// `block`.
// A part of a row's keys goes to a slot, to be merged; -1: the rows are complete.
struct Work {
  int64_t batch, head, first, count, block, from, to, slot;
};

struct Merge {
  int64_t work;         // one of the parts, for its rows
  int64_t slot, slots;  // the parts' slots
};

struct Forward : Problem {
  Tensor out;
  float* lse;  // (batch, heads, q_len), natural logarithm
  const Work* work;
  int64_t work_count;
  const Merge* merges;
  int64_t merge_count, slots;
  bool pack_ahead;  // several blocks of rows share each block of keys
  bool in_place;    // few rows: nothing is packed
};

struct Backward : Problem {
  Tensor out, grad;          // what forward returned, and its gradient
  const float* lse;
  const float* grad_lse;     // or null
  Tensor dq, dk, dv;
  double* dbias;             // of slopes or table, or null
  int64_t splits;            // parts that the keys of a kv head are dealt into
};

struct Linear {
  int64_t rows, width, outputs;
  const char* x;             // (rows, width), x_stride apart
  int64_t x_stride;
  const char* weight;        // (outputs, width), w_stride apart
  int64_t w_stride;
  const float* bias;         // (outputs), or null
  char* out;                 // (rows, outputs)
  Dtype dtype;
  int64_t threads;
};

// One instruction set's kernels.
struct Kernels {
  const char* name;
  int64_t lanes;
  void (*forward)(const Forward&);
  void (*backward)(const Backward&);
  void (*linear)(const Linear&);
  double (*multiply_adds)(int64_t threads, int64_t rounds);
  double (*read)(const char* data, int64_t bytes, int64_t threads);
};

}  // namespace hitherto
