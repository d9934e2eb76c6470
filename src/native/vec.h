// A vector of floats as the compiler's own vector type: one source for every instruction set.
// Everything here is in a namespace of its own per instruction set, std templates are not used, and
// so the linker cannot put one set's code in place of another's.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "problem.h"

namespace hitherto::HITHERTO_ISA {

#if defined(__AVX512F__)
constexpr int64_t W = 16;  // lanes
constexpr int64_t NV = 4;  // vectors side by side in a register tile
#elif defined(__AVX2__)
constexpr int64_t W = 8;
constexpr int64_t NV = 2;
#else
constexpr int64_t W = 4;
constexpr int64_t NV = 2;
#endif
constexpr int64_t MR = 6;         // rows of a register tile
constexpr int64_t PANEL = NV * W;  // columns of a register tile

using F = float __attribute__((vector_size(4 * W)));
using I = int32_t __attribute__((vector_size(4 * W)));
using LooseF = float __attribute__((vector_size(4 * W), aligned(4), may_alias));

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

INLINE F load(const float* p) { return *reinterpret_cast<const LooseF*>(p); }
INLINE void store(float* p, F x) { *reinterpret_cast<LooseF*>(p) = x; }
INLINE F splat(float x) { return x - F{}; }
INLINE I splat(int32_t x) { return x - I{}; }
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Keeps the compiler from reading memory again for each use of x.
INLINE F once(F x) {
#if defined(__AVX2__)
  asm("" : "+v"(x));
#endif
  return x;
}

// Calls `f` with 0 .. W - 1 as constants: shuffles are one instruction only when the compiler
// knows their indices.
template <int... L, typename Body>
INLINE auto spread(std::integer_sequence<int, L...>, Body body) {
  return body(std::integral_constant<int, L>{}...);
}

template <typename Body>
INLINE auto with_lanes(Body body) {
  return spread(std::make_integer_sequence<int, W>{}, body);
}

INLINE I lanes() {
  return with_lanes([](auto... l) INLINE_LAMBDA { return I{l...}; });
}

// A NaN in `b` stays: this is what the processor's max does, in one instruction where it is named.
INLINE F larger(F a, F b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// Fold a vector in halves, so that no long chain of scalar steps forms.
template <int Step = W / 2, typename Join>
INLINE float fold(F x, Join join) {
  if constexpr (Step == 0) return x[0];
  else {
    const F other = with_lanes(
        [&](auto... l) INLINE_LAMBDA { return __builtin_shufflevector(x, x, (l ^ Step)...); });
    return fold<Step / 2>(join(x, other), join);
  }
}

INLINE float sum(F x) {
  return fold(x, [](F a, F b) INLINE_LAMBDA { return a + b; });
}

INLINE float largest(F x) {
  return fold(x, [](F a, F b) INLINE_LAMBDA { return larger(a, b); });
}

// 2^x for x <= 127, exactly 0 below -126.5 and for -inf; relative error 1e-7.
INLINE F exp2(F x) {
  const F magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = larger(splat(-127.0f), x);
  const F shifted = x + magic;
  const F f = x - (shifted - magic);
  // The minimax polynomial of degree 6 on [-1/2, 1/2]; exactly 1 at 0, so that one key weighs 1.
  F p = splat(1.5345812e-4f);
  p = p * f + splat(1.3399931e-3f);
  p = p * f + splat(9.618489e-3f);
  p = p * f + splat(5.5503286e-2f);
  p = p * f + splat(2.4022646e-1f);
  p = p * f + splat(6.931472e-1f);
  p = p * f + splat(1.0f);
  const I power = (reinterpret_cast<I>(shifted) + 127) << 23;
  return p * reinterpret_cast<F>(power);
}

// Cephes' polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel.
INLINE F tanh(F x) {
  const F z = x * x;
  F p = splat(-5.70498872745e-3f);
  p = p * z + splat(2.06390887954e-2f);
  p = p * z + splat(-5.37397155531e-2f);
  p = p * z + splat(1.33314422036e-1f);
  p = p * z + splat(-3.33332819422e-1f);
  const F near = x + x * z * p;
  const F capped = x > 40.0f ? splat(40.0f) : x;
  const F far = 1.0f - 2.0f / (exp2(capped * 2.88539008f) + 1.0f);
  return z < splat(0.390625f) ? near : far;
}

// Transpose W vectors of W lanes by swapping single lanes, then pairs, then fours, ...
template <int Step = 1>
INLINE void transpose(F (&x)[W]) {
  if constexpr (Step < W) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < W; ++i) {
      if (i & Step) continue;
      const F a = x[i], b = x[i + Step];
      with_lanes([&](auto... l) INLINE_LAMBDA {
        x[i] = __builtin_shufflevector(a, b, (l & Step ? W + l - Step : l)...);
        x[i + Step] = __builtin_shufflevector(a, b, (l & Step ? W + l : l + Step)...);
      });
    }
    transpose<Step * 2>(x);
  }
}

// Lanes of b where the lane's number has the bit Half, of a elsewhere.
template <int64_t Half>
INLINE F mixed(F a, F b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return _mm256_blend_ps(a, b, Half == 4 ? 0xf0 : Half == 2 ? 0xcc : 0xaa);
#else
  return with_lanes([&](auto... l) INLINE_LAMBDA {
    return __builtin_shufflevector(a, b, (l & Half ? W + l : l)...);
  });
#endif
}

// Lane i of the result is the sum of x[i]: vectors are folded into each other, half as many a time.
template <int64_t Half = W / 2>
INLINE F sums(F (&x)[W]) {
  if constexpr (Half == 0) return x[0];
  else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < Half; ++i) {
      const F a = x[i], b = x[i + Half];
      const F crossed = with_lanes([&](auto... l) INLINE_LAMBDA {
        return __builtin_shufflevector(a, b, (l & Half ? W + l - Half : l + Half)...);
      });
      x[i] = mixed<Half>(a, b) + crossed;
    }
    return sums<Half / 2>(x);
  }
}

// Floats on cache lines, freed with the scope.
struct Buffer {
  float* data;
  explicit Buffer(int64_t n)
      : data(static_cast<float*>(std::aligned_alloc(64, round_up(4 * most(n, 1), 64)))) {
    if (!data) std::abort();  // inside a parallel region nothing can be thrown
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator float*() const { return data; }
};

}  // namespace hitherto::HITHERTO_ISA
