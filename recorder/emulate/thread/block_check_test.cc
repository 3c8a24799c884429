#include "recorder/emulate/thread/block_check.h"

#include <signal.h>
#include <sys/ptrace.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "recorder/process/rseq.h"
#include "recorder/ptrace/true_process.h"

namespace hindsight {
namespace {

using Verdict = BlockCheck::Verdict;

// A stopped process and a Cpu that pages from it, both before the same code.
class BlockCheckTest : public ::testing::Test, private Pager {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    cpu_ = *Cpu::Create(this);
    ASSERT_TRUE(tracee_->GetRegisters(/*vectors=*/true, &start_));
  }

  // What the process executes next; the Cpu as well, unless `tampered` says otherwise.
  void Code(std::vector<uint8_t> code, std::vector<uint8_t> tampered = {}) {
    code.insert(code.end(), {0xeb, 0x00});  // the end of the block
    code.resize((code.size() + 7) / 8 * 8, 0x90);
    for (size_t i = 0; i < code.size(); i += sizeof(long)) {
      long word = 0;
      std::memcpy(&word, &code[i], sizeof(word));
      ASSERT_EQ(ptrace(PTRACE_POKETEXT, tracee_->thread(), start_.rip + i, word), 0);
    }
    tampered_ = std::move(tampered);
  }

  BlockCheck::Outcome Check() {
    EXPECT_TRUE(tracee_->SetRegisters(start_));
    cpu_->SetRegisters(start_);
    start_ = cpu_->registers();
    EXPECT_TRUE(tracee_->memory().Read(start_.gpr[kRsp] - sizeof(stack_), absl::MakeSpan(stack_)));
    BlockCheck check(tracee_.get(), cpu_.get(),
                     {.dirty_pages = [this] { return dirty_; },
                      .back_to_start = [this] { return BackToStart(); },
                      .may_step = [] { return true; },
                      .step =
                          [this] {
                            tracee_->Resume(ResumeHow::kStep);
                            TraceeStop stop = tracee_->Wait(nullptr);
                            tracee_->memory().Write(rseq_, kernel_stores_);
                            return stop;
                          }},
                     rseq_);
    return check.Run(1);
  }

  // The Cpu and the process are as if they had executed nothing.
  void ExpectUndisturbed() {
    EXPECT_TRUE(cpu_->registers() == start_);
    EXPECT_EQ(cpu_->count(), 0u);
    EXPECT_TRUE(dirty_.empty());
    RegisterFile now;
    ASSERT_TRUE(tracee_->GetRegisters(/*vectors=*/true, &now));
    EXPECT_TRUE(now == start_);
    uint8_t stack[sizeof(stack_)];
    ASSERT_TRUE(tracee_->memory().Read(start_.gpr[kRsp] - sizeof(stack), absl::MakeSpan(stack)));
    EXPECT_EQ(std::memcmp(stack, stack_, sizeof(stack)), 0);
  }

  void ExpectDiffers(const BlockCheck::Outcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.verdict, Verdict::kDiffers);
    EXPECT_NE(outcome.difference.find(what), std::string::npos) << outcome.difference;
    ExpectUndisturbed();
  }

  // Puts a struct rseq with this sequence into the page of the stack.
  void RegisterRseq(uint64_t sequence) {
    const uint64_t page = start_.gpr[kRsp] / kPageBytes * kPageBytes;
    const bool low = start_.gpr[kRsp] - page < kPageBytes / 2;
    rseq_ = page + (low ? kPageBytes - kRseqBytes : 0);
    std::memcpy(&rseq_bytes_[8], &sequence, sizeof(sequence));
    ASSERT_TRUE(tracee_->memory().Write(rseq_, rseq_bytes_));
  }

  void ExpectKernelStores() {
    uint8_t now[kRseqBytes];
    ASSERT_TRUE(tracee_->memory().Read(rseq_, absl::MakeSpan(now)));
    EXPECT_EQ(std::memcmp(now, kernel_stores_.data(), kernel_stores_.size()), 0);
    // The Cpu's memory is the start's: a comparison sees what has changed.
    ASSERT_TRUE(cpu_->ReadHeld(rseq_, absl::MakeSpan(now)));
    EXPECT_EQ(std::memcmp(now, rseq_bytes_, kRseqBytes), 0);
  }

