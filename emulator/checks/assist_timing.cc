// How long assisted instructions take: loops of AVX2 and AVX-512 in a Cpu and on the host.

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"
#include "emulator/cpu/cpu.h"
#include "isa/host_features.h"

// rdi, rsi: arrays of rcx bytes; rdx: how often. Seven and five instructions per iteration.
asm(R"(
.pushsection .text
.globl timing_avx2, timing_avx2_end, timing_avx512, timing_avx512_end, timing_mixed
.globl timing_mixed_end
.balign 16
timing_avx2:
  xor %eax, %eax
1:
  vmovups (%rsi,%rax), %ymm0
  vmulps (%rdi,%rax), %ymm0, %ymm1
  vaddps %ymm1, %ymm2, %ymm2
  vmovups %ymm2, (%rdi,%rax)
  add $32, %rax
  cmp %rcx, %rax
  jb 1b
  dec %rdx
  jnz timing_avx2
timing_avx2_end:
  ret
timing_avx512:
  xor %eax, %eax
1:
  vmovups (%rsi,%rax), %zmm0
  vfmadd231ps (%rdi,%rax), %zmm0, %zmm2
  vmovups %zmm2, (%rdi,%rax)
  add $64, %rax
  cmp %rcx, %rax
  jb 1b
  dec %rdx
  jnz timing_avx512
timing_avx512_end:
  ret
timing_mixed:
  xor %eax, %eax
1:
  movzbl (%rsi,%rax), %r8d
  andn %r8, %rax, %r9
  imul %r9, %r8
  xor %r8, %r10
  shr $3, %r9
  popcnt %r9, %r9
  add %r9, (%rdi,%rax)
  lea 8(%rax), %rax
  cmp %rcx, %rax
  jb 1b
  dec %rdx
  jnz timing_mixed
timing_mixed_end:
  ret
.popsection
)");

extern "C" {
void timing_avx2(void* to, void* from, uint64_t times, uint64_t bytes);
void timing_avx512(void* to, void* from, uint64_t times, uint64_t bytes);
void timing_mixed(void* to, void* from, uint64_t times, uint64_t bytes);
extern const uint8_t timing_avx2_end[], timing_avx512_end[], timing_mixed_end[];
}

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000, kTo = 0x600000, kFrom = 0x700000;
constexpr uint64_t kBytes = 4096;

using Loop = void (*)(void*, void*, uint64_t, uint64_t);

class AllPages final : public Pager {
 public:
  bool OnMissing(uint64_t page, Access access) override {
    cpu->SetRights(page, PageRights::kReadWrite);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return true; }
  Cpu* cpu = nullptr;
};

double Now() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double NativeNs(Loop loop, uint64_t times) {
  alignas(64) static uint8_t to[kBytes], from[kBytes];
  const double start = Now();
  // The order of arguments is rdi, rsi, rdx, rcx.
  loop(to, from, times, kBytes);
  return Now() - start;
}

void Time(const char* name, Loop loop, const uint8_t* end, uint64_t native_times, uint64_t times) {
  AllPages pager;
  std::unique_ptr<Cpu> cpu = *Cpu::Create(&pager);
  pager.cpu = cpu.get();
  const auto begin = reinterpret_cast<const uint8_t*>(loop);
  std::memcpy(cpu->HostPage(kCode), begin, static_cast<size_t>(end - begin));
  RegisterFile registers;
  registers.rip = kCode;
  registers.rflags = 0x202;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  registers.gpr[kRdi] = kTo;
  registers.gpr[kRsi] = kFrom;
  registers.gpr[kRdx] = times;
  registers.gpr[kRcx] = kBytes;
  cpu->SetRegisters(registers);
  cpu->SetBreakpoints({kCode + static_cast<uint64_t>(end - begin)});
  const double start = Now();
  CHECK(cpu->Run({}).stop == Stop::kBreakpoint);
  const double emulated = (Now() - start) / static_cast<double>(cpu->count());
  const double native = NativeNs(loop, native_times) / static_cast<double>(native_times) *
                        static_cast<double>(times) / static_cast<double>(cpu->count());
  std::printf("%s: %.1f ns per instruction, %.3f natively: %.0f times\n", name, emulated, native,
              emulated / native);
}

// `only`: one of the loops; empty: all.
void Main(const std::string& only) {
  HostFeatures host = HostFeatures::OfThisHost();
  if (!only.empty()) {
    const HostFeatures wanted = HostFeatures::FromNames({&only, 1});
    if (!host.Has(wanted)) return;
    host = wanted;
  }
  if (host.Has(HostFeature::kBmi1)) Time("bmi1", timing_mixed, timing_mixed_end, 50000, 500);
  if (host.Has(HostFeature::kAvx2)) Time("avx2", timing_avx2, timing_avx2_end, 100000, 2000);
  if (host.Has(HostFeature::kAvx512F)) {
    Time("avx512f", timing_avx512, timing_avx512_end, 100000, 4000);
  }
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  hindsight::Main(argc > 1 ? argv[1] : "");
  return 0;
}
