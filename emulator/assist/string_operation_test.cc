// Repeated string instructions in a Cpu, compared with the processor's.

#include "emulator/assist/string_operation.h"

#include <array>
#include <random>
#include <string>

#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

constexpr size_t kPages = 4;
constexpr uint64_t kFlags = 0x8d5;  // CF PF AF ZF SF OF

using Memory = std::array<uint8_t, kPages * kPageBytes>;

struct State {
  uint64_t rax, rcx, rsi, rdi, rflags;
};

#define ON_HOST(name, code)                                                              \
  void name(State* s) {                                                                  \
    /* Below what a leaf function may have there. */                                     \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpush %[flags]\n\tpopfq\n\t" code         \
                     "\n\tpushfq\n\tpop %[flags]\n\tlea 128(%%rsp), %%rsp"               \
                     : "+c"(s->rcx), "+S"(s->rsi), "+D"(s->rdi), [flags] "+r"(s->rflags) \
                     : "a"(s->rax)                                                       \
                     : "memory", "cc");                                                  \
  }
ON_HOST(Movsb, "rep movsb")
ON_HOST(Movsw, "rep movsw")
ON_HOST(Movsd, "rep movsl")
ON_HOST(Movsq, "rep movsq")
ON_HOST(Stosb, "rep stosb")
ON_HOST(Stosw, "rep stosw")
ON_HOST(Stosd, "rep stosl")
ON_HOST(Stosq, "rep stosq")
ON_HOST(RepeCmpsb, "repe cmpsb")
ON_HOST(RepeCmpsw, "repe cmpsw")
ON_HOST(RepeCmpsd, "repe cmpsl")
ON_HOST(RepeCmpsq, "repe cmpsq")
ON_HOST(RepneCmpsb, "repne cmpsb")
ON_HOST(RepeScasb, "repe scasb")
ON_HOST(RepneScasb, "repne scasb")
ON_HOST(RepneScasw, "repne scasw")
ON_HOST(RepneScasd, "repne scasl")
ON_HOST(RepneScasq, "repne scasq")
#undef ON_HOST

struct Operation {
  const char* name;
  void (*on_host)(State*);
  std::vector<uint8_t> code;
};

const Operation kOperations[] = {
    {"movsb", Movsb, {0xf3, 0xa4}},
    {"movsw", Movsw, {0x66, 0xf3, 0xa5}},
    {"movsd", Movsd, {0xf3, 0xa5}},
    {"movsq", Movsq, {0xf3, 0x48, 0xa5}},
    {"movsb_with_repne", Movsb, {0xf2, 0xa4}},
    {"stosb", Stosb, {0xf3, 0xaa}},
    {"stosw", Stosw, {0x66, 0xf3, 0xab}},
    {"stosd", Stosd, {0xf3, 0xab}},
    {"stosq", Stosq, {0xf3, 0x48, 0xab}},
    {"repe_cmpsb", RepeCmpsb, {0xf3, 0xa6}},
    {"repe_cmpsw", RepeCmpsw, {0x66, 0xf3, 0xa7}},
    {"repe_cmpsd", RepeCmpsd, {0xf3, 0xa7}},
    {"repe_cmpsq", RepeCmpsq, {0xf3, 0x48, 0xa7}},
    {"repne_cmpsb", RepneCmpsb, {0xf2, 0xa6}},
    {"repe_scasb", RepeScasb, {0xf3, 0xae}},
    {"repne_scasb", RepneScasb, {0xf2, 0xae}},
    {"repne_scasw", RepneScasw, {0x66, 0xf2, 0xaf}},
    {"repne_scasd", RepneScasd, {0xf2, 0xaf}},
    {"repne_scasq", RepneScasq, {0xf2, 0x48, 0xaf}},
};

class StringOperationTest : public CpuTest, public testing::WithParamInterface<Operation> {
 protected:
  void SetUp() override {
    CpuTest::SetUp();
    for (size_t i = 1; i < kPages; ++i) pages_[kData + i * kPageBytes].resize(kPageBytes);
    for (size_t i = 0; i < GetParam().code.size(); ++i) pages_[kCode][i] = GetParam().code[i];
    pages_[kCode][GetParam().code.size()] = 0x90;
  }

  uint64_t Below(uint64_t limit) { return random_() % limit; }

  // Long stretches of equal bytes, so that comparisons go far.
  Memory RandomMemory() {
    Memory memory;
    memory.fill(static_cast<uint8_t>(Below(3)));
    for (uint64_t i = Below(40); i > 0; --i) {
      memory[Below(memory.size())] = static_cast<uint8_t>(random_());
    }
    return memory;
  }

  State RandomState() {
    constexpr uint64_t kAll = 0x0101010101010101;
    const uint64_t count = Below(4) == 0 ? Below(8) : Below(1500);
    const uint64_t first = Below(2000);
    // Often with an overlap by little.
    const uint64_t second = Below(2) == 0 ? first + Below(40) : Below(4000);
    const bool swapped = Below(2) == 0;
    return {.rax = kAll * Below(3),
            .rcx = count,
            .rsi = swapped ? first : second,
            .rdi = swapped ? second : first,
            .rflags = 0x202 | (random_() & kFlags)};
  }

  void PutMemory(const Memory& memory) {
    for (size_t i = 0; i < kPages; ++i) {
      std::memcpy(pages_[kData + i * kPageBytes].data(), &memory[i * kPageBytes], kPageBytes);
    }
  }

  Memory CpuMemory() {
    Memory memory;
    for (size_t i = 0; i < kPages; ++i) {
      const auto out = absl::MakeSpan(&memory[i * kPageBytes], kPageBytes);
      if (cpu_->ReadHeld(kData + i * kPageBytes, out)) continue;
      std::memcpy(out.data(), pages_[kData + i * kPageBytes].data(), kPageBytes);
    }
    return memory;
  }

  void SetState(const State& state) {
    registers_.gpr[kRax] = state.rax;
    registers_.gpr[kRcx] = state.rcx;
    registers_.gpr[kRsi] = kData + state.rsi;
    registers_.gpr[kRdi] = kData + state.rdi;
    registers_.rflags = state.rflags;
  }

  std::mt19937_64 random_{testing::UnitTest::GetInstance()->random_seed() + 1u};
};

// As a block, and stepped.
TEST_P(StringOperationTest, DoesWhatTheProcessorDoes) {
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const Memory before = RandomMemory();
    const State state = RandomState();
    Memory expected = before;
    const auto base = reinterpret_cast<uint64_t>(expected.data());
    State host = state;
    host.rsi += base;
    host.rdi += base;
    // Nothing lies after the memory: what would leave it is cut short.
    const uint64_t room = expected.size() - std::max(state.rsi, state.rdi);
    host.rcx = std::min(host.rcx, room / 8);
    const uint64_t count = host.rcx;
    GetParam().on_host(&host);

    PutMemory(before);
    SetState(state);
    registers_.gpr[kRcx] = count;
    Restart();
    if (round % 2 == 0) {
      ASSERT_EQ(RunTo(1).stop, Stop::kLimit);
    } else {
      ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
    }
    ASSERT_EQ(cpu_->count(), 1u);
    ASSERT_EQ(cpu_->pc(), kCode + GetParam().code.size());
    ASSERT_EQ(Reg(kRcx), host.rcx);
    ASSERT_EQ(Reg(kRdi) - kData, host.rdi - base);
    ASSERT_EQ(Reg(kRsi) - kData, host.rsi - base);
    ASSERT_EQ(cpu_->registers().rflags & kFlags, host.rflags & kFlags);
    ASSERT_TRUE(CpuMemory() == expected);
  }
}

