#include "recorder/emulate/thread/instruction_outputs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// With rdi at 0x5000, rsp at 0x8000.
SyscallOutputs Outputs(std::vector<uint8_t> code) {
  RegisterFile registers;
  registers.rip = 0x1000;
  registers.gpr[kRdi] = 0x5000;
  registers.gpr[kRsp] = 0x8000;
  return OutputsOfInstruction(code, registers);
}

bool Covers(const SyscallOutputs& outputs, uint64_t first, uint64_t last) {
  for (const MemoryRange& range : outputs.written) {
    if (range.address <= first && last < range.address + range.size) return true;
  }
  return false;
}

TEST(InstructionOutputs, Store) {
  const SyscallOutputs outputs = Outputs({0x48, 0x89, 0x47, 0x10});  // mov [rdi+16], rax
  EXPECT_TRUE(outputs.known);
  EXPECT_TRUE(Covers(outputs, 0x5010, 0x5017));
}

TEST(InstructionOutputs, RelativeToTheInstruction) {
  // mov [rip+0x100], eax
  EXPECT_TRUE(Covers(Outputs({0x89, 0x05, 0, 1, 0, 0}), 0x1106, 0x1109));
}

TEST(InstructionOutputs, PushWritesBelowTheStackPointer) {
  EXPECT_TRUE(Covers(Outputs({0x50}), 0x7ff8, 0x7fff));              // push rax
  EXPECT_TRUE(Covers(Outputs({0xe8, 0, 0, 0, 0}), 0x7ff8, 0x7fff));  // call
}

TEST(InstructionOutputs, StringStore) {
  EXPECT_TRUE(Covers(Outputs({0xf3, 0xaa}), 0x5000, 0x5000));  // rep stosb: one at a time
}

TEST(InstructionOutputs, StateOfUnknownSize) {
  EXPECT_TRUE(Covers(Outputs({0x0f, 0xae, 0x27}), 0x5000, 0x5000 + 2696));  // xsave [rdi]
}

TEST(InstructionOutputs, LoadsStoreNothing) {
  const SyscallOutputs outputs = Outputs({0x48, 0x8b, 0x07});  // mov rax, [rdi]
  EXPECT_TRUE(outputs.known);
  EXPECT_THAT(outputs.written, IsEmpty());
}

TEST(InstructionOutputs, SystemCallsInDisguiseAreNotKnown) {
  EXPECT_FALSE(Outputs({0xcd, 0x80}).known);
  EXPECT_FALSE(Outputs({0xff, 0xff}).known);  // no instruction
}

}  // namespace
}  // namespace hindsight
