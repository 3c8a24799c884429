#include "keyframes/state/memory_origin.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

using Kind = MemoryOrigin::Kind;

constexpr int32_t kThread = 1;
constexpr uint64_t kHeap = 0x600000;
constexpr uint64_t kStack = 0x7f0000000000;
constexpr uint64_t kFree = 0x200000;  // not mapped at first

MapRegion Anonymous(uint64_t start, uint64_t pages, const std::string& name = "") {
  return {.start = start,
          .end = start + pages * kPageBytes,
          .protection = PROT_READ | PROT_WRITE,
          .name = name};
}

std::vector<MapRegion> FirstMap() {
  return {Anonymous(0x400000, 4), Anonymous(kHeap, 4, "[heap]"), Anonymous(kStack, 4, "[stack]")};
}

// A trace of one thread with states 0 to 100, whose first keyframe holds one page.
class OriginTrace {
 public:
  OriginTrace() {
    const char* parent = std::getenv("TEST_TMPDIR");
    directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/origins_XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    writer_ = *TraceWriter::Create(directory_ + "/t", manifest_);
    map_ = FirstMap();
  }
  ~OriginTrace() { std::filesystem::remove_all(directory_); }

  OriginTrace& Keyframe(uint64_t count, bool complete = true,
                        std::vector<std::pair<uint64_t, uint64_t>> unseen = {}) {
    if (count > 0) EndSegment(count);
    EXPECT_TRUE(writer_
                    ->BeginFullKeyframe(++keyframes_, 0, {{kThread, count, segments_, Registers()}},
                                        map_, {})
                    .ok());
    EXPECT_TRUE(writer_->AddPage(0x400000, std::vector<uint8_t>(kPageBytes, 7)).ok());
    if (complete) {
      EXPECT_TRUE(writer_->DeclareComplete(unseen).ok());
    }
    EXPECT_TRUE(writer_->FinishFullKeyframe().ok());
    EXPECT_TRUE(writer_->BeginSegment(kThread, segments_++, count, 0, Registers()).ok());
    return *this;
  }
  // A call that leads to state `count`.
  OriginTrace& Call(uint64_t count, int64_t number, std::vector<uint64_t> arguments,
                    int64_t result) {
    arguments.resize(6);
    return Event({.kind = EventKind::kSyscall,
                  .count = count,
                  .number = number,
                  .arguments = std::move(arguments),
                  .result = result});
  }
  // The map from state `count` on.
  OriginTrace& Map(uint64_t count, std::vector<MapRegion> map) {
    map_ = std::move(map);
    return Event({.kind = EventKind::kMapChange, .count = count, .maps = map_});
  }
  OriginTrace& Mapped(uint64_t count, const MapRegion& region) {
    std::vector<MapRegion> map = FirstMap();
    map.insert(map.begin(), region);
    return Map(count, map);
  }
  OriginTrace& Event(ProcessEvent event) {
    event.thread = kThread;
    EXPECT_TRUE(writer_->AppendEvent(event).ok());
    return *this;
  }
  int32_t AddFile(const std::string& bytes) {
    const std::string path = directory_ + "/file";
    FILE* file = std::fopen(path.c_str(), "w");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    return *writer_->AddModule(path, -1, 1 << 20);
  }

  MemoryOrigin Of(uint64_t moment, uint64_t page) {
    if (reader_ == nullptr) Finish();
    return origins_->Of(moment, page);
  }
  std::optional<MemoryReplacement> LastReplacement(uint64_t moment, uint64_t after, uint64_t page) {
    if (reader_ == nullptr) Finish();
    return origins_->LastReplacement(moment, after, page);
  }
  void Abandon() { manifest_.state = TraceState::kRecording; }

 private:
  static RegisterWords Registers() { return RegisterWords(81); }

  void EndSegment(uint64_t count) {
    EXPECT_TRUE(writer_->Append(kThread, {count, SegmentEnd{Registers()}}).ok());
  }

  void Finish() {
    EndSegment(100);
    if (manifest_.state == TraceState::kComplete) {
      EXPECT_TRUE(writer_->Finish(manifest_).ok());
    }
    writer_.reset();
    reader_ = *TraceReader::Open(directory_ + "/t");
    process_.emplace(*ProcessState::Create(reader_.get()));
    origins_ = std::make_unique<MemoryOrigins>(reader_.get(), &*process_);
  }

  std::string directory_;
  Manifest manifest_{.state = TraceState::kComplete};
  std::unique_ptr<TraceWriter> writer_;
  std::vector<MapRegion> map_;
  uint64_t keyframes_ = 0, segments_ = 0;
  std::unique_ptr<TraceReader> reader_;
  std::optional<ProcessState> process_;
  std::unique_ptr<MemoryOrigins> origins_;
};

