// A bound mask as the kernels read it: its distinct Spans, and which key blocks meet which query
// blocks. Made once for a mask on a grid and kept, so that a call has no work left to do for it.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "problem.h"

namespace hitherto {

using Numbers = std::vector<int64_t>;

// Ranges of blocks for every block of the other side, one after another.
struct Ranges {
  Numbers offsets{0}, start, stop;
  void add(int64_t from, int64_t to);
  void close() { offsets.push_back(int64_t(start.size())); }
};

class SpanTable {
 public:
  // Throws std::invalid_argument for arrays that are no Spans: the kernels trust them.
  SpanTable(int64_t q_start, int64_t q_len, int64_t k_len, Numbers starts, Numbers offsets,
            Numbers a, Numbers s, Numbers b, Numbers t, std::vector<uint8_t> bits);
  Spans view() const;
  // Key blocks that query block i touches.
  int64_t weight(int64_t i) const;

 private:
  void check() const;
  void cover();
  int64_t q_start, q_len, k_len;
  Numbers starts, offsets, a, s, b, t;
  std::vector<uint8_t> bits;
  Ranges keys, rows;
};

struct Layout;

// Rows dealt to threads, heaviest first in each kv head; where there are few, the keys of each are
// dealt out too.
struct Schedule {
  std::vector<Work> work;
  std::vector<Merge> merges;
  int64_t slots = 0;
  bool pack_ahead = false, in_place = false;

  Schedule(const Layout& layout, int64_t kv_heads, int64_t threads);

 private:
  void deal_keys(int64_t threads);
};

struct Layout {
  std::vector<SpanTable> tables;
  std::vector<Spans> views;
  Numbers index;  // (batch, heads)
  int64_t batch, heads, q_len, k_len;

  Layout(std::vector<SpanTable> tables, Numbers index, int64_t batch, int64_t heads);
  const Schedule& schedule(int64_t kv_heads, int64_t threads) const;

 private:
  mutable std::mutex lock;
  mutable std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Schedule>> schedules;
};

}  // namespace hitherto
