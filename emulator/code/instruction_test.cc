#include "emulator/code/instruction.h"

#include <Zydis/Zydis.h>

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

Instruction Of(const Bytes& bytes) { return Classify(bytes); }

Policy PolicyOf(const Bytes& bytes) { return Of(bytes).policy; }

TEST(InstructionTest, LengthAndMnemonic) {
  const Instruction mov = Of({0x48, 0x89, 0xe5, 0x90});
  EXPECT_EQ(mov.length, 3);
  EXPECT_STREQ(MnemonicName(mov.mnemonic), "mov");
  EXPECT_EQ(mov.policy, Policy::kEmulate);
}

// Unicorn takes what they drop for a negative number.
TEST(InstructionTest, ReturnsThatDropMuchAreTheProcesss) {
  EXPECT_EQ(PolicyOf({0xc2, 0x00, 0x80}), Policy::kNative);  // ret 0x8000
  EXPECT_EQ(PolicyOf({0xc2, 0xff, 0x7f}), Policy::kEmulate);
  EXPECT_EQ(PolicyOf({0xc3}), Policy::kEmulate);
}

// A replay does not look at the alignment of operands, the host would.
TEST(InstructionTest, WhatMustBeAlignedIsNotPlain) {
  EXPECT_FALSE(Of({0x0f, 0x28, 0x07}).bridge);  // movaps xmm0,[rdi]
  EXPECT_TRUE(Of({0x0f, 0x10, 0x07}).bridge);   // movups xmm0,[rdi]
  EXPECT_TRUE(Of({0x0f, 0x28, 0xc1}).bridge);   // movaps xmm0,xmm1
}

TEST(InstructionTest, BytesThatDoNotDecodeAreInvalid) {
  EXPECT_EQ(PolicyOf({0x06}), Policy::kInvalid);  // push es
  EXPECT_EQ(Of({0x06}).length, 0);
  EXPECT_EQ(PolicyOf({}), Policy::kInvalid);
  EXPECT_EQ(PolicyOf({0x48}), Policy::kInvalid);              // cut short
  EXPECT_EQ(PolicyOf({0xf0, 0x89, 0xc0}), Policy::kInvalid);  // lock mov eax, eax
}

TEST(InstructionTest, NoMoreThanFifteenBytesAreLookedAt) {
  Bytes bytes(15, 0x66);
  bytes.push_back(0x90);
  EXPECT_EQ(PolicyOf(bytes), Policy::kInvalid);
}

TEST(InstructionTest, MemoryAccesses) {
  EXPECT_TRUE(Of({0x8b, 0x07}).reads_memory);  // mov eax, [rdi]
  EXPECT_FALSE(Of({0x8b, 0x07}).writes_memory);
  EXPECT_TRUE(Of({0x89, 0x07}).writes_memory);  // mov [rdi], eax
  EXPECT_FALSE(Of({0x89, 0x07}).reads_memory);
  EXPECT_TRUE(Of({0x01, 0x07}).reads_memory);  // add [rdi], eax
  EXPECT_TRUE(Of({0x01, 0x07}).writes_memory);
  EXPECT_FALSE(Of({0x48, 0x8d, 0x07}).reads_memory);  // lea rax, [rdi]
  EXPECT_TRUE(Of({0x50}).writes_memory);              // push rax
  EXPECT_TRUE(Of({0xa4}).reads_memory);               // movsb
  EXPECT_TRUE(Of({0xa4}).writes_memory);
}

TEST(InstructionTest, ControlFlow) {
  EXPECT_TRUE(Of({0xe8, 0, 0, 0, 0}).call);
  EXPECT_TRUE(Of({0xe8, 0, 0, 0, 0}).control_flow);
  EXPECT_TRUE(Of({0xc3}).ret);
  EXPECT_TRUE(Of({0x74, 0x05}).control_flow);
  EXPECT_FALSE(Of({0x90}).control_flow);
}

TEST(InstructionTest, RepeatedOnlyIfAStringInstruction) {
  EXPECT_TRUE(Of({0xf3, 0xa4}).rep);
  EXPECT_TRUE(Of({0xf2, 0xae}).rep);
  EXPECT_FALSE(Of({0xa4}).rep);
  EXPECT_FALSE(Of({0xf3, 0xc3}).rep);  // rep ret
  EXPECT_FALSE(Of({0xf3, 0x90}).rep);  // pause
}

TEST(InstructionTest, Locked) {
  EXPECT_TRUE(Of({0xf0, 0x01, 0x07}).locked);  // lock add [rdi], eax
  EXPECT_TRUE(Of({0x87, 0x07}).locked);        // xchg [rdi], eax
  EXPECT_FALSE(Of({0x87, 0xc8}).locked);       // xchg eax, ecx
}

