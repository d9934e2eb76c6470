#include "layout.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace hitherto {
namespace {

int64_t blocks_in(int64_t n, int64_t size) { return (n + size - 1) / size; }

void require(bool fits, const char* what) {
  if (!fits) throw std::invalid_argument(what);
}

}  // namespace

void Ranges::add(int64_t from, int64_t to) {
  const bool joins = int64_t(start.size()) > offsets.back() && stop.back() >= from;
  if (joins) {
    stop.back() = std::max(stop.back(), to);
  } else {
    start.push_back(from);
    stop.push_back(to);
  }
}

SpanTable::SpanTable(int64_t q_start, int64_t q_len, int64_t k_len, Numbers starts, Numbers offsets,
                     Numbers a, Numbers s, Numbers b, Numbers t, std::vector<uint8_t> bits)
    : q_start(q_start), q_len(q_len), k_len(k_len), starts(std::move(starts)),
      offsets(std::move(offsets)), a(std::move(a)), s(std::move(s)), b(std::move(b)),
      t(std::move(t)), bits(std::move(bits)) {
  check();
  cover();
}

void SpanTable::check() const {
  const size_t runs = starts.size(), entries = a.size();
  require(q_len >= 0 && k_len >= 0, "lengths must not be negative");
  require(q_len == 0 || (runs > 0 && starts[0] == q_start), "the first run must start at q_start");
  require(offsets.size() == runs + 1 && bits.size() == runs, "each run needs an offset and a bit");
  require(s.size() == entries && b.size() == entries && t.size() == entries,
          "a, s, b and t must have one length");
  require(offsets[0] == 0 && offsets[runs] == int64_t(entries), "offsets must cover the entries");
  for (size_t run = 0; run < runs; ++run) {
    const int64_t stop = run + 1 < runs ? starts[run + 1] : q_start + q_len;
    require(starts[run] < stop && offsets[run] <= offsets[run + 1], "runs must be in order");
    for (const int64_t q : {starts[run], stop - 1}) {
      int64_t seen = 0;
      for (int64_t i = offsets[run]; i < offsets[run + 1]; ++i) {
        const int64_t low = bits[run] ? 64 * a[i] : a[i] + s[i] * q;
        const int64_t high = bits[run] ? low + 1 : b[i] + t[i] * q;
        require(seen <= low && low <= high && high <= k_len,
                "keys must be in order and on the grid");
        seen = high;
      }
    }
  }
}

void SpanTable::cover() {
  const int64_t row_blocks = blocks_in(q_len, kBlockRows);
  const int64_t key_blocks = blocks_in(k_len, kBlockKeys);
  std::vector<std::pair<int64_t, int64_t>> found;
  std::vector<Ranges> by_key(key_blocks);
  size_t run = 0;
  for (int64_t block = 0; block < row_blocks; ++block) {
    const int64_t first = q_start + block * kBlockRows;
    const int64_t last = std::min(first + kBlockRows, q_start + q_len);
    found.clear();
    while (run + 1 < starts.size() && starts[run + 1] <= first) ++run;
    for (size_t r = run; r < starts.size() && starts[r] < last; ++r) {
      const int64_t stop = r + 1 < starts.size() ? starts[r + 1] : q_start + q_len;
      const int64_t q0 = std::max(first, starts[r]), q1 = std::min(last, stop) - 1;
      for (int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
        const int64_t low = bits[r] ? 64 * a[i] : a[i] + s[i] * q0;
        const int64_t high = bits[r] ? low + 1 : b[i] + t[i] * q1;
        if (low < high) found.emplace_back(low / kBlockKeys, (high - 1) / kBlockKeys + 1);
      }
    }
    std::sort(found.begin(), found.end());
    for (const auto& [from, to] : found) keys.add(from, to);
    keys.close();
    for (int64_t j = keys.offsets[block]; j < keys.offsets[block + 1]; ++j)
      for (int64_t key = keys.start[j]; key < keys.stop[j]; ++key)
        by_key[key].add(block, block + 1);
  }
  for (const Ranges& one : by_key) {
    rows.start.insert(rows.start.end(), one.start.begin(), one.start.end());
    rows.stop.insert(rows.stop.end(), one.stop.begin(), one.stop.end());
    rows.close();
  }
}

