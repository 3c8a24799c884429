// Traces of many threads and many events stay quick to open.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

TEST(Scale, TenThousandShortThreads) {
  constexpr int32_t kThreads = 10000;
  TestTrace trace;
  const auto start = Clock::now();
  for (int32_t thread = 1; thread <= kThreads; ++thread) {
    ASSERT_TRUE(trace.writer()->BeginSegment(thread, 0, 0, 0, SampleRegisters()).ok());
    ASSERT_TRUE(trace.writer()->Append(thread, Effect(3)).ok());
    ASSERT_TRUE(trace.writer()->Append(thread, {5, SegmentEnd{SampleRegisters()}}).ok());
    trace.writer()->CloseThread(thread);
  }
  trace.Finish();
  const auto written = Clock::now();
  const OpenTrace read = trace.Read();
  const auto opened = Clock::now();
  EXPECT_EQ(read->threads().size(), kThreads);
  EXPECT_EQ(read.Load(0, kThreads)->end_count(), 5);
  std::printf("write %.3f s, open %.3f s\n", Seconds(written - start), Seconds(opened - written));
  EXPECT_LT(Seconds(opened - written), 5);
}

TEST(Scale, AThousandThreadsAtOnceNeedNoDescriptors) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  TestTrace trace;
  for (int32_t thread = 1; thread <= 1000; ++thread) {
    ASSERT_TRUE(trace.writer()->BeginSegment(thread, 0, 0, 0, SampleRegisters()).ok());
    ASSERT_TRUE(trace.writer()->Append(thread, Effect(3)).ok());
  }
  trace.Flush().Finish();
  EXPECT_EQ(trace.Read()->threads().size(), 1000);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Scale, AMillionEvents) {
  constexpr uint64_t kEvents = 1000000;
  TestTrace trace;
  ProcessEvent call = {.kind = EventKind::kSyscall,
                       .thread = kThread,
                       .number = 1,
                       .arguments = {1, 0x7ffff7fb0000, 4096, 0, 0, 0}};
  ProcessEvent slice = {.kind = EventKind::kSlice, .thread = kThread, .arguments = {0, 0, 1}};
  const auto start = Clock::now();
  for (uint64_t i = 0; i < kEvents; ++i) {
    ProcessEvent& event = i % 2 == 0 ? call : slice;
    event.sequence = i + 1;
    event.count = 100 * i;
    event.arguments[1] += 64;
    ASSERT_TRUE(trace.writer()->AppendEvent(event).ok());
  }
  trace.Finish();
  const auto written = Clock::now();
  const OpenTrace read = trace.Read();
  const auto opened = Clock::now();
  EXPECT_EQ(read->events().size(), kEvents);
  EXPECT_EQ(read->events().back().sequence, kEvents);
  std::printf("write %.3f s, open %.3f s, events after %.3f s, %.1f MB\n", Seconds(written - start),
              Seconds(opened - written), Seconds(Clock::now() - written),
              read->sizes().events / 1e6);
  EXPECT_LT(Seconds(opened - written), 5);
}

}  // namespace
}  // namespace hindsight