TEST(InstructionTest, PushedFlags) {
  EXPECT_TRUE(Of({0x9c}).pushes_flags);
  EXPECT_EQ(PolicyOf({0x9c}), Policy::kEmulate);
  EXPECT_EQ(PolicyOf({0x9d}), Policy::kNative);  // popfq
}

TEST(InstructionTest, WhatIsNotAFunctionOfTheState) {
  EXPECT_EQ(PolicyOf({0x0f, 0x31}), Policy::kNondeterministic);              // rdtsc
  EXPECT_EQ(PolicyOf({0x0f, 0x01, 0xf9}), Policy::kNondeterministic);        // rdtscp
  EXPECT_EQ(PolicyOf({0x0f, 0xc7, 0xf0}), Policy::kNondeterministic);        // rdrand eax
  EXPECT_EQ(PolicyOf({0xf3, 0x0f, 0xc7, 0xf8}), Policy::kNondeterministic);  // rdpid
  EXPECT_EQ(PolicyOf({0x0f, 0xa2}), Policy::kCpuid);
  EXPECT_EQ(PolicyOf({0x0f, 0x05}), Policy::kSyscall);
}

TEST(InstructionTest, WhatFaultsOrEntersTheKernelIsPrivileged) {
  for (const Bytes& bytes : std::vector<Bytes>{{0xf4},              // hlt
                                               {0xe4, 0x10},        // in al, 16
                                               {0x6e},              // outsb
                                               {0xfa},              // cli
                                               {0xcc},              // int3
                                               {0xf1},              // int1
                                               {0xcd, 0x80},        // int 0x80
                                               {0x0f, 0x34},        // sysenter
                                               {0x0f, 0x0b},        // ud2
                                               {0x0f, 0x22, 0xc0},  // mov cr0, rax
                                               {0x0f, 0x21, 0xc0},  // mov rax, dr0
                                               {0x0f, 0x01, 0xf8},  // swapgs
                                               {0x0f, 0x30}}) {     // wrmsr
    EXPECT_EQ(PolicyOf(bytes), Policy::kPrivileged) << int{bytes[0]} << " " << int{bytes.back()};
  }
}

TEST(InstructionTest, NewerEncodingsAreAssisted) {
  EXPECT_EQ(PolicyOf({0xc5, 0xf8, 0x77}), Policy::kAssist);                    // vzeroupper
  EXPECT_EQ(PolicyOf({0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0}), Policy::kAssist);  // vaddps zmm
  EXPECT_EQ(PolicyOf({0xc4, 0xe2, 0x78, 0xf2, 0xc1}), Policy::kAssist);        // andn
  EXPECT_EQ(PolicyOf({0xf3, 0x0f, 0xb8, 0xc1}), Policy::kAssist);              // popcnt
  EXPECT_EQ(PolicyOf({0x0f, 0x38, 0xf0, 0x07}), Policy::kAssist);              // movbe
  EXPECT_EQ(PolicyOf({0x0f, 0x38, 0xc8, 0xc1}), Policy::kAssist);              // sha1nexte
  EXPECT_EQ(PolicyOf({0xf3, 0x0f, 0xae, 0xc0}), Policy::kAssist);              // rdfsbase eax
}

TEST(InstructionTest, WhatShowsTheProcessorsConfigurationRunsOnTheHost) {
  EXPECT_EQ(PolicyOf({0x0f, 0x01, 0xd0}), Policy::kNative);  // xgetbv
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0x27}), Policy::kNative);  // xsave
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0x2f}), Policy::kNative);  // xrstor
}

TEST(InstructionTest, SelectorsAndDescriptorTablesRunOnTheHost) {
  EXPECT_EQ(PolicyOf({0x8c, 0xc8}), Policy::kNative);        // mov eax, cs
  EXPECT_EQ(PolicyOf({0x8e, 0xe0}), Policy::kNative);        // mov fs, eax
  EXPECT_EQ(PolicyOf({0x0f, 0xa0}), Policy::kNative);        // push fs
  EXPECT_EQ(PolicyOf({0x0f, 0x01, 0x07}), Policy::kNative);  // sgdt
  EXPECT_EQ(PolicyOf({0xff, 0x2f}), Policy::kNative);        // jmp far [rdi]
  EXPECT_EQ(PolicyOf({0xcb}), Policy::kNative);              // retf
  EXPECT_EQ(PolicyOf({0x48, 0xcf}), Policy::kNative);        // iretq
}