TEST(MemoryOriginTest, AKeyframeThatSawAllTellsZerosFromUnknown) {
  OriginTrace whole, partial;
  whole.Keyframe(0, true, {{kHeap + kPageBytes, kHeap + 2 * kPageBytes}});
  partial.Keyframe(0, /*complete=*/false);
  EXPECT_EQ(whole.Of(5, 0x400000).kind, Kind::kKeyframe);
  EXPECT_TRUE(whole.Of(5, 0x401000).else_zeros);
  EXPECT_TRUE(whole.Of(5, kHeap).else_zeros);
  EXPECT_FALSE(whole.Of(5, kHeap + kPageBytes).else_zeros);
  EXPECT_TRUE(whole.Of(5, kHeap + 2 * kPageBytes).else_zeros);
  EXPECT_EQ(partial.Of(5, 0x401000).kind, Kind::kKeyframe);
  EXPECT_FALSE(partial.Of(5, 0x401000).else_zeros);
}

TEST(MemoryOriginTest, MemoryMappedAfreshIsZero) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_mmap, {0, 2 * kPageBytes - 5, 3, MAP_PRIVATE | MAP_ANONYMOUS}, kFree)
      .Mapped(10, Anonymous(kFree, 2));
  EXPECT_EQ(trace.Of(9, kFree).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(10, kFree + kPageBytes).kind, Kind::kZeros);
  EXPECT_EQ(trace.Of(90, kFree).moment, 10);
}

TEST(MemoryOriginTest, MappedAgainAtTheSamePlaceIsFreshAgain) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_munmap, {0x400000, 4 * kPageBytes}, 0)
      .Map(10, {FirstMap()[1], FirstMap()[2]})
      .Call(20, SYS_mmap, {0x400000, 4 * kPageBytes}, 0x400000)
      .Map(20, FirstMap())
      // Over it, at once: the map stays as it is.
      .Call(30, SYS_mmap, {0x401000, kPageBytes}, 0x401000);
  EXPECT_EQ(trace.Of(9, 0x400000).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(15, 0x400000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(20, 0x400000).kind, Kind::kZeros);
  EXPECT_EQ(trace.Of(40, 0x400000).moment, 20);
  EXPECT_EQ(trace.Of(40, 0x401000).moment, 30);
}

TEST(MemoryOriginTest, CallsReplaceMemory) {
  std::vector<MapRegion> without = FirstMap(), shrunk = FirstMap();
  without.erase(without.begin());
  shrunk[1].end -= kPageBytes;
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_munmap, {0x400000, 4 * kPageBytes}, 0)
      .Map(10, without)
      .Call(20, SYS_mmap, {0x400000, 4 * kPageBytes}, 0x400000)
      .Map(20, FirstMap())
      .Call(30, SYS_madvise, {0x401000, kPageBytes, MADV_DONTNEED}, 0)
      .Call(40, SYS_mremap, {0x402000, kPageBytes, kPageBytes, 3, kFree}, kFree)
      .Call(50, SYS_munmap, {0x400000, 4 * kPageBytes}, -22)
      .Call(60, SYS_brk, {shrunk[1].end}, shrunk[1].end)
      .Map(60, shrunk)
      // It may be what it was.
      .Call(70, SYS_madvise, {0x401000, kPageBytes, MADV_FREE}, 0);
  const auto last = [&](uint64_t moment, uint64_t page, uint64_t after = 0) {
    const auto replacement = trace.LastReplacement(moment, after, page);
    if (replacement.has_value()) {
      EXPECT_EQ(replacement->thread, kThread);
      EXPECT_TRUE(replacement->is_forgotten);
    }
    return replacement.has_value() ? replacement->moment : 0;
  };
  EXPECT_EQ(last(9, 0x400000), 0);
  EXPECT_EQ(last(10, 0x400000), 10);
  EXPECT_EQ(last(15, 0x403000, 9), 10);
  EXPECT_EQ(last(15, 0x403000, 10), 0);
  EXPECT_EQ(last(80, 0x400000), 20);
  EXPECT_EQ(last(69, 0x401000), 30);
  EXPECT_EQ(last(70, 0x401000), 0);
  EXPECT_EQ(last(80, 0x402000), 40);
  EXPECT_EQ(last(80, kFree), 40);
  EXPECT_EQ(last(80, kHeap + 3 * kPageBytes), 60);
  EXPECT_EQ(last(80, kHeap), 0);
}

