#include "recorder/ptrace/breakpoint_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;

void Sleep(int milliseconds) {
  const timespec time = {0, milliseconds * 1'000'000};
  nanosleep(&time, nullptr);
}

// The process that is guarded is this one; who guards it is a child, which is killed.
class BreakpointGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // As code is: private, and not to be written.
    void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    page_ = static_cast<const volatile uint8_t*>(page);
  }

  uint64_t At(int offset) const { return reinterpret_cast<uint64_t>(page_) + offset; }
  void Put(int offset, uint8_t byte) {
    ASSERT_TRUE(memory_.Write(At(offset), absl::MakeConstSpan(&byte, 1)));
  }

  // Runs `body` in a child with a guard, then kills the child (or has it end the guard before).
  template <typename Body>
  void InTracer(bool ends_properly, const Body& body) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t tracer = fork();
    if (tracer == 0) {
      auto guard = BreakpointGuard::Start(memory_);
      if (!guard.ok()) _exit(1);
      body(guard->get());
      if (ends_properly) guard->reset();
      if (write(ready[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ready[1]);
    char nothing;
    ASSERT_EQ(read(ready[0], &nothing, 1), 1);
    close(ready[0]);
    kill(tracer, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(tracer, &status, 0), tracer);
  }

  const volatile uint8_t* page_ = nullptr;
  ProcMemFile memory_{getpid()};
};

TEST_F(BreakpointGuardTest, TakesOutWhatAKilledTracerLeaves) {
  for (int i = 0; i < 3; ++i) Put(i, 0x90);
  Put(3, 0x55);
  InTracer(/*ends_properly=*/false, [&](BreakpointGuard* guard) {
    guard->Add(At(0), 0x90);
    guard->Add(At(1), 0x11);
    guard->Add(At(1), 0x90);  // the code has changed since
    guard->Add(At(2), 0x90);
    guard->Add(At(3), 0x66);
    for (int i = 0; i < 3; ++i) Put(i, kInt3);
  });
  for (int i = 0; i < 2000 && page_[2] == kInt3; ++i) Sleep(1);
  EXPECT_EQ(page_[0], 0x90);
  EXPECT_EQ(page_[1], 0x90);
  EXPECT_EQ(page_[2], 0x90);
  EXPECT_EQ(page_[3], 0x55);  // no breakpoint any more
}

TEST_F(BreakpointGuardTest, WhatWasGivenUpStays) {
  InTracer(/*ends_properly=*/true, [&](BreakpointGuard* guard) {
    guard->Add(At(0), 0x90);
    Put(0, kInt3);
  });
  Sleep(100);
  EXPECT_EQ(page_[0], kInt3);
}

// One that waits for all its children must not wait for the guard.
TEST_F(BreakpointGuardTest, IsNobodysChild) {
  auto guard = BreakpointGuard::Start(memory_);
  ASSERT_TRUE(guard.ok()) << guard.status();
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
}

}  // namespace
}  // namespace hindsight