  uint64_t rseq_ = 0;
  uint8_t rseq_bytes_[kRseqBytes] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  std::vector<uint8_t> kernel_stores_;  // there, at each step

  bool tampers_once_ = false;  // only until the Cpu is brought back to the start
  std::unique_ptr<Tracee> tracee_;
  std::unique_ptr<Cpu> cpu_;
  RegisterFile start_;

 private:
  bool OnMissing(uint64_t page, Access access) override {
    if (!Fetch(page)) return false;
    cpu_->SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override {
    dirty_.push_back(page);
    return true;
  }
  bool Fetch(uint64_t page) {
    if (!tracee_->memory().Read(page, absl::MakeSpan(cpu_->HostPage(page), kPageBytes)))
      return false;
    if (page == start_.rip / kPageBytes * kPageBytes && !tampered_.empty()) {
      std::memcpy(cpu_->HostPage(page) + start_.rip % kPageBytes, tampered_.data(),
                  tampered_.size());
    }
    cpu_->ContentsChanged(page);
    return true;
  }
  bool BackToStart() {
    if (tampers_once_) {
      tampered_.clear();
      dirty_.push_back(start_.rip / kPageBytes * kPageBytes);
    }
    for (const uint64_t page : dirty_) Fetch(page);
    cpu_->ProtectWrites(dirty_);
    dirty_.clear();
    cpu_->SetRegisters(start_);
    cpu_->set_count(0);
    return true;
  }

  std::vector<uint8_t> tampered_;
  std::vector<uint64_t> dirty_;
  uint8_t stack_[256] = {};
};

TEST_F(BlockCheckTest, WhatIsTheSameAgreesAndTheProcessStaysWhereItWas) {
  // mov eax,5; add eax,3; push rax; pcmpeqd xmm0,xmm0; movq [rsp-16],xmm0
  Code({0xb8, 5, 0, 0, 0, 0x83, 0xc0, 3, 0x50, 0x66, 0x0f, 0x76, 0xc0, 0x66, 0x0f, 0xd6, 0x44, 0x24,
        0xf0});
  const BlockCheck::Outcome outcome = Check();
  EXPECT_EQ(outcome.verdict, Verdict::kAgrees) << outcome.difference;
  ExpectUndisturbed();
}

TEST_F(BlockCheckTest, RegistersThatDifferAreReportedWithTheirInstruction) {
  // mov eax,5; add eax,3
  Code({0xb8, 5, 0, 0, 0, 0x83, 0xc0, 3}, {0xb8, 5, 0, 0, 0, 0x83, 0xc0, 4});
  const BlockCheck::Outcome outcome = Check();
  ExpectDiffers(outcome, "83c004 (add eax, 0x04): rax 9 (native 8)");
}

// Where each instruction agrees, but not the block.
TEST_F(BlockCheckTest, ABlockThatDiffersFromItsStepsIsReported) {
  Code({0xb8, 5, 0, 0, 0, 0x83, 0xc0, 3}, {0xb8, 5, 0, 0, 0, 0x83, 0xc0, 4});
  tampers_once_ = true;
  ExpectDiffers(Check(), "as a whole instead of one by one: rax 9 (native 8)");
}

TEST_F(BlockCheckTest, MemoryThatDiffersIsReported) {
  // mov byte [rsp-8],1
  Code({0xc6, 0x44, 0x24, 0xf8, 1}, {0xc6, 0x44, 0x24, 0xf8, 2});
  ExpectDiffers(Check(), "0x2 (native 0x1)");
}

TEST_F(BlockCheckTest, AJumpTheOtherWayIsReported) {
  // xor eax,eax; jz +0 / jnz +0, each to what follows; then inc ecx is skipped or not
  Code({0x31, 0xc0, 0x74, 0x02, 0xff, 0xc1}, {0x31, 0xc0, 0x75, 0x02, 0xff, 0xc1});
  start_.gpr[kRcx] = 0;
  ExpectDiffers(Check(), "jnz");
}

TEST_F(BlockCheckTest, AFaultThatTheEmulatorDoesNotSeeIsReported) {
  // mov rbx,[rcx] / nop
  Code({0x48, 0x8b, 0x19}, {0x90, 0x90, 0x90});
  start_.gpr[kRcx] = 0;
  ExpectDiffers(Check(), "raises Segmentation fault natively");
}

TEST_F(BlockCheckTest, RepeatedInstructionsAreSteppedToTheirEnd) {
  Code({0x48, 0x8d, 0x7c, 0x24, 0x80, 0xf3, 0xaa});  // lea rdi,[rsp-128]; rep stosb
  start_.gpr[kRcx] = 100;
  const BlockCheck::Outcome outcome = Check();
  EXPECT_EQ(outcome.verdict, Verdict::kAgrees) << outcome.difference;
  ExpectUndisturbed();
}

// What the architecture leaves undefined is no difference.
TEST_F(BlockCheckTest, UndefinedFlagsAreLeftOut) {
  Code({0xb8, 7, 0, 0, 0, 0xc1, 0xe0, 5, 0x0f, 0xaf, 0xc0});  // mov eax,7; shl eax,5; imul eax,eax
  const BlockCheck::Outcome outcome = Check();
  EXPECT_EQ(outcome.verdict, Verdict::kAgrees) << outcome.difference;
}

TEST_F(BlockCheckTest, PushedFlagsDoNotShowTheStep) {
  Code({0x9c, 0x58});  // pushf; pop rax
  const BlockCheck::Outcome outcome = Check();
  EXPECT_EQ(outcome.verdict, Verdict::kAgrees) << outcome.difference;
  ExpectUndisturbed();
}

TEST_F(BlockCheckTest, WhatStoresTheHostsOwnStateIsNotCompared) {
  Code({0xd9, 0x74, 0x24, 0xc0});  // fnstenv [rsp-64]
  EXPECT_EQ(Check().verdict, Verdict::kNotChecked);
  ExpectUndisturbed();
}

TEST_F(BlockCheckTest, ASignalThatComesInBetweenIsHandedBack) {
  Code({0xb8, 5, 0, 0, 0});
  kill(tracee_->process(), SIGUSR1);
  const BlockCheck::Outcome outcome = Check();
  ASSERT_EQ(outcome.verdict, Verdict::kInterrupted);
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->kind, TraceeStopKind::kSignal);
  EXPECT_EQ(outcome.stop->signal, SIGUSR1);
  ExpectUndisturbed();
}

