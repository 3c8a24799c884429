#include "recorder/translate/stream/translated_process.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

constexpr uint64_t kBytes = 16 * kPageBytes;

// The test's own process, of which [hidden_, hidden_ + kBytes) is the recorder's.
class TranslatedProcessTest : public testing::Test {
 protected:
  TranslatedProcessTest() {
    auto writer = std::make_unique<FakeTraceWriter>();
    writer_ = writer.get();
    Manifest manifest;
    manifest.pid = getpid();
    log_ = std::make_unique<ProcessLog>(std::move(writer), std::move(manifest), "/proc/self/root",
                                        /*max_module_bytes=*/1, nullptr);
    thread_log_ = std::make_unique<ThreadLog>(writer_, getpid(), &sequence_);
    process_.emplace(log_.get(), [this](const MapRegion& region) -> std::optional<MapRegion> {
      if (region.start == hidden_) return std::nullopt;
      return region;
    });
  }

  // A mapping of its own: shared ones are not joined with their neighbours.
  uint64_t Map(int rights) {
    return reinterpret_cast<uint64_t>(
        mmap(nullptr, kBytes, rights, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  void Begin() {
    const absl::Status begun = process_->OnBegin({.thread = getpid()}, thread_log_.get());
    ASSERT_TRUE(begun.ok()) << begun;
    ASSERT_EQ(writer_->events.size(), 1u);
    EXPECT_EQ(writer_->events[0].kind, EventKind::kFullKeyframe);
    writer_->events.clear();
  }
  absl::Status Call(int64_t number, uint64_t address, uint64_t size, int64_t result) {
    const uint64_t arguments[6] = {address, size};
    process_->ReadChange(number, arguments, result, map_read_);
    return process_->OnCall(++count_, thread_log_.get());
  }

  // Whose threads have had their calls' changes read.
  void SetMapReads() { process_->SetMapReads(reads_); }
  void Read(uint64_t start, uint64_t end) {
    map_read_ = reads_->Read(getpid(), start, end, nullptr).id;
  }

  FakeTraceWriter* writer_ = nullptr;
  std::unique_ptr<ProcessLog> log_;
  Sequence sequence_;
  std::unique_ptr<ThreadLog> thread_log_;
  std::optional<TranslatedProcess> process_;
  uint64_t hidden_ = 0;
  std::shared_ptr<MapReads> reads_ = std::make_shared<MapReads>();
  uint64_t map_read_ = 0;
  uint64_t count_ = 0;
};

TEST_F(TranslatedProcessTest, TheRecordersOwnMemoryIsNotInTheMap) {
  hidden_ = Map(PROT_READ);
  const uint64_t shown = Map(PROT_READ | PROT_WRITE);
  Begin();
  EXPECT_EQ(process_->space().Find(hidden_), nullptr);
  ASSERT_NE(process_->space().Find(shown), nullptr);
}

TEST_F(TranslatedProcessTest, ACallThatMapsIsAChangeOfTheMap) {
  Begin();
  const uint64_t mapped = Map(PROT_READ);
  ASSERT_TRUE(Call(SYS_mmap, 0, kBytes, static_cast<int64_t>(mapped)).ok());
  EXPECT_NE(process_->space().Find(mapped), nullptr);
  ASSERT_EQ(writer_->events.size(), 1u);
  EXPECT_EQ(writer_->events[0].count, 1u);
  munmap(reinterpret_cast<void*>(mapped), kBytes);
  ASSERT_TRUE(Call(SYS_munmap, mapped, kBytes, 0).ok());
  EXPECT_EQ(process_->space().Find(mapped), nullptr);
  EXPECT_EQ(writer_->events.size(), 2u);
}

TEST_F(TranslatedProcessTest, WhatWasReadWhenTheCallWasMadeIsTheChange) {
  Begin();
  SetMapReads();
  const uint64_t mapped = Map(PROT_READ);
  Read(mapped, mapped + kBytes);
  munmap(reinterpret_cast<void*>(mapped), kBytes);  // since then
  ASSERT_TRUE(Call(SYS_mmap, 0, kBytes, static_cast<int64_t>(mapped)).ok());
  EXPECT_NE(process_->space().Find(mapped), nullptr);
  Read(mapped, mapped + kBytes);
  ASSERT_TRUE(Call(SYS_munmap, mapped, kBytes, 0).ok());
  EXPECT_EQ(process_->space().Find(mapped), nullptr);
  EXPECT_EQ(writer_->events.size(), 2u);
}

// Another thread has unmapped the rest meanwhile, by a call that comes later.
TEST_F(TranslatedProcessTest, OfAKnownRegionThatWhatWasReadCutsTheRestStays) {
  const uint64_t mapped = Map(PROT_READ);
  Begin();
  SetMapReads();
  const uint64_t middle = mapped + kBytes / 2;
  munmap(reinterpret_cast<void*>(mapped), kBytes);
  Read(middle, middle + kPageBytes);
  ASSERT_TRUE(Call(SYS_munmap, middle, kPageBytes, 0).ok());
  EXPECT_EQ(process_->space().Find(middle), nullptr);
  const MapRegion* const rest = process_->space().Find(mapped);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->end, middle);
  Read(mapped, middle);
  ASSERT_TRUE(Call(SYS_munmap, mapped, kBytes / 2, 0).ok());
  EXPECT_EQ(process_->space().Find(mapped), nullptr);
}

TEST_F(TranslatedProcessTest, WhatComesAfterWhatWasReadStaysToo) {
  const uint64_t mapped = Map(PROT_READ);
  Begin();
  SetMapReads();
  const uint64_t middle = mapped + kBytes / 2;
  // Cut in two meanwhile, by calls that come later, before what the thread itself maps over it.
  mprotect(reinterpret_cast<void*>(middle), kBytes / 2, PROT_NONE);
  mprotect(reinterpret_cast<void*>(mapped), kPageBytes, PROT_NONE);
  Read(mapped, mapped);
  ASSERT_TRUE(Call(SYS_mprotect, mapped, kPageBytes, 0).ok());
  const MapRegion* const rest = process_->space().Find(middle);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->end, mapped + kBytes);
  EXPECT_EQ(process_->space().Find(mapped)->end, mapped + kPageBytes);
  munmap(reinterpret_cast<void*>(mapped), kBytes);
}

TEST_F(TranslatedProcessTest, OtherCallsAreNone) {
  Begin();
  Map(PROT_READ);
  ASSERT_TRUE(Call(SYS_getpid, 0, 0, 1).ok());
  EXPECT_TRUE(writer_->events.empty());
}

}  // namespace
}  // namespace hindsight