// The call does not say how much there was, and even its thread's view may have it still.
TEST(MemoryOriginTest, DetachedMemoryIsReplacedAsFarAsTheMapHadIt) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Mapped(5, Anonymous(kFree, 3))
      .Call(10, SYS_shmdt, {kFree}, 0)
      .Map(10, FirstMap());
  const auto replacement = trace.LastReplacement(20, 0, kFree + 2 * kPageBytes);
  ASSERT_TRUE(replacement.has_value());
  EXPECT_EQ(replacement->moment, 10);
  EXPECT_FALSE(replacement->is_forgotten);
  EXPECT_FALSE(trace.LastReplacement(20, 0, kFree + 3 * kPageBytes).has_value());
}

TEST(MemoryOriginTest, WhatTheHeapGainsIsFresh) {
  std::vector<MapRegion> shrunk = FirstMap(), grown = FirstMap();
  shrunk[1].end -= 2 * kPageBytes;
  grown[1].end += 2 * kPageBytes;
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_brk, {shrunk[1].end}, shrunk[1].end)
      .Map(10, shrunk)
      .Call(20, SYS_brk, {grown[1].end}, grown[1].end)
      .Map(20, grown);
  EXPECT_EQ(trace.Of(30, kHeap).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(9, kHeap + 2 * kPageBytes).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(15, kHeap + 2 * kPageBytes).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(30, kHeap + 2 * kPageBytes).kind, Kind::kZeros);
  EXPECT_EQ(trace.Of(30, kHeap + 5 * kPageBytes).moment, 20);
}

TEST(MemoryOriginTest, AdviceMayEmptyMemory) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_madvise, {0x400000, kPageBytes, MADV_DONTNEED}, 0)
      .Call(20, SYS_madvise, {0x401000, kPageBytes, MADV_FREE}, 0)
      .Call(30, SYS_madvise, {0x402000, kPageBytes, MADV_DONTNEED}, -22)
      .Call(40, SYS_madvise, {0x403000, kPageBytes, MADV_WILLNEED}, 0);
  EXPECT_EQ(trace.Of(50, 0x400000).kind, Kind::kZeros);
  EXPECT_EQ(trace.Of(50, 0x401000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(50, 0x402000).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(50, 0x403000).kind, Kind::kKeyframe);
}

TEST(MemoryOriginTest, MovedMemoryComesFromWhereItWas) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_mremap, {0x400000, 2 * kPageBytes, 4 * kPageBytes, 1}, kFree)
      .Mapped(10, Anonymous(kFree, 4));
  const MemoryOrigin moved = trace.Of(20, kFree + kPageBytes);
  EXPECT_EQ(moved.kind, Kind::kMoved);
  EXPECT_EQ(moved.moment, 10u);
  EXPECT_EQ(moved.source, 0x400000 + kPageBytes);
  EXPECT_EQ(trace.Of(20, kFree + 2 * kPageBytes).kind, Kind::kZeros);
}

// Without a size it is a second mapping of what is shared.
TEST(MemoryOriginTest, MemoryMappedTwiceByMremapIsNotKnown) {
  OriginTrace trace;
  trace.Keyframe(0)
      .Call(10, SYS_mremap, {0x400000, 0, 2 * kPageBytes, 1}, kFree)
      .Mapped(10, Anonymous(kFree, 2));
  EXPECT_EQ(trace.Of(20, kFree).kind, Kind::kUnknown);
}

TEST(MemoryOriginTest, FilesCountUntilTheyChange) {
  for (const bool changes : {false, true}) {
    OriginTrace trace;
    const int32_t module = trace.AddFile("some bytes");
    MapRegion region = Anonymous(kFree, 1, "/file");
    region.inode = 5;
    region.module = module;
    trace.Keyframe(0).Call(10, SYS_mmap, {0, kPageBytes}, kFree).Mapped(10, region);
    if (changes) trace.Event({.kind = EventKind::kFileChanged, .number = module});
    EXPECT_EQ(trace.Of(20, kFree).kind, changes ? Kind::kUnknown : Kind::kFile);
  }
}

// Nobody has looked at the end whether they had changed.
TEST(MemoryOriginTest, OfARecordingCutShortOnlyElfFilesCount) {
  for (const bool elf : {false, true}) {
    OriginTrace trace;
    const int32_t module = trace.AddFile(elf ? "\x7f"
                                               "ELF and more"
                                             : "some bytes");
    MapRegion region = Anonymous(kFree, 1, "/file");
    region.inode = 5;
    region.module = module;
    trace.Keyframe(0).Call(10, SYS_mmap, {0, kPageBytes}, kFree).Mapped(10, region);
    trace.Abandon();
    EXPECT_EQ(trace.Of(20, kFree).kind, elf ? Kind::kFile : Kind::kUnknown);
  }
}