Spans SpanTable::view() const {
  return {q_start, q_len, k_len, int64_t(starts.size()), starts.data(), offsets.data(), a.data(),
          s.data(), b.data(), t.data(), bits.data(), keys.offsets.data(), keys.start.data(),
          keys.stop.data(), rows.offsets.data(), rows.start.data(), rows.stop.data()};
}

int64_t SpanTable::weight(int64_t i) const {
  int64_t total = 0;
  for (int64_t j = keys.offsets[i]; j < keys.offsets[i + 1]; ++j)
    total += keys.stop[j] - keys.start[j];
  return total;
}

Layout::Layout(std::vector<SpanTable> given, Numbers index, int64_t batch, int64_t heads)
    : tables(std::move(given)), index(std::move(index)), batch(batch), heads(heads) {
  require(!tables.empty(), "a layout needs Spans");
  require(int64_t(this->index.size()) == batch * heads, "index must be (batch, heads)");
  for (const SpanTable& table : tables) views.push_back(table.view());
  for (const int64_t i : this->index)
    require(0 <= i && i < int64_t(views.size()), "index must name one of the Spans");
  q_len = views[0].q_len, k_len = views[0].k_len;
  for (const Spans& view : views)
    require(view.q_len == q_len && view.k_len == k_len, "all Spans must be on one grid");
}

Schedule::Schedule(const Layout& layout, int64_t kv_heads, int64_t threads) {
  const int64_t group = layout.heads / kv_heads, blocks = blocks_in(layout.q_len, kBlockRows);
  const auto span = [&](int64_t b, int64_t h) { return layout.index[b * layout.heads + h]; };
  bool together = blocks == 1;  // the heads of a group share blocks of rows
  for (int64_t b = 0; b < layout.batch; ++b)
    for (int64_t h = 0; h < layout.heads; ++h) together &= span(b, h) == span(b, h / group * group);
  const int64_t rows = layout.q_len * (together ? group : 1), step = together ? group : 1;
  for (int64_t b = 0; b < layout.batch; ++b)
    for (int64_t h = 0; h < layout.heads; h += step)
      for (int64_t row = 0; row < rows; row += kBlockRows) {
        const int64_t block = together ? 0 : row / kBlockRows;
        const int64_t weight = layout.tables[span(b, h)].weight(block);
        work.push_back({b, h + row / layout.q_len, row % layout.q_len,
                        std::min(kBlockRows, rows - row), block, 0, weight, -1});
      }
  in_place = together && rows <= kFewRows;
  pack_ahead = group * layout.q_len > kBlockRows || (!together && group > 1);
  // One kv head after another, so that its keys stay in cache; the light blocks end each.
  std::stable_sort(work.begin(), work.end(), [group](const Work& x, const Work& y) {
    return std::tuple(x.batch, x.head / group, -x.to) < std::tuple(y.batch, y.head / group, -y.to);
  });
  if (threads > 1 && int64_t(work.size()) < 4 * threads) deal_keys(threads);
}

void Schedule::deal_keys(int64_t threads) {
  constexpr int64_t least = 4;  // key blocks in a part: fewer are not worth a merge
  int64_t total = 0;
  for (const Work& whole : work) total += whole.to;
  const int64_t target = std::max(total / (4 * threads) + 1, least);
  std::vector<Work> parts;
  for (const Work& whole : work) {
    const int64_t n = std::max(blocks_in(whole.to, target), int64_t(1));
    if (n > 1) merges.push_back({int64_t(parts.size()), slots, n});
    for (int64_t part = 0; part < n; ++part) {
      Work next = whole;
      next.from = whole.to * part / n, next.to = whole.to * (part + 1) / n;
      if (n > 1) next.slot = slots++;
      parts.push_back(next);
    }
  }
  work = std::move(parts);
}

const Schedule& Layout::schedule(int64_t kv_heads, int64_t threads) const {
  const std::lock_guard hold(lock);
  auto& known = schedules[{kv_heads, threads}];
  if (!known) known = std::make_unique<Schedule>(*this, kv_heads, threads);
  return *known;
}

}  // namespace hitherto
