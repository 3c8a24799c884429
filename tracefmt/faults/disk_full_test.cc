// A trace whose disk becomes full, on a real file system of 2 MiB: what was written before opens
// and is whole, whichever file it happened to, and the trace says why it ends.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/test_small_disk.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

absl::Status FillSegment(TraceWriter* writer) {
  std::mt19937_64 random(1);
  absl::Status status;
  for (uint64_t count = 10; status.ok(); ++count) {
    status = writer->Append(kThread, StateHash(count, random()));
  }
  return status;
}

absl::Status FillKeyframe(TraceWriter* writer) {
  absl::Status status = writer->BeginFullKeyframe(2, 0, {}, {}, {});
  for (uint64_t page = 1; status.ok(); ++page) {
    const std::string bytes = RandomBytes(kPageBytes, page);
    status = writer->AddPage(
        page * kPageBytes,
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  return status;
}

absl::Status FillModule(TraceWriter* writer) {
  const absl::Status added = writer->AddModule("/proc/self/exe", -1, 1 << 30).status();
  return added.ok() ? writer->Flush() : added;  // it is written later
}

absl::Status FillEvents(TraceWriter* writer) {
  absl::Status status;
  for (uint64_t i = 1; status.ok(); ++i) {
    status = writer->AppendEvent({.kind = EventKind::kNote, .text = RandomBytes(1000, i)});
  }
  return status;
}

absl::Status FillChild(TraceWriter* writer) {
  Manifest manifest = SampleManifest();
  manifest.parent_pid = 4711;
  auto child = writer->CreateChild(manifest);
  if (!child.ok()) return child.status();
  return FillEvents(child->get());
}

// Something of everything first; then `fill`; then either Finish or the destructor.
void RecordUntilFull(const std::string& directory,
                     const std::function<absl::Status(TraceWriter*)>& fill, bool finish) {
  auto writer = *TraceWriter::Create(directory, SampleManifest());
  ASSERT_TRUE(writer->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  ASSERT_TRUE(writer->AddPage(0x1000, FilledPage('k')).ok());
  ASSERT_TRUE(writer->FinishFullKeyframe().ok());
  ASSERT_TRUE(writer->BeginSegment(kThread, 0, 0, 0, SampleRegisters()).ok());
  ASSERT_TRUE(writer->Append(kThread, Effect(5)).ok());
  ASSERT_TRUE(writer->AppendEvent({.kind = EventKind::kNote}).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const absl::Status status = fill(writer.get());
  EXPECT_EQ(status.code(), absl::ErrnoToStatus(ENOSPC, "").code()) << status;
  EXPECT_FALSE(writer->Append(kThread, {~0ull, SegmentEnd{SampleRegisters()}}).ok());
  EXPECT_FALSE(writer->Flush().ok());
  if (finish) {
    EXPECT_FALSE(writer->Finish(SampleManifest()).ok());
  }
}

void ExpectUsable(const std::string& directory) {
  auto reader = TraceReader::Open(directory);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const OpenTrace read(*std::move(reader));
  EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
  EXPECT_TRUE(absl::StrContains(read->manifest().end_reason, "No space left"))
      << read->manifest().end_reason;
  EXPECT_TRUE(read->warnings().empty()) << read->warnings()[0];
  const auto segment = read.Load(0);
  EXPECT_TRUE(segment->damage().ok()) << segment->damage();
  EXPECT_GE(segment->end_count(), 6);
  ASSERT_EQ(read->full_keyframes().size(), 1);
  EXPECT_EQ(read.FirstByte(0, 0x1000), 'k');
  EXPECT_GE(read->events().size(), 1);
  for (const auto& [index, module] : read->modules()) EXPECT_FALSE(module.stored);
}

using Filler = std::pair<const char*, absl::Status (*)(TraceWriter*)>;

class DiskFull : public testing::TestWithParam<Filler> {
 protected:
  void RecordAndRead(bool finish) {
    const SmallDiskRun run = RunOnSmallDisk("2m", [&](const std::string& directory) {
      const std::string trace = directory + "/trace";
      RecordUntilFull(trace, GetParam().second, finish);
      ExpectUsable(trace);
      return !HasFailure();
    });
    if (run == SmallDiskRun::kCannotMount) GTEST_SKIP() << "cannot mount";
    EXPECT_EQ(run, SmallDiskRun::kPassed);
  }
};

TEST_P(DiskFull, ThenFinish) { RecordAndRead(/*finish=*/true); }
TEST_P(DiskFull, ThenTheWriterGoes) { RecordAndRead(/*finish=*/false); }

INSTANTIATE_TEST_SUITE_P(By, DiskFull,
                         testing::Values(Filler("ASegment", FillSegment),
                                         Filler("AFullKeyframe", FillKeyframe),
                                         Filler("AModule", FillModule),
                                         Filler("Events", FillEvents), Filler("AChild", FillChild)),
                         [](const auto& info) { return info.param.first; });

TEST(DiskFullAtTheEnd, AManifestThatCannotBeReplacedLeavesTheFirst) {
  TestTrace trace;
  trace.Begin(0).Add(Effect(1)).Flush();
  // Nothing can be made under the name that the next manifest gets first.
  ASSERT_EQ(mkdir(trace.Path("manifest.tmp").c_str(), 0755), 0);
  EXPECT_FALSE(trace.writer()->Finish(SampleManifest()).ok());
  trace.Abandon();
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
  EXPECT_EQ(read.Load(0)->end_count(), 2);
}

}  // namespace
}  // namespace hindsight