// The kernel stores there only now and then: if it were put back, the program would see an old
// processor, or none at all, for as long as it likes.
TEST_F(BlockCheckTest, WhatTheKernelStoresMeanwhileStaysInTheProcess) {
  RegisterRseq(0);
  Code({0xb8, 5, 0, 0, 0, 0x50});  // mov eax,5; push rax
  kernel_stores_ = {1, 0, 0, 0, 1, 0, 0, 0};
  const BlockCheck::Outcome outcome = Check();
  EXPECT_EQ(outcome.verdict, Verdict::kAgrees) << outcome.difference;
  ExpectUndisturbed();
  ExpectKernelStores();
}

TEST_F(BlockCheckTest, WhatTheKernelStoresStaysAfterADifference) {
  RegisterRseq(0);
  Code({0xb8, 5, 0, 0, 0, 0x50}, {0xb8, 6, 0, 0, 0, 0x50});
  kernel_stores_ = {1, 0, 0, 0, 1, 0, 0, 0};
  ExpectDiffers(Check(), "rax 6 (native 5)");
  ExpectKernelStores();
}

// The kernel sends a thread that was stopped in one to the sequence's abort handler.
TEST_F(BlockCheckTest, RestartableSequencesAreNotStepped) {
  Code({0xb8, 5, 0, 0, 0, 0x83, 0xc0, 3});  // mov eax,5; add eax,3
  const uint64_t sequence[] = {0, start_.rip, 16, start_.rip + 64};
  const uint64_t address = start_.gpr[kRsp] - sizeof(sequence);
  const auto bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(sequence), sizeof(sequence));
  ASSERT_TRUE(tracee_->memory().Write(address, bytes));
  RegisterRseq(address);
  EXPECT_EQ(Check().verdict, Verdict::kNotChecked);
  ExpectUndisturbed();
}

}  // namespace
}  // namespace hindsight
