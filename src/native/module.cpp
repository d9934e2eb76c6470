// The Python door. It takes addresses and strides as ints; hitherto.attention.native has checked
// shapes and dtypes before, and keeps the tensors alive during the call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <array>
#include <string>

#include "layout.h"

namespace nb = nanobind;

namespace hitherto {
namespace portable { const Kernels& kernels(); }
#ifdef HITHERTO_X86
namespace v3 { const Kernels& kernels(); }
namespace v4 { const Kernels& kernels(); }
#endif

namespace {

// A process that forked has lost its OpenMP threads, and waiting for them would never end.
bool forked = false;
int64_t usable(int64_t threads) { return forked ? 1 : threads; }

// What this processor runs, the best first.
std::vector<const Kernels*> supported() {
  std::vector<const Kernels*> sets;
#ifdef HITHERTO_X86
  const auto has_v3 = [] {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
  };
  const auto has_v4 = [&] {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  };
  if (has_v4()) sets.push_back(&v4::kernels());
  if (has_v3()) sets.push_back(&v3::kernels());
#endif
  sets.push_back(&portable::kernels());
  return sets;
}

const Kernels& kernels_named(const std::string& name) {
  for (const Kernels* set : supported())
    if (name == set->name) return *set;
  throw nb::value_error(("this processor does not run " + name).c_str());
}

using View = std::array<int64_t, 5>;  // address, strides by batch, head and row, dtype

Tensor tensor(const View& x) {
  return {reinterpret_cast<char*>(x[0]), x[1], x[2], x[3], Dtype(x[4])};
}

template <typename T>
T* pointer(int64_t address) { return reinterpret_cast<T*>(address); }

// All that forward and backward share.
struct Call {
  const Layout* layout;
  std::vector<Piece> pieces;
  Problem problem{};
  int32_t finite = 1;

  Call(const Layout& layout, std::array<int64_t, 3> sizes, std::array<float, 2> factors, View q,
       const std::vector<std::tuple<View, View, int64_t>>& keys, int64_t k_pos,
       std::array<int64_t, 8> bias, int64_t sinks, int64_t threads)
      : layout(&layout) {
    for (const auto& [k, v, start] : keys) pieces.push_back({tensor(k), tensor(v), start});
    Problem& p = problem;
    p.batch = layout.batch, p.heads = layout.heads, p.q_len = layout.q_len, p.k_len = layout.k_len;
    p.kv_heads = sizes[0], p.head_dim = sizes[1], p.v_dim = sizes[2];
    p.scale = factors[0], p.softcap = factors[1];
    p.q = tensor(q);
    p.spans = layout.views.data(), p.span_of = layout.index.data();
    p.k_pos = pointer<const int64_t>(k_pos);
    p.bias = {BiasKind(bias[0]), pointer<const float>(bias[1]), bias[2], bias[3],
              {bias[4], bias[5], bias[6], bias[7]}};
    p.sinks = pointer<const float>(sinks);
    p.threads = usable(threads);
  }

  template <typename Kind>
  Kind as() {
    Kind call{};
    static_cast<Problem&>(call) = problem;
    call.pieces = pieces.data(), call.piece_count = int64_t(pieces.size());
    call.finite = &finite;
    return call;
  }
};

bool forward(const std::string& set, Call& call, View out, int64_t lse) {
  const Kernels& kernels = kernels_named(set);
  const nb::gil_scoped_release free;
  auto p = call.as<Forward>();
  const Schedule& schedule = call.layout->schedule(p.kv_heads, p.threads);
  p.out = tensor(out), p.lse = pointer<float>(lse);
  p.work = schedule.work.data(), p.work_count = int64_t(schedule.work.size());
  p.merges = schedule.merges.data(), p.merge_count = int64_t(schedule.merges.size());
  p.slots = schedule.slots, p.pack_ahead = schedule.pack_ahead;
  p.in_place = schedule.in_place;
  kernels.forward(p);
  return call.finite;
}

void backward(const std::string& set, Call& call, View out, View grad, int64_t lse,
              int64_t grad_lse, View dq, View dk, View dv, int64_t dbias) {
  const Kernels& kernels = kernels_named(set);
  const nb::gil_scoped_release free;
  auto p = call.as<Backward>();
  p.out = tensor(out), p.grad = tensor(grad), p.lse = pointer<const float>(lse);
  p.grad_lse = pointer<const float>(grad_lse);
  p.dq = tensor(dq), p.dk = tensor(dk), p.dv = tensor(dv), p.dbias = pointer<double>(dbias);
  const int64_t parts = p.batch * p.kv_heads;
  p.splits = parts >= 2 * p.threads || parts % p.threads == 0 ? 1 : (2 * p.threads - 1) / parts + 1;
  kernels.backward(p);
}

void linear(const std::string& set, std::array<int64_t, 3> sizes, std::array<int64_t, 2> x,
            std::array<int64_t, 2> weight, int64_t bias, int64_t out, int64_t dtype,
            int64_t threads) {
  const Kernels& kernels = kernels_named(set);
  const nb::gil_scoped_release free;
  kernels.linear({sizes[0], sizes[1], sizes[2], pointer<const char>(x[0]), x[1],
                  pointer<const char>(weight[0]), weight[1], pointer<const float>(bias),
                  pointer<char>(out), Dtype(dtype), usable(threads)});
}

using Array = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Numbers numbers(const Array& x) { return Numbers(x.data(), x.data() + x.size()); }

SpanTable table(int64_t q_start, int64_t q_len, int64_t k_len, const Array& starts,
                const Array& offsets, const Array& a, const Array& s, const Array& b,
                const Array& t, const Bytes& bits) {
  return {q_start, q_len, k_len, numbers(starts), numbers(offsets), numbers(a), numbers(s),
          numbers(b), numbers(t), std::vector<uint8_t>(bits.data(), bits.data() + bits.size())};
}

}  // namespace
}  // namespace hitherto

NB_MODULE(_native, m) {
  using namespace hitherto;
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  nb::set_leak_warnings(false);  // layouts live in a cache for as long as the process

  nb::class_<SpanTable>(m, "SpanTable");
  m.def("span_table", &table);
  nb::class_<Layout>(m, "Layout")
      .def("__init__", [](Layout* self, std::vector<SpanTable> tables, const Array& index,
                          int64_t batch, int64_t heads) {
        new (self) Layout(std::move(tables), numbers(index), batch, heads);
      });
  nb::class_<Call>(m, "Call").def(
      nb::init<const Layout&, std::array<int64_t, 3>, std::array<float, 2>, View,
               const std::vector<std::tuple<View, View, int64_t>>&, int64_t,
               std::array<int64_t, 8>, int64_t, int64_t>(),
      nb::keep_alive<1, 2>());

  m.def("supported", [] {
    std::vector<std::string> names;
    for (const Kernels* set : supported()) names.emplace_back(set->name);
    return names;
  });
  m.def("forward", &forward);
  m.def("backward", &backward);
  m.def("linear", &linear);
  m.def("multiply_adds", [](const std::string& set, int64_t threads, int64_t rounds) {
    const Kernels& kernels = kernels_named(set);
    const nb::gil_scoped_release free;
    return kernels.multiply_adds(usable(threads), rounds);
  });
  m.def("read", [](const std::string& set, int64_t address, int64_t bytes, int64_t threads) {
    const Kernels& kernels = kernels_named(set);
    const nb::gil_scoped_release free;
    return kernels.read(pointer<const char>(address), bytes, usable(threads));
  });
}
