// Small programs that spend their time in different ways, for measuring what translation costs.
// They call nothing and have their memory from the caller.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_KERNELS_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_KERNELS_H_

#include <cstdint>
#include <vector>

namespace hindsight {

struct Kernel {
  const char* name;
  // Uses kKernelBytes at `memory`. The result depends on nothing else.
  uint64_t (*run)(uint64_t* memory);
};

inline constexpr uint64_t kKernelBytes = 1 << 20;

const std::vector<Kernel>& Kernels();

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_KERNELS_H_
