#include <gtest/gtest.h>

#include <vector>

#include "emulator/code/instruction.h"

namespace hindsight {
namespace {

// The least model under which `code` is orderable.
std::string LeastModel(std::vector<uint8_t> code) {
  const Instruction instruction = Classify(code);
  EXPECT_EQ(instruction.length, code.size());
  EXPECT_FALSE(IsOrderable(instruction, MemoryModel::kKernel));
  const bool fence = IsOrderable(instruction, MemoryModel::kFence);
  const bool acqrel = IsOrderable(instruction, MemoryModel::kAcqRel);
  const bool load = IsOrderable(instruction, MemoryModel::kLoad);
  EXPECT_LE(fence, acqrel);
  EXPECT_LE(acqrel, load);
  return fence ? "fence" : acqrel ? "acqrel" : load ? "load" : "none";
}

TEST(OrderableTest, FencesAndLockedInstructionsAreOrderableFromFenceOn) {
  EXPECT_EQ(LeastModel({0xf0, 0x48, 0xff, 0x07}), "fence");  // lock inc qword [rdi]
  EXPECT_EQ(LeastModel({0x48, 0x87, 0x07}), "fence");        // xchg [rdi], rax
  EXPECT_EQ(LeastModel({0xf0, 0x0f, 0xb1, 0x0f}), "fence");  // lock cmpxchg [rdi], ecx
  EXPECT_EQ(LeastModel({0x0f, 0xae, 0xf0}), "fence");        // mfence
  EXPECT_EQ(LeastModel({0x0f, 0xae, 0xf8}), "fence");        // sfence
  EXPECT_EQ(LeastModel({0x0f, 0xae, 0xe8}), "fence");        // lfence
}

TEST(OrderableTest, StoresAreOrderableFromAcqRelOn) {
  EXPECT_EQ(LeastModel({0x48, 0x89, 0x07}), "acqrel");        // mov [rdi], rax
  EXPECT_EQ(LeastModel({0x48, 0xff, 0x07}), "acqrel");        // inc qword [rdi]
  EXPECT_EQ(LeastModel({0x50}), "acqrel");                    // push rax
  EXPECT_EQ(LeastModel({0xe8, 0, 0, 0, 0}), "acqrel");        // call
  EXPECT_EQ(LeastModel({0xf3, 0xaa}), "acqrel");              // rep stosb
  EXPECT_EQ(LeastModel({0xc5, 0xfc, 0x29, 0x07}), "acqrel");  // vmovaps [rdi], ymm0
}

TEST(OrderableTest, LoadsAreOrderableUnderLoadOnly) {
  EXPECT_EQ(LeastModel({0x48, 0x8b, 0x07}), "load");        // mov rax, [rdi]
  EXPECT_EQ(LeastModel({0x48, 0x3b, 0x07}), "load");        // cmp rax, [rdi]
  EXPECT_EQ(LeastModel({0x58}), "load");                    // pop rax
  EXPECT_EQ(LeastModel({0xc3}), "load");                    // ret
  EXPECT_EQ(LeastModel({0xf3, 0xa6}), "load");              // repe cmpsb
  EXPECT_EQ(LeastModel({0xc5, 0xfc, 0x28, 0x07}), "load");  // vmovaps ymm0, [rdi]
}

TEST(OrderableTest, WhatTouchesNoMemoryIsNeverOrderable) {
  EXPECT_EQ(LeastModel({0x90}), "none");              // nop
  EXPECT_EQ(LeastModel({0x48, 0x8d, 0x07}), "none");  // lea rax, [rdi]
  EXPECT_EQ(LeastModel({0x48, 0x87, 0xd8}), "none");  // xchg rax, rbx
  EXPECT_EQ(LeastModel({0x0f, 0x1f, 0x00}), "none");  // nop [rax]
  EXPECT_EQ(LeastModel({0xf3, 0x90}), "none");        // pause
  EXPECT_EQ(LeastModel({0x0f, 0x05}), "none");        // syscall
  EXPECT_EQ(LeastModel({0x0f, 0x18, 0x08}), "none");  // prefetcht0 [rax]
}

}  // namespace
}  // namespace hindsight
