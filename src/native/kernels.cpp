// Compiled once for every instruction set, each time with another HITHERTO_ISA and other flags.
#include "backward.h"
#include "linear.h"
#include "peak.h"

#define HITHERTO_TEXT_OF(x) #x
#define HITHERTO_TEXT(x) HITHERTO_TEXT_OF(x)

namespace hitherto::HITHERTO_ISA {

const Kernels& kernels() {
  static constexpr Kernels table{
      HITHERTO_TEXT(HITHERTO_ISA), W, forward, backward, linear, multiply_adds, read};
  return table;
}

}  // namespace hitherto::HITHERTO_ISA