TEST(InstructionTest, ApproximationsAndStatusWordsAreAssisted) {
  EXPECT_EQ(PolicyOf({0x0f, 0x53, 0xc1}), Policy::kAssist);  // rcpps
  EXPECT_EQ(PolicyOf({0x0f, 0x52, 0xc1}), Policy::kAssist);  // rsqrtps
  EXPECT_EQ(PolicyOf({0xd9, 0xfe}), Policy::kAssist);        // fsin
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0x1f}), Policy::kAssist);  // stmxcsr
  EXPECT_EQ(PolicyOf({0xdf, 0xe0}), Policy::kAssist);        // fnstsw ax
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0x07}), Policy::kAssist);  // fxsave
  EXPECT_EQ(PolicyOf({0xd9, 0x37}), Policy::kAssist);        // fnstenv
}

TEST(InstructionTest, SingleFormsAreAssisted) {
  EXPECT_EQ(PolicyOf({0x0f, 0xc2, 0xc1, 7}), Policy::kEmulate);  // cmpps
  EXPECT_EQ(PolicyOf({0x0f, 0xc2, 0xc1, 8}), Policy::kAssist);
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0x38, 0x02, 0xc1}), Policy::kEmulate);        // phaddd xmm0, xmm1
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0x38, 0x02, 0xc0}), Policy::kAssist);         // phaddd xmm0, xmm0
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0x3a, 0x63, 0xc1, 0x1a}), Policy::kEmulate);  // pcmpistri
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0x3a, 0x63, 0xc1, 0x0c}), Policy::kAssist);
  EXPECT_EQ(PolicyOf({0x0f, 0xc8}), Policy::kEmulate);       // bswap eax
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0xc8}), Policy::kAssist);  // bswap ax
  // shld %esi, and a memory operand: (%rdi), 0(%rip)
  EXPECT_EQ(PolicyOf({0x0f, 0xa4, 0x37, 5}), Policy::kEmulate);
  EXPECT_EQ(PolicyOf({0x0f, 0xa4, 0x35, 0, 0, 0, 0, 5}), Policy::kAssist);
  EXPECT_EQ(PolicyOf({0x0f, 0xa5, 0x35, 0, 0, 0, 0}), Policy::kEmulate);  // by cl
  EXPECT_EQ(PolicyOf({0x0f, 0x5a, 0xc1}), Policy::kEmulate);              // cvtps2pd %xmm1,%xmm0
  EXPECT_EQ(PolicyOf({0x0f, 0x5a, 0x07}), Policy::kAssist);               // (%rdi)
  EXPECT_EQ(PolicyOf({0xf3, 0x0f, 0xe6, 0x07}), Policy::kAssist);         // cvtdq2pd
  EXPECT_EQ(PolicyOf({0x9e}), Policy::kEmulate);                          // sahf
  EXPECT_EQ(PolicyOf({0x48, 0x9e}), Policy::kAssist);
  EXPECT_EQ(PolicyOf({0x66, 0xe9, 0, 0, 0, 0}), Policy::kNative);  // 16-bit jmp
  // data16 data16 rex.w call: how the linker pads a call of __tls_get_addr.
  EXPECT_EQ(PolicyOf({0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0}), Policy::kEmulate);
}

TEST(InstructionTest, MmxIsAssisted) {
  EXPECT_EQ(PolicyOf({0x0f, 0xfc, 0xc1}), Policy::kAssist);         // paddb mm0, mm1
  EXPECT_EQ(PolicyOf({0x66, 0x0f, 0xfc, 0xc1}), Policy::kEmulate);  // paddb xmm0, xmm1
  EXPECT_EQ(PolicyOf({0x0f, 0x77}), Policy::kAssist);               // emms
}

TEST(InstructionTest, HintsAndFencesAreEmulated) {
  EXPECT_EQ(PolicyOf({0xf3, 0x0f, 0x1e, 0xfa}), Policy::kEmulate);  // endbr64
  EXPECT_EQ(PolicyOf({0x0f, 0x1f, 0x00}), Policy::kEmulate);        // nop [rax]
  EXPECT_EQ(PolicyOf({0x0f, 0x18, 0x0f}), Policy::kEmulate);        // prefetcht0 [rdi]
  EXPECT_EQ(PolicyOf({0x0f, 0x0d, 0x0f}), Policy::kEmulate);        // prefetchw [rdi]
  EXPECT_EQ(PolicyOf({0x0f, 0x0d, 0xcf}), Policy::kNative);         // refused by some processors
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0xf0}), Policy::kEmulate);        // mfence
  EXPECT_EQ(PolicyOf({0x0f, 0xae, 0xf8}), Policy::kEmulate);        // sfence
}

}  // namespace
}  // namespace hindsight
