// Feeds wild bytes to host assist and aborts if they reach anything of the host's.
//
//   bazel run --config=fuzz //emulator/checks:assist_fuzzer -- -max_total_time=60

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "emulator/checks/assist_probe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const probe = hindsight::AssistProbe::Create(/*seed=*/1)->release();
  const auto result = probe->Try({data, size});
  if (!result.wrong.empty()) {
    std::fprintf(stderr, "%s\n", result.wrong.c_str());
    std::abort();
  }
  return 0;
}