// Not even a keyframe says what it holds later, unless it is a program's or a library's.
TEST(MemoryOriginTest, FilesThatAreNotInTheTraceMayBeRewritten) {
  for (const bool executed : {false, true}) {
    OriginTrace trace;
    MapRegion file = Anonymous(0x400000, 4, "/memfd:file (deleted)");
    file.inode = 5;
    if (executed) file.protection = PROT_READ | PROT_EXEC;
    trace.Map(0, {file}).Keyframe(0);
    EXPECT_EQ(trace.Of(20, 0x400000).kind, executed ? Kind::kKeyframe : Kind::kUnknown);
  }
}

TEST(MemoryOriginTest, FilesThatAreNotInTheTraceAndSharedMemoryAreUnknown) {
  MapRegion file = Anonymous(kFree, 1, "/big"), shared = Anonymous(kFree, 1, "/dev/zero (deleted)");
  file.inode = shared.inode = 5;
  shared.shared = true;
  MapRegion vvar = Anonymous(kFree, 1, "[vvar]");
  for (const MapRegion& region : {file, shared, vvar}) {
    OriginTrace trace;
    trace.Keyframe(0).Call(10, SYS_mmap, {0, kPageBytes}, kFree).Mapped(10, region);
    EXPECT_EQ(trace.Of(20, kFree).kind, Kind::kUnknown) << region.name;
  }
}

TEST(MemoryOriginTest, WhatMayHaveBeenWrittenUnseenIsUnknownUntilItIsFresh) {
  const ProcessEvent forks[] = {{.kind = EventKind::kMemoryUnknown, .count = 10, .text = "ioctl"},
                                {.kind = EventKind::kFork,
                                 .count = 10,
                                 .number = SYS_vfork,
                                 .arguments = {static_cast<uint64_t>(ForkKind::kVfork), 0},
                                 .result = 77}};
  for (const ProcessEvent& event : forks) {
    OriginTrace trace;
    trace.Keyframe(0).Event(event).Call(30, SYS_mmap, {0, kPageBytes}, 0x402000).Keyframe(50);
    EXPECT_EQ(trace.Of(9, 0x401000).kind, Kind::kKeyframe);
    EXPECT_EQ(trace.Of(20, 0x401000).kind, Kind::kUnknown);
    EXPECT_EQ(trace.Of(20, 0x401000).moment, 10);
    EXPECT_EQ(trace.Of(40, 0x402000).kind, Kind::kZeros);
    EXPECT_EQ(trace.Of(60, 0x401000).kind, Kind::kKeyframe);
    EXPECT_TRUE(trace.Of(60, 0x401000).else_zeros);
  }
}

TEST(MemoryOriginTest, AForkedChildThatHasACopyChangesNothing) {
  for (const uint64_t flags : {0x01200011, 0x111}) {  // fork() of the C library; CLONE_VM
    OriginTrace trace;
    trace.Keyframe(0)
        .Call(10, SYS_clone, {flags}, 77)
        .Event({.kind = EventKind::kFork,
                .count = 10,
                .number = SYS_clone,
                .arguments = {static_cast<uint64_t>(ForkKind::kClone), 1},
                .result = 77});
    EXPECT_EQ(trace.Of(20, 0x401000).kind, (flags & 0x100) == 0 ? Kind::kKeyframe : Kind::kUnknown);
  }
}

TEST(MemoryOriginTest, WhereTheKernelWritesWheneverItLikesNothingIsKnown) {
  OriginTrace trace;
  trace.Keyframe(0).Call(10, SYS_io_uring_setup, {8, 0}, 3).Keyframe(50);
  EXPECT_EQ(trace.Of(9, 0x401000).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(20, 0x401000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(60, 0x401000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(60, 0x401000).moment, 60);
}

TEST(MemoryOriginTest, AfterAGapNothingFromBeforeCounts) {
  OriginTrace trace;
  trace.Keyframe(0).Event({.kind = EventKind::kGap, .count = 20, .text = "paused"}).Keyframe(50);
  EXPECT_EQ(trace.Of(19, 0x401000).kind, Kind::kKeyframe);
  EXPECT_EQ(trace.Of(20, 0x401000).kind, Kind::kKeyframe);  // the last state before it
  EXPECT_EQ(trace.Of(21, 0x401000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(30, 0x401000).kind, Kind::kUnknown);
  EXPECT_EQ(trace.Of(60, 0x401000).kind, Kind::kKeyframe);
}

TEST(MemoryOriginTest, AStackGrowsByZeros) {
  OriginTrace trace;
  trace.Keyframe(0);
  EXPECT_EQ(trace.Of(20, kStack - 3 * kPageBytes).kind, Kind::kZeros);
  EXPECT_EQ(trace.Of(20, 0x1000).kind, Kind::kUnknown);
}

}  // namespace
}  // namespace hindsight
