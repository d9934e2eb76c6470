// Numbers of 16 bits as floats and back, rounded to nearest even, one by one and in whole vectors.
#pragma once
#include "vec.h"

namespace hitherto::HITHERTO_ISA {

INLINE float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
  uint32_t bits = (rest << 13) + 0x38000000;
  if (rest >= 0x7c00) bits += 0x38000000;  // NaN and infinity
  float x;
  if (rest < 0x400) {
    x = float(rest) * 5.9604644775390625e-8f;  // below the normal numbers: 2^-24 each
    std::memcpy(&bits, &x, 4);
  }
  bits |= sign;
  std::memcpy(&x, &bits, 4);
  return x;
}

INLINE uint16_t float_to_half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint16_t sign = uint16_t(bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x47800000) return sign | 0x7c00;
  if (bits < 0x38800000) {  // rounds to a multiple of 2^-24, which is what adding 0.5 does
    float tiny;
    std::memcpy(&tiny, &bits, 4);
    tiny += 0.5f;
    std::memcpy(&bits, &tiny, 4);
    return sign | uint16_t(bits - 0x3f000000);
  }
  return sign | uint16_t((bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13);
}

INLINE uint16_t float_to_bfloat(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16) | 0x40;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// g++ 12 takes seven instructions for what the processor does in two, so they are named.
INLINE F load_bfloat(const uint16_t* p) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#elif defined(__AVX2__)
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
#else
  using Half = uint16_t __attribute__((vector_size(2 * W), aligned(2), may_alias));
  using Word = uint32_t __attribute__((vector_size(4 * W)));
  const Half half = *reinterpret_cast<const Half*>(p);
  return reinterpret_cast<F>(__builtin_convertvector(half, Word) << 16);
#endif
}

// Write `n` numbers of a dtype as floats.
inline void widen(float* to, const char* from, Dtype dtype, int64_t n) {
  int64_t i = 0;
  if (dtype == Dtype::float32) {
    const auto* x = reinterpret_cast<const float*>(from);
    for (; i + W <= n; i += W) store(to + i, load(x + i));
    for (; i < n; ++i) to[i] = x[i];
    return;
  }
  const auto* half = reinterpret_cast<const uint16_t*>(from);
  if (dtype == Dtype::bfloat16) {
    for (; i + W <= n; i += W) store(to + i, load_bfloat(half + i));
    for (; i < n; ++i) {
      const uint32_t bits = uint32_t(half[i]) << 16;
      std::memcpy(to + i, &bits, 4);
    }
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(half + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(x));
  }
#endif
  for (; i < n; ++i) to[i] = half_to_float(half[i]);
}

// Write `n` floats, each times `factor`, as numbers of a dtype, rounded to nearest even.
inline void narrow(char* to, const float* from, Dtype dtype, int64_t n, float factor) {
  if (dtype == Dtype::float32) {
    auto* out = reinterpret_cast<float*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = from[i] * factor;
    return;
  }
  auto* half = reinterpret_cast<uint16_t*>(to);
  const bool brain = dtype == Dtype::bfloat16;
  for (int64_t i = 0; i < n; ++i)
    half[i] = brain ? float_to_bfloat(from[i] * factor) : float_to_half(from[i] * factor);
}

inline bool all_finite(const float* x, int64_t n) {
  int32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, 4);
    bad |= (bits & 0x7f800000) == 0x7f800000;
  }
  return !bad;
}

// W numbers of a row from number `i` on.
template <Dtype D>
INLINE F load_as(const char* row, int64_t i) {
  if constexpr (D == Dtype::float32) return load(reinterpret_cast<const float*>(row) + i);
  const auto* half = reinterpret_cast<const uint16_t*>(row) + i;
  if constexpr (D == Dtype::bfloat16) return load_bfloat(half);
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(half)));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(half)));
#else
  return with_lanes([&](auto... l) INLINE_LAMBDA { return F{half_to_float(half[l])...}; });
#endif
}

// The `n` < W numbers from `i` on, zeros after them.
template <Dtype D>
__attribute__((noinline)) F load_rest(const char* row, int64_t i, int64_t n) {
  float x[W] = {};
  widen(x, row + i * (D == Dtype::float32 ? 4 : 2), D, n);
  return load(x);
}

// Calls `body` with the dtype as a constant.
template <typename Body>
INLINE void with_dtype(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::float32: return body(std::integral_constant<Dtype, Dtype::float32>{});
    case Dtype::bfloat16: return body(std::integral_constant<Dtype, Dtype::bfloat16>{});
    case Dtype::float16: return body(std::integral_constant<Dtype, Dtype::float16>{});
  }
}

}  // namespace hitherto::HITHERTO_ISA
