// What a point costs that is not taken. `bazel run -c opt //libhindsight:points_benchmark`.
//
// The control file is a plain one here, and the listener's mark is this process's own id.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "libhindsight/control.h"
#include "libhindsight/hindsight.h"

namespace {

// Listened to by nobody: points that pass would wait for ever, and none does.
struct hs_control* Control() {
  static struct hs_control control;
  std::memset(&control, 0, sizeof(control));
  control.guard = static_cast<uint32_t>(getpid());
  control.active = 1;
  control.process = getpid();
  control.triggers = ~0u;
  control.stride = 1;
  return &control;
}

// Sets up in the first thread, before the others begin.
template <typename SetUp>
void Filtered(benchmark::State& state, SetUp set_up) {
  if (state.thread_index() == 0) {
    struct hs_control* control = Control();
    set_up(*control);
    hs_control = control;
  }
  for (auto step : state) {
    hs_breakpoint(1, 2, 3, false, HS_ATTRIBUTES({"phase", "solve"}));
  }
  if (state.thread_index() == 0) hs_control = nullptr;
}

void BM_NobodyListens(benchmark::State& state) {
  for (auto step : state) hs_breakpoint(1, 2, 3, false, nullptr);
}
BENCHMARK(BM_NobodyListens)->Threads(1)->Threads(8);

void BM_LevelTooLow(benchmark::State& state) {
  Filtered(state, [](struct hs_control& control) { control.level = 2; });
}
BENCHMARK(BM_LevelTooLow)->Threads(1)->Threads(8);

void BM_InNoneOf32Ranges(benchmark::State& state) {
  Filtered(state, [](struct hs_control& control) {
    control.id_count = HS_RANGES;
    for (hs_range& range : control.ids) range = {100, 200};
  });
}
BENCHMARK(BM_InNoneOf32Ranges)->Threads(1)->Threads(8);

void BM_OtherAttribute(benchmark::State& state) {
  Filtered(state, [](struct hs_control& control) {
    control.attribute_count = 1;
    std::strcpy(control.attributes[0].key, "phase");
    std::strcpy(control.attributes[0].value, "setup");
  });
}
BENCHMARK(BM_OtherAttribute)->Threads(1)->Threads(8);

void BM_IntervalNotOver(benchmark::State& state) {
  Filtered(state, [](struct hs_control& control) {
    control.interval_ns = 1;
    control.next_ns = ~uint64_t{0};
  });
}
BENCHMARK(BM_IntervalNotOver)->Threads(1)->Threads(8);

void BM_SkippedByNumber(benchmark::State& state) {
  Filtered(state, [](struct hs_control& control) { control.skip = ~uint64_t{0}; });
}
BENCHMARK(BM_SkippedByNumber)->Threads(1)->Threads(8);

void BM_OncePassedBefore(benchmark::State& state) {
  if (state.thread_index() == 0) {
    struct hs_control* control = Control();
    for (uint64_t& place : control->once) place = ~(uint64_t{2} << 32 | 3);
    hs_control = control;
  }
  for (auto step : state) hs_breakpoint(1, 2, 3, true, nullptr);
  if (state.thread_index() == 0) hs_control = nullptr;
}
BENCHMARK(BM_OncePassedBefore)->Threads(1)->Threads(8);

}  // namespace

BENCHMARK_MAIN();
