// What the machine can do at most: the measure that benchmarks are read against.
#pragma once
#include "vec.h"

namespace hitherto::HITHERTO_ISA {

// Run independent multiply-adds in registers; returns how many floating-point operations that were.
inline double multiply_adds(int64_t threads, int64_t rounds) {
  constexpr int64_t chains = 12;  // more than latency times units on every processor meant here
  float spill = 0;
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(+ : spill)
  {
    F acc[chains];
    for (int64_t i = 0; i < chains; ++i) acc[i] = splat(float(i));
    F factor = splat(0.999f), term = splat(0.001f);
    asm volatile("" : "+m"(factor), "+m"(term));
    for (int64_t n = 0; n < rounds; ++n)
#pragma GCC unroll 12
      for (int64_t i = 0; i < chains; ++i) acc[i] = acc[i] * factor + term;
    for (int64_t i = 0; i < chains; ++i) spill += sum(acc[i]);
  }
  asm volatile("" : : "m"(spill));
  return 2.0 * W * chains * double(rounds) * double(threads);
}

// Read memory once, each thread its own part; returns a sum so that the reads are not left out.
inline double read(const char* data, int64_t bytes, int64_t threads) {
  const auto* x = reinterpret_cast<const float*>(data);
  const int64_t step = 16 * W, blocks = bytes / 4 / step;
  double total = 0;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static) reduction(+ : total)
  for (int64_t block = 0; block < blocks; ++block) {
    F acc[4] = {};
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) acc[i % 4] += load(x + block * step + i * W);
    total += acc[0][0] + acc[1][0] + acc[2][0] + acc[3][0];
  }
  return total;
}

}  // namespace hitherto::HITHERTO_ISA
