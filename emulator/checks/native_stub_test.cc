#include "emulator/checks/native_stub.h"

#include <signal.h>

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

RegisterFile Plain() {
  RegisterFile registers;
  registers.rflags = 0x202;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  return registers;
}

TEST(NativeStubTest, EveryGeneralRegisterGoesInAndComesOut) {
  NativeStub stub;
  RegisterFile registers = Plain();
  for (int i = 0; i < 16; ++i) registers.gpr[i] = 0x1111 * (i + 1);
  RegisterFile expected = registers;
  expected.rip += 1;
  ASSERT_EQ(stub.Run(std::vector<uint8_t>{0x90}, &registers), 0);
  EXPECT_EQ(registers, expected);
}

TEST(NativeStubTest, ArithmeticSetsFlags) {
  NativeStub stub;
  RegisterFile registers = Plain();
  registers.gpr[kRax] = ~uint64_t{0};
  ASSERT_EQ(stub.Run(std::vector<uint8_t>{0x48, 0xff, 0xc0}, &registers), 0);  // inc rax
  EXPECT_EQ(registers.gpr[kRax], 0u);
  EXPECT_EQ(registers.rflags & 0x40, 0x40u);  // zero
}

TEST(NativeStubTest, VectorRegistersAndStickyFlags) {
  NativeStub stub;
  RegisterFile registers = Plain();
  registers.xmm[0][0] = 0x3ff0000000000000;                                          // 1.0
  registers.xmm[1][0] = 0x4008000000000000;                                          // 3.0
  ASSERT_EQ(stub.Run(std::vector<uint8_t>{0xf2, 0x0f, 0x5e, 0xc1}, &registers), 0);  // divsd
  EXPECT_EQ(registers.xmm[0][0], 0x3fd5555555555555u);
  EXPECT_EQ(registers.mxcsr, 0x1fa0u);  // inexact
}

TEST(NativeStubTest, AFaultIsReportedAndChangesNothing) {
  NativeStub stub;
  RegisterFile registers = Plain();
  const RegisterFile before = registers;
  EXPECT_EQ(stub.Run(std::vector<uint8_t>{0x0f, 0x0b}, &registers), SIGILL);   // ud2
  EXPECT_EQ(stub.Run(std::vector<uint8_t>{0x8b, 0x07}, &registers), SIGSEGV);  // mov eax, [rdi]
  EXPECT_EQ(stub.Run(std::vector<uint8_t>{0xf7, 0xf1}, &registers), SIGFPE);   // div ecx
  EXPECT_EQ(registers, before);
}

TEST(NativeStubTest, TheHostsFloatingPointStateIsItsOwnAgain) {
  NativeStub stub;
  RegisterFile registers = Plain();
  registers.mxcsr = 0x7f80;  // towards zero
  registers.rflags |= 0x400;
  ASSERT_EQ(stub.Run(std::vector<uint8_t>{0x90}, &registers), 0);
  volatile double two = 2, three = 3;
  EXPECT_EQ(two / three, 2.0 / 3);
}

}  // namespace
}  // namespace hindsight
