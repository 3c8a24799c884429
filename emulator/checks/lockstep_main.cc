// lockstep [--max=N] [--cpu=host] PROG ARGS...: compares the emulator with the host over a run of
// any program.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "emulator/checks/lockstep.h"

namespace hindsight {
namespace {

void Print(const LockstepReport& report) {
  std::printf("%" PRIu64 " instructions, %" PRIu64 " compared (%zu mnemonics), %" PRIu64
              " refused a page, %s\n",
              report.instructions, report.compared, report.mnemonics.size(), report.refused,
              report.exited ? "exited" : "still running");
  for (const auto& [name, times] : report.taken_from_process) {
    std::printf("  on the host: %-12s %" PRIu64 "\n", name.c_str(), times);
  }
  for (const auto& [name, finding] : report.differences) {
    std::printf("DIFFERS %-12s %" PRIu64 " times, first %s\n", name.c_str(), finding.times,
                finding.first.c_str());
  }
}

int Main(int argc, char** argv) {
  uint64_t limit = ~uint64_t{0};
  int first = 1;
  CpuModel model = CpuModel::kPortable;
  if (first < argc && std::strncmp(argv[first], "--max=", 6) == 0) {
    limit = std::strtoull(argv[first++] + 6, nullptr, 0);
  }
  if (first < argc && std::strcmp(argv[first], "--cpu=host") == 0) {
    model = CpuModel::kHost;
    ++first;
  }
  if (first >= argc) {
    std::fprintf(stderr, "usage: lockstep [--max=INSTRUCTIONS] [--cpu=host] PROG ARGS...\n");
    return 2;
  }
  SteppedProcess::StayOnOneProcessor();
  auto process = SteppedProcess::Launch(std::vector<std::string>(argv + first, argv + argc));
  if (!process.ok()) {
    std::fprintf(stderr, "%s\n", process.status().ToString().c_str());
    return 2;
  }
  auto lockstep = Lockstep::Create(process->get(), model);
  if (!lockstep.ok()) {
    std::fprintf(stderr, "%s\n", lockstep.status().ToString().c_str());
    return 2;
  }
  const LockstepReport& report = (*lockstep)->Run(limit);
  Print(report);
  return report.differences.empty() ? 0 : 1;
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) { return hindsight::Main(argc, argv); }
