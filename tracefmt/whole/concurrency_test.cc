// Segments of several threads, written by several host threads at the same time.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "tracefmt/recording_output.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/segment_output.h"

namespace hindsight {
namespace {

constexpr int kThreads = 4;
constexpr uint64_t kSegments = 3;
constexpr uint64_t kRecords = 400;  // of a segment: pairs of a page, 4 KiB, and a side effect

// Numbers of a thread's orderable events: no other thread has them.
uint64_t Sequence(int thread, uint64_t count) { return count * kThreads + thread + 1; }

// Of a page whose bytes are all `thread`. The helpers of test_trace.h are for one host thread.
Record WholePage(uint64_t count, uint64_t address, const std::vector<uint8_t>& lines) {
  PageImport import;
  import.address = address;
  import.first = true;
  import.line_mask = ~uint64_t{0};
  import.lines = lines;
  return {count, import};
}

bool WriteSegment(TraceWriter* writer, int thread, uint64_t number) {
  const std::vector<uint8_t> lines(kPageBytes, static_cast<uint8_t>(thread));
  SegmentWriter* const segments = writer->Segments(thread);
  uint64_t count = number * kRecords;
  bool ok = segments->Begin(number, count, 0, SampleRegisters(count)).ok();
  for (uint64_t i = 0; i < kRecords; ++i, ++count) {
    const uint64_t sequence = Sequence(thread, count);
    const ProcessEvent event = {
        .kind = EventKind::kSyscall, .sequence = sequence, .thread = thread, .count = count};
    ok = ok && writer->AppendEvent(event).ok() &&
         segments->Append(WholePage(count, 0x1000 * i, lines)).ok();
    ok = ok && segments->Append(Effect(count, sequence)).ok();
  }
  return ok && segments->Append({count, SegmentEnd{SampleRegisters(count)}}).ok();
}

// Numbers of the side effects in all segments that the reader finds.
std::set<uint64_t> SequencesOfEffects(const OpenTrace& trace) {
  std::set<uint64_t> sequences;
  for (const int32_t thread : trace->threads()) {
    for (const SegmentInfo& info : trace->segments(thread)) {
      const auto segment = trace->LoadSegment(thread, info.number);
      if (!segment.ok()) continue;  // being made
      for (const Record& record : (*segment)->records()) {
        const auto* effect = std::get_if<SideEffect>(&record.body);
        if (effect != nullptr) sequences.insert(effect->sequence);
      }
    }
  }
  return sequences;
}

std::set<uint64_t> SequencesOfEvents(const OpenTrace& trace) {
  std::set<uint64_t> sequences;
  for (const ProcessEvent& event : trace->events()) sequences.insert(event.sequence);
  return sequences;
}

TEST(ConcurrencyTest, WhatSeveralHostThreadsWriteIsReadBack) {
  TestTrace trace;
  std::atomic<int> failed = 0, running = kThreads;
  std::vector<std::thread> host_threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    host_threads.emplace_back([&, thread] {
      for (uint64_t number = 0; number < kSegments; ++number) {
        if (!WriteSegment(trace.writer(), thread, number)) ++failed;
      }
      trace.writer()->Segments(thread)->Close();
      --running;
    });
  }
  while (running > 0) {
    trace.Flush();
    EXPECT_TRUE(trace.Read()->damage().empty());  // readable at every instant
  }
  for (std::thread& thread : host_threads) thread.join();
  ASSERT_EQ(failed, 0);
  trace.Finish();

  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->manifest().state, TraceState::kComplete);
  ASSERT_EQ(read->threads().size(), kThreads);
  EXPECT_EQ(SequencesOfEffects(read).size(), kThreads * kSegments * kRecords);
  EXPECT_EQ(SequencesOfEvents(read), SequencesOfEffects(read));
  EXPECT_TRUE(read->damage().empty());
  for (int thread = 0; thread < kThreads; ++thread) {
    ASSERT_EQ(read->segments(thread).size(), kSegments);
    for (uint64_t number = 0; number < kSegments; ++number) {
      const auto segment = read.Load(number, thread);
      ASSERT_NE(segment, nullptr);
      EXPECT_EQ(segment->end_count(), (number + 1) * kRecords);
      EXPECT_EQ(segment->records().size(), 2 * kRecords + 1);
      const auto* page = std::get_if<PageImport>(&segment->records()[0].body);
      ASSERT_NE(page, nullptr);
      EXPECT_EQ(page->lines[0], thread);
    }
  }
}

// A recorder that dies between the two leaves no record whose event is missing.
TEST(ConcurrencyTest, EventsAreOnDiskBeforeTheRecordsOfABlock) {
  const std::string path = testing::TempDir() + "/segment_output";
  RecordingOutput output(*OutputDirectory::Create(path));
  ASSERT_TRUE(output.directory().MakeDirectory("threads").ok());
  const std::string file = path + "/threads/1/0.seg";
  std::vector<uintmax_t> sizes;  // of the segment's file when the events were written
  SegmentOutput segment(1, output.directory(), std::string(16, 'u'), &output, [&] {
    return output.queue()->Post([&] {
      sizes.push_back(std::filesystem::file_size(file));
      return absl::OkStatus();
    });
  });
  ASSERT_TRUE(segment.Begin(0, 0, 0, SampleRegisters(0)).ok());
  ASSERT_TRUE(output.queue()->Drain().ok());
  const uintmax_t empty = std::filesystem::file_size(file);
  ASSERT_TRUE(segment.Append(Effect(0, 1)).ok());
  ASSERT_TRUE(segment.Post().ok());
  ASSERT_TRUE(output.queue()->Drain().ok());
  EXPECT_EQ(sizes, std::vector<uintmax_t>({empty}));
  EXPECT_GT(std::filesystem::file_size(file), empty);
  segment.Close();
  std::filesystem::remove_all(path);
}

TEST(ConcurrencyTest, AThreadHasOneSegmentWriter) {
  TestTrace trace;
  EXPECT_EQ(trace.writer()->Segments(kThread), trace.writer()->Segments(kThread));
  EXPECT_NE(trace.writer()->Segments(kThread), trace.writer()->Segments(kThread + 1));
  trace.Begin(0).End(5);
  trace.Finish();
  EXPECT_EQ(trace.Read()->threads(), std::vector<int32_t>({kThread}));  // the other wrote nothing
}

}  // namespace
}  // namespace hindsight
