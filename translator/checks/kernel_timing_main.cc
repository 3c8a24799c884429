// Prints what translation costs: kernels natively and translated, in one process.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "translator/checks/kernels.h"
#include "translator/checks/machine.h"
#include "translator/checks/translated_run.h"

namespace hindsight {
namespace {

constexpr uint64_t kMemory = 0x1000'0000, kStack = 0x1100'0000;
constexpr uint64_t kStackBytes = 1 << 20;
constexpr uint64_t kDistance = (uint64_t{16} << 40) + (16 << 20);
constexpr uint64_t kUnlimited = uint64_t{1} << 50;
constexpr uint64_t kPage = 4096;
constexpr int kRounds = 5;

void MapFixed(uint64_t address, uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(address);
  CHECK(mmap(wanted, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted);
}

// A page of the view is there from its first use on.
bool Repair(uint64_t address) {
  if (address < kDistance) return false;
  const uint64_t page = address / kPage * kPage;
  MapFixed(page, kPage);
  std::memcpy(reinterpret_cast<void*>(page), reinterpret_cast<void*>(page - kDistance), kPage);
  return true;
}

// The host's own code near the kernels.
absl::Span<const uint8_t> CodeAt(uint64_t pc) {
  return {reinterpret_cast<const uint8_t*>(pc), 1024};
}

class Timing {
 public:
  Timing() {
    MapFixed(kMemory, kKernelBytes);
    MapFixed(kStack, kStackBytes);
    end_ = kStack;
    *reinterpret_cast<uint8_t*>(end_) = 0xcc;
  }

  RegisterFile Start(const Kernel& kernel) {
    std::memset(reinterpret_cast<void*>(kMemory), 0, kKernelBytes);
    RegisterFile registers;
    registers.rflags = 0x202;
    registers.mxcsr = 0x1f80;
    registers.fcw = 0x37f;
    registers.rip = reinterpret_cast<uint64_t>(kernel.run);
    registers.gpr[kRdi] = kMemory;
    registers.gpr[kRsp] = kStack + kStackBytes - 4096 - 8;
    std::memcpy(reinterpret_cast<void*>(registers.gpr[kRsp]), &end_, sizeof(end_));
    return registers;
  }

  // Milliseconds, the best of some runs.
  template <typename Run>
  double Measure(const Kernel& kernel, const Run& run, uint64_t* result) {
    double best = HUGE_VAL;
    for (int round = 0; round < kRounds; ++round) {
      const RegisterFile registers = Start(kernel);
      const auto begin = std::chrono::steady_clock::now();
      *result = run(registers);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count());
    }
    return best;
  }

  void Print(const Kernel& kernel) {
    uint64_t wanted = 0, got = 0;
    const double native = Measure(
        kernel, [&](const RegisterFile& at) { return machine_.Run(at).registers.gpr[kRax]; },
        &wanted);
    std::printf("%-12s native %7.2f ms", kernel.name, native);
    for (Flavour flavour : {Flavour::kPlain, Flavour::kRecord}) {
      TranslatedRun translated(
          &machine_, {.arena = (reinterpret_cast<uint64_t>(kernel.run) & ~uint64_t{0xffff'ffff}) -
                               (uint64_t{1} << 30),
                      .distance = kDistance,
                      .flavour = flavour,
                      .code_at = CodeAt});
      Machine::SetRepair(flavour == Flavour::kRecord ? Repair : nullptr);
      translated.set_on_miss([](uint64_t address, uint64_t bytes) {
        const uint64_t begin = address / kPage * kPage;
        const uint64_t end = (address + bytes + kPage - 1) / kPage * kPage;
        std::memcpy(reinterpret_cast<void*>(begin + kDistance), reinterpret_cast<void*>(begin),
                    end - begin);
        return true;
      });
      uint64_t count = 0;
      const double took = Measure(
          kernel,
          [&](const RegisterFile& at) {
            const GuestStop stop = translated.Run(at, kUnlimited);
            count = stop.count;
            return stop.registers.gpr[kRax];
          },
          &got);
      CHECK(got == wanted);
      std::printf("   %s %5.2f", flavour == Flavour::kPlain ? "plain" : "record", took / native);
      (flavour == Flavour::kPlain ? plain_ : record_) += std::log(took / native);
      if (flavour == Flavour::kRecord) {
        std::printf("   %5.2f instructions/ns native", count / native / 1e6);
      }
    }
    std::printf("\n");
    ++kernels_;
  }

  void PrintMeans() const {
    std::printf("geometric means: plain %.2f, record %.2f\n", std::exp(plain_ / kernels_),
                std::exp(record_ / kernels_));
  }

 private:
  Machine machine_;
  uint64_t end_ = 0;  // where kernels return to
  double plain_ = 0, record_ = 0;
  int kernels_ = 0;
};

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  hindsight::Timing timing;
  for (const hindsight::Kernel& kernel : hindsight::Kernels()) {
    if (argc > 1 && std::strcmp(argv[1], kernel.name) != 0) continue;
    timing.Print(kernel);
  }
  timing.PrintMeans();
  return 0;
}