// The last page is missing: the iterations before have been done, the registers are as before.
TEST_P(StringOperationTest, FaultsAsAWhole) {
  pages_.erase(kData + 3 * kPageBytes);
  // repe compares equal bytes, repne bytes that differ: either gets to the missing page.
  const bool unequal = GetParam().code[0] == 0xf2 || GetParam().code[1] == 0xf2;
  for (size_t i = 0; i < 2; ++i) {
    auto& page = pages_[kData + i * kPageBytes];
    std::fill(page.begin(), page.end(), 0);
  }
  auto& last = pages_[kData + 2 * kPageBytes];
  std::fill(last.begin(), last.end(), unequal ? 1 : 0);
  SetState({.rax = 0, .rcx = 4200, .rsi = 0, .rdi = 2 * kPageBytes, .rflags = 0x202});
  Restart();
  for (const bool stepped : {false, true}) {
    const RunResult result = stepped ? cpu_->Step() : RunTo(1);
    ASSERT_EQ(result.stop, Stop::kFault);
    EXPECT_EQ(PageOf(result.fault_address), kData + 3 * kPageBytes);
    Restart();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, StringOperationTest, testing::ValuesIn(kOperations),
                         [](const auto& info) { return std::string(info.param.name); });

class StringOperationInCodeTest : public CpuTest {};

TEST_F(StringOperationInCodeTest, CountsOnceAmongOthers) {
  // L: mov edi,ebp...: rdi = kData each round; mov ecx,3000; rep stosb; dec ebx; jnz L; syscall
  Code({0x48, 0x89, 0xef, 0xb9, 0xb8, 0x0b, 0, 0, 0xf3, 0xaa, 0xff, 0xcb, 0x75, 0xf2, 0x0f, 0x05});
  registers_.gpr[kRbp] = kData;
  registers_.gpr[kRbx] = 20;
  registers_.gpr[kRax] = 7;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 100u);
  EXPECT_EQ(Reg(kRdi), kData + 3000);
  EXPECT_EQ(Data(2992), 0x0707070707070707u);
  EXPECT_EQ(Data(3000), 0u);
  // Any state between can be reached, too.
  for (uint64_t count = 1; count < 100; count += 3) {
    Restart();
    ASSERT_EQ(RunTo(count).stop, Stop::kLimit);
    ASSERT_EQ(cpu_->count(), count);
    ASSERT_EQ(Reg(kRdi), count % 5 == 1 || count % 5 == 2 ? kData : kData + 3000) << count;
  }
}

TEST_F(StringOperationInCodeTest, SeesCodeThatItOverwrites) {
  // mov ecx,200; rep stosb (from the next instruction on: nop); then what was written; syscall
  Code({0xb9, 200, 0, 0, 0, 0xf3, 0xaa});
  for (int i = 0; i < 200; ++i) Code({0xf4}, 7 + i);  // hlt
  Code({0x0f, 0x05}, 207);
  registers_.gpr[kRdi] = kCode + 7;
  registers_.gpr[kRax] = 0x90;
  Start();
  EXPECT_TRUE(RunThroughFaults());
  EXPECT_EQ(cpu_->pc(), kCode + 207);
  EXPECT_EQ(cpu_->count(), 202u);
}

TEST_F(StringOperationInCodeTest, WatchpointsSeeEachByte) {
  Code({0xb9, 0xb8, 0x0b, 0, 0, 0xf3, 0xaa, 0x90, 0x0f, 0x05});
  registers_.gpr[kRax] = 7;
  Start();
  cpu_->SetWatchpoints({{.address = kData + 2000, .length = 1, .on_write = true}});
  RunResult result = RunTo(~uint64_t{0});
  if (result.stop == Stop::kFault) {
    Restart();
    ASSERT_EQ(RunTo(result.block_count).stop, Stop::kLimit);
    while ((result = cpu_->Step()).stop == Stop::kLimit) {
    }
  }
  EXPECT_EQ(result.stop, Stop::kWatch);
  EXPECT_EQ(cpu_->watch_hit().address, kData + 2000);
  EXPECT_EQ(cpu_->count(), 2u);
}

}  // namespace
}  // namespace hindsight
