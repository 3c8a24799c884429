// Damaged, cut, foreign, newer and malicious files: one Status that names file and offset, and
// what is whole before it stays usable.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

using absl::StatusCode;

constexpr char kSegment[] = "threads/1/0.seg";

// A segment of three blocks of records, two records each; the last has the end.
void WriteThreeBlocks(TestTrace* trace) {
  trace->Begin(0).Add(Page(0, 0x1000)).Add(Effect(1)).Flush();
  trace->Add(Line(2, 0x40)).Add(Effect(3)).Flush();
  trace->Add(Jump(5)).End(9).Flush();
}

bool Names(const absl::Status& status, const std::string& file, uint64_t offset) {
  return absl::StrContains(status.message(), file) &&
         absl::StrContains(status.message(), absl::StrCat("offset ", offset, ":"));
}

TEST(Truncation, AtEveryByteOfAnInterruptedSegmentLosesOnlyTheTornBlock) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Abandon();
  const std::string whole = trace.Bytes(kSegment);
  const std::vector<uint64_t> blocks = trace.BlockOffsets(kSegment);
  ASSERT_EQ(blocks.size(), 5);
  for (size_t size = 0; size < whole.size(); ++size) {
    trace.SetBytes(kSegment, whole.substr(0, size));
    const OpenTrace read = trace.Read();
    EXPECT_EQ(read->manifest().state, TraceState::kInterrupted);
    const bool torn = std::find(blocks.begin() + 1, blocks.end(), size) == blocks.end();
    EXPECT_EQ(read->warnings().size(), torn ? 1 : 0) << size;
    EXPECT_TRUE(read->damage().empty());
    if (size < blocks[1]) {
      EXPECT_TRUE(read->threads().empty());
      EXPECT_EQ(read->LoadSegment(kThread, 0).status().code(), StatusCode::kOutOfRange);
      continue;
    }
    const auto segment = read.Load(0);
    EXPECT_TRUE(segment->damage().ok()) << segment->damage();
    EXPECT_EQ(segment->records().size(), size < blocks[2] ? 0 : size < blocks[3] ? 2 : 4);
    EXPECT_EQ(segment->end_count(), size < blocks[2] ? 0 : size < blocks[3] ? 2 : 4);
    EXPECT_EQ(segment->end_registers(), nullptr);
  }
}

TEST(Truncation, OfACompleteTraceIsDamage) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Finish();
  const std::vector<uint64_t> blocks = trace.BlockOffsets(kSegment);
  for (const uint64_t size : {blocks[3] + 40, blocks[3] + 5, blocks[3]}) {
    trace.CutTo(kSegment, size);
    const auto segment = trace.Read().Load(0);
    EXPECT_EQ(segment->damage().code(), StatusCode::kOutOfRange);
    EXPECT_TRUE(Names(segment->damage(), kSegment, blocks[3])) << segment->damage();
    EXPECT_EQ(segment->records().size(), 4);
  }
}

TEST(Truncation, OfASegmentThatIsNotTheLastIsDamageEvenIfInterrupted) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Begin(1, 9).Flush();
  trace.Abandon();
  trace.CutTo(kSegment, trace.Bytes(kSegment).size() - 1);
  EXPECT_FALSE(trace.Read().Load(0)->damage().ok());
  EXPECT_TRUE(trace.Read().Load(1)->damage().ok());
}

TEST(Truncation, ZerosAtTheEndCountAsTorn) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Abandon();
  const uint64_t last = trace.BlockOffsets(kSegment)[3];
  trace.CutTo(kSegment, last);
  trace.CutTo(kSegment, last + 10000);
  const OpenTrace read = trace.Read();
  EXPECT_TRUE(read.Load(0)->damage().ok());
  EXPECT_EQ(read.Load(0)->records().size(), 4);
  EXPECT_EQ(read->warnings().size(), 1);
}

TEST(Damage, AnywhereInASegmentLeavesWhatIsBeforeIt) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Finish();
  const std::string whole = trace.Bytes(kSegment);
  const std::vector<uint64_t> blocks = trace.BlockOffsets(kSegment);
  for (size_t offset = 0; offset < whole.size(); ++offset) {
    trace.Flip(kSegment, offset);
    const OpenTrace read = trace.Read();
    EXPECT_EQ(read->damage().size(), offset < blocks[1] ? 1 : 0);
    if (offset < blocks[1]) {
      EXPECT_FALSE(read->LoadSegment(kThread, 0).ok());
      EXPECT_EQ(read->warnings().size(), 1);
    } else {
      const size_t block = offset < blocks[2] ? 1 : offset < blocks[3] ? 2 : 3;
      const auto segment = read.Load(0);
      EXPECT_EQ(segment->damage().code(), StatusCode::kDataLoss);
      EXPECT_TRUE(Names(segment->damage(), kSegment, blocks[block])) << segment->damage();
      EXPECT_EQ(segment->records().size(), 2 * (block - 1));
    }
    trace.SetBytes(kSegment, whole);
  }
}

TEST(Damage, BlocksInTheWrongPlaceAreNoticed) {
  TestTrace trace;
  WriteThreeBlocks(&trace);
  trace.Finish();
  const std::string whole = trace.Bytes(kSegment);
  const std::vector<uint64_t> at = trace.BlockOffsets(kSegment);
  trace.SetBytes(kSegment, whole.substr(0, at[1]) + whole.substr(at[2]));
  EXPECT_EQ(trace.Read().Load(0)->damage().code(), StatusCode::kDataLoss);
}

TEST(Damage, SegmentsInTheWrongPlaceAreNoticed) {
  TestTrace trace;
  trace.Begin(0).End(5).Begin(1, 5).End(6);
  trace.Finish();
  std::filesystem::rename(trace.Path("threads/1/1.seg"), trace.Path("threads/1/2.seg"));
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->LoadSegment(kThread, 2).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(read->LoadSegment(kThread, 1).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(read.Load(0)->damage().ok());
}

TEST(Damage, FilesOfAnotherRecordingAreNoticed) {
  TestTrace trace;
  trace.Begin(0).End(5).Keyframe(1, {{0x1000, 1}});
  trace.Finish();
  Manifest other = SampleManifest();
  other.uuid = "fedcba9876543210";
  ASSERT_TRUE(TraceWriter::Create(trace.Path("other"), other).ok());
  trace.SetBytes("manifest", trace.Bytes("other/manifest"));
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->LoadSegment(kThread, 0).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(read->full_keyframes().empty());
  EXPECT_EQ(read->warnings().size(), 2);
}

TEST(Versions, NewerManifestOrSegmentIsToldApartFromDamage) {
  TestTrace trace;
  trace.Begin(0).End(5);
  trace.Finish();
  trace.Flip(kSegment, 6);
  const absl::Status segment = trace.Read()->LoadSegment(kThread, 0).status();
  EXPECT_EQ(segment.code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(Names(segment, kSegment, 0));
  trace.Flip("manifest", 6);
  const absl::Status manifest = trace.TryRead().status();
  EXPECT_EQ(manifest.code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(Names(manifest, "manifest", 0));
}

TEST(Foreign, FilesAndDirectoriesAreRefused) {
  TestTrace trace;
  trace.Begin(0).End(5);
  trace.Finish();
  EXPECT_EQ(TraceReader::Open("/no/such/trace").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(TraceReader::Open("/proc").status().code(), StatusCode::kNotFound);
  trace.SetBytes(kSegment, "#!/bin/sh\nexit 0 # and more text than a block header has\n");
  EXPECT_EQ(trace.Read()->LoadSegment(kThread, 0).status().code(), StatusCode::kInvalidArgument);
  trace.SetBytes(kSegment, trace.Bytes("manifest"));
  EXPECT_EQ(trace.Read()->LoadSegment(kThread, 0).status().code(), StatusCode::kInvalidArgument);
  trace.SetBytes("manifest", std::string(1000, 'x'));
  EXPECT_EQ(trace.TryRead().status().code(), StatusCode::kInvalidArgument);
  trace.SetBytes("manifest", "");
  EXPECT_EQ(trace.TryRead().status().code(), StatusCode::kOutOfRange);
}

TEST(Missing, EverythingButTheManifestIsOptional) {
  TestTrace trace;
  trace.Begin(0).End(5).Keyframe(1, {{0x1000, 1}});
  trace.Finish();
  for (const char* name : {"events", "modules", "threads", "full", "lock"}) {
    std::filesystem::remove_all(trace.Path(name));
  }
  const OpenTrace read = trace.Read();
  EXPECT_TRUE(read->threads().empty());
  EXPECT_TRUE(read->modules().empty());
  EXPECT_GE(read->warnings().size(), 1);
}

TEST(Modules, MissingCutOrChangedBytes) {
  TestTrace trace;
  const std::string bytes(10000, 'm');
  trace.SetBytes("file", bytes);
  ASSERT_TRUE(trace.writer()->AddModule(trace.Path("file"), -1, 1 << 20).ok());
  ASSERT_TRUE(trace.writer()->BeginFullKeyframe(1, 0, {}, {}, {}).ok());
  ASSERT_TRUE(trace.writer()->AddModulePage(0x1000, 0, 0).ok());
  ASSERT_TRUE(trace.writer()->FinishFullKeyframe().ok());
  trace.Finish();
  const std::string stored = "modules/" + trace.Read()->modules().at(0).hash;
  EXPECT_EQ(trace.Read().FirstByte(0, 0x1000), 'm');
  trace.Flip(stored, 9999);
  EXPECT_EQ(trace.Read()->ModuleBytes(0).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(trace.Read().FirstByte(0, 0x1000), -1);
  trace.CutTo(stored, 9999);
  EXPECT_TRUE(Names(trace.Read()->ModuleBytes(0).status(), stored, 9999));
  std::filesystem::remove(trace.Path(stored));
  EXPECT_EQ(trace.Read()->ModuleBytes(0).status().code(), StatusCode::kNotFound);
}

TEST(Modules, SegmentsThatReferToAModuleNotListedAreCutThere) {
  TestTrace trace;
  trace.SetBytes("file", "bytes");
  ASSERT_TRUE(trace.writer()->AddModule(trace.Path("file"), -1, 1 << 20).ok());
  trace.Begin(0).Add(Effect(1));
  trace.Add({2, PageImport{0x1000, true, 0, 0, 0, {}}}).Add(Effect(3)).End(4);
  trace.Finish();
  EXPECT_TRUE(trace.Read().Load(0)->damage().ok());
  trace.Flip("modules/list", 40);
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->warnings().size(), 1);
  const auto segment = read.Load(0);
  EXPECT_EQ(segment->damage().code(), StatusCode::kUnavailable);
  EXPECT_EQ(segment->end_count(), 2);
}

TEST(Events, DamageCostsOnlyWhatIsBehindIt) {
  TestTrace trace;
  trace.Event(ProcessEvent()).Flush().Event(ProcessEvent()).Flush();
  trace.Finish();
  trace.Flip("events", trace.BlockOffsets("events")[1] + 40);
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->events().size(), 1);
  EXPECT_EQ(read->warnings().size(), 1);
  EXPECT_EQ(read->damage().size(), 1);
}

class KeyframeDamage : public testing::Test {
 protected:
  // 20 pages: two groups. Blocks: header, group, group, table, end.
  KeyframeDamage() {
    std::vector<std::pair<uint64_t, uint8_t>> pages;
    for (int i = 1; i <= 20; ++i) pages.emplace_back(i * kPageBytes, static_cast<uint8_t>(i));
    trace_.Keyframe(1, pages).Keyframe(2, pages);
    trace_.Finish();
    blocks_ = trace_.BlockOffsets("full/1");
  }

  TestTrace trace_;
  std::vector<uint64_t> blocks_;
};

TEST_F(KeyframeDamage, OfAGroupLosesItsPagesInAllKeyframes) {
  EXPECT_TRUE(trace_.Read()->full_keyframes()[0]->CheckFile().ok());
  trace_.Flip("full/1", blocks_[1] + kBlockHeaderBytes);
  const OpenTrace read = trace_.Read();
  EXPECT_EQ(read->full_keyframes()[0]->CheckFile().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(read->full_keyframes()[1]->CheckFile().ok());
  ASSERT_EQ(read->full_keyframes().size(), 2);
  for (const size_t keyframe : {0, 1}) {
    EXPECT_EQ(read.FirstByte(keyframe, 16 * kPageBytes), -1);
    EXPECT_EQ(read.FirstByte(keyframe, 17 * kPageBytes), 17);
  }
  std::vector<uint8_t> page(kPageBytes);
  const absl::Status status = read->full_keyframes()[1]->ReadPage(kPageBytes, absl::MakeSpan(page));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Names(status, "full/1", blocks_[1])) << status;
}

TEST_F(KeyframeDamage, OfTheTableIsNotTakenForAbsence) {
  trace_.Flip("full/2", trace_.BlockOffsets("full/2")[1] + kBlockHeaderBytes);
  const OpenTrace read = trace_.Read();
  std::vector<uint8_t> page(kPageBytes);
  EXPECT_EQ(read->full_keyframes()[1]->ReadPage(kPageBytes, absl::MakeSpan(page)).code(),
            StatusCode::kDataLoss);
  EXPECT_FALSE(read->full_keyframes()[1]->CheckFile().ok());
  EXPECT_TRUE(read->full_keyframes()[1]->page_addresses().empty());
  EXPECT_EQ(read.FirstByte(0, kPageBytes), 1);
}

TEST_F(KeyframeDamage, OfTheStructureDropsTheKeyframe) {
  trace_.CutTo("full/1", blocks_[4]);
  const OpenTrace read = trace_.Read();
  ASSERT_EQ(read->full_keyframes().size(), 1);
  EXPECT_EQ(read->full_keyframes()[0]->number(), 2);
  EXPECT_EQ(read.FirstByte(0, kPageBytes), -1);  // its bytes were in the other
  EXPECT_EQ(read->warnings().size(), 1);
  EXPECT_EQ(read->damage().size(), 1);
}

// A segment file made by hand, with messages no writer makes.
class CraftedSegment : public testing::Test {
 protected:
  CraftedSegment() {
    trace_.Begin(0).Flush();
    trace_.Finish();
    const auto directory = OutputDirectory::Open(trace_.directory());
    EXPECT_TRUE(directory->Remove(kSegment));
    file_ = *AppendFile::Create(*directory, kSegment, &bytes_);
    capnp::MallocMessageBuilder message;
    auto header = message.initRoot<wire::SegmentHeader>();
    const std::string uuid = SampleManifest().uuid;
    header.setUuid(AsData(uuid));
    header.setThread(kThread);
    header.initRegisters(4);
    Put(BlockKind::kSegmentHeader, &message);
  }

  void Put(BlockKind kind, capnp::MessageBuilder* message) {
    ASSERT_TRUE(AppendMessage(file_.get(), kind, &encoder_, *message).ok());
  }

  // A block of records of these kinds, one count apart, with `hashes` register hashes.
  void PutRecords(uint64_t first_record, const std::vector<uint8_t>& kinds, int hashes) {
    capnp::MallocMessageBuilder message;
    auto block = message.initRoot<wire::RecordBlock>();
    block.setFirstRecord(first_record);
    block.setFirstCount(first_record);
    block.setKinds(capnp::Data::Reader(kinds.data(), kinds.size()));
    FillList(block.initCountDeltas(kinds.size()), std::vector<uint32_t>(kinds.size(), 1));
    FillList(block.initRegisterHashes(hashes), std::vector<uint64_t>(hashes, 0xfeed));
    Put(BlockKind::kRecords, &message);
  }

  std::shared_ptr<const Segment> Load() { return trace_.Read().Load(0); }

  TestTrace trace_;
  std::atomic<uint64_t> bytes_ = 0;
  BlockEncoder encoder_;
  std::unique_ptr<AppendFile> file_;
};

TEST_F(CraftedSegment, UnknownIgnorableRecordsAndBlocksAreSkipped) {
  PutRecords(0, {5, 200, 5, 255}, 2);
  capnp::MallocMessageBuilder unknown;
  unknown.initRoot<wire::KeyframeEnd>();
  Put(static_cast<BlockKind>(0x8001), &unknown);
  PutRecords(4, {5}, 1);
  const auto segment = Load();
  ASSERT_EQ(segment->records().size(), 3);
  EXPECT_EQ(segment->records()[1].count, 3);
  EXPECT_EQ(segment->records()[2].count, 5);
  EXPECT_EQ(segment->damage().code(), StatusCode::kOutOfRange);  // only that it has no end
}

TEST_F(CraftedSegment, UnknownCriticalRecordsStopTheReader) {
  PutRecords(0, {5, 5, 100, 5}, 3);
  EXPECT_EQ(Load()->records().size(), 2);
  EXPECT_EQ(Load()->damage().code(), StatusCode::kUnimplemented);
}

TEST_F(CraftedSegment, UnknownCriticalBlocksStopTheReader) {
  capnp::MallocMessageBuilder unknown;
  unknown.initRoot<wire::KeyframeEnd>();
  Put(static_cast<BlockKind>(0x7fff), &unknown);
  EXPECT_EQ(Load()->damage().code(), StatusCode::kUnimplemented);
}

TEST_F(CraftedSegment, ColumnsTooShortForTheirKinds) {
  PutRecords(0, {5, 5, 5}, 2);
  EXPECT_EQ(Load()->records().size(), 2);
  EXPECT_EQ(Load()->damage().code(), StatusCode::kDataLoss);
}

// One that has the kind but none of its columns.
class CraftedSegmentOfKind : public CraftedSegment, public testing::WithParamInterface<uint8_t> {};

TEST_P(CraftedSegmentOfKind, WithoutItsColumns) {
  PutRecords(0, {GetParam()}, 0);
  EXPECT_TRUE(Load()->records().empty());
  EXPECT_EQ(Load()->damage().code(), StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CraftedSegmentOfKind,
                         testing::Values(0, 1, 2, 3, 4, 5, 6, 8, 9, 128));

// An OrderRun at count 100, after a register hash at count 10.
class CraftedOrder : public CraftedSegment {
 protected:
  absl::StatusCode Put(uint64_t first_sequence, uint32_t size, const std::string& counts) {
    capnp::MallocMessageBuilder message;
    auto block = message.initRoot<wire::RecordBlock>();
    const uint8_t kinds[] = {5, 128};
    block.setKinds(capnp::Data::Reader(kinds, 2));
    FillList(block.initCountDeltas(2), std::vector<uint32_t>{10, 90});
    FillList(block.initRegisterHashes(1), std::vector<uint64_t>{1});
    auto runs = block.initOrderRuns();
    FillList(runs.initFirstSequences(1), std::vector<uint64_t>{first_sequence});
    FillList(runs.initSizes(1), std::vector<uint32_t>{size});
    runs.setCounts(AsData(counts));
    CraftedSegment::Put(BlockKind::kRecords, &message);
    const auto segment = Load();
    EXPECT_EQ(segment->records().size(), segment->damage().code() == StatusCode::kDataLoss ? 1 : 2);
    return segment->damage().code();
  }
};

TEST_F(CraftedOrder, FromTheRecordBeforeToItsOwn) {
  // 90 back from 100, then 89 further. Not damaged, but that the segment has no end.
  EXPECT_EQ(Put(1, 2, "\x5a\x59"), StatusCode::kOutOfRange);
}
TEST_F(CraftedOrder, BeforeTheRecordBefore) { EXPECT_EQ(Put(1, 1, "\x5b"), StatusCode::kDataLoss); }
TEST_F(CraftedOrder, AtItsOwnCount) { EXPECT_EQ(Put(1, 2, "\x5a\x5a"), StatusCode::kDataLoss); }
TEST_F(CraftedOrder, AtItsOwnCountAlone) {
  EXPECT_EQ(Put(1, 1, std::string(1, '\0')), StatusCode::kDataLoss);
}
TEST_F(CraftedOrder, NotAscending) {
  EXPECT_EQ(Put(1, 2, std::string("\x5a\0", 2)), StatusCode::kDataLoss);
}
TEST_F(CraftedOrder, SequenceZero) { EXPECT_EQ(Put(0, 1, "\x5a"), StatusCode::kDataLoss); }
TEST_F(CraftedOrder, SequencesThatOverflow) {
  EXPECT_EQ(Put(~uint64_t{0}, 2, "\x5a\x01"), StatusCode::kDataLoss);
}
TEST_F(CraftedOrder, EmptyRun) { EXPECT_EQ(Put(1, 0, "\x5a"), StatusCode::kDataLoss); }
TEST_F(CraftedOrder, MoreCountsThanBytes) {
  EXPECT_EQ(Put(1, ~uint32_t{0}, "\x5a\x01"), StatusCode::kDataLoss);
}
TEST_F(CraftedOrder, CutInsideACount) { EXPECT_EQ(Put(1, 2, "\x5a\xff"), StatusCode::kDataLoss); }
TEST_F(CraftedOrder, CountOfMoreThan64Bits) {
  EXPECT_EQ(Put(1, 1, std::string(9, '\xff') + "\x02"), StatusCode::kDataLoss);
}

TEST_F(CraftedSegment, BlocksThatDoNotContinueEachOther) {
  PutRecords(0, {5}, 1);
  PutRecords(2, {5}, 1);
  EXPECT_EQ(Load()->records().size(), 1);
  EXPECT_EQ(Load()->damage().code(), StatusCode::kDataLoss);
}

TEST_F(CraftedSegment, CountsThatNoThreadGetsTo) {
  capnp::MallocMessageBuilder message;
  auto block = message.initRoot<wire::RecordBlock>();
  const uint8_t kinds[] = {5, 5};
  block.setFirstCount(kMaxCount - 2);
  block.setKinds(capnp::Data::Reader(kinds, 2));
  FillList(block.initCountDeltas(2), std::vector<uint32_t>{1, 1});
  FillList(block.initRegisterHashes(2), std::vector<uint64_t>{1, 1});
  Put(BlockKind::kRecords, &message);
  EXPECT_EQ(Load()->records().size(), 1);
  EXPECT_EQ(Load()->damage().code(), StatusCode::kDataLoss);
}

TEST(Damage, SegmentsThatBeginBeforeTheOneBeforeAreDropped) {
  TestTrace trace;
  trace.Begin(0, 100).End(200).Begin(1, 50).End(60).Begin(2, 200).End(300);
  trace.Finish();
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->segments(kThread).size(), 2);
  EXPECT_EQ(read->damage().size(), 1);
}

TEST_F(CraftedSegment, WildBytesInABlockWhoseChecksumsAreRight) {
  std::mt19937_64 random(TestSeed());
  const std::string before = trace_.Bytes(kSegment);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint64_t> words(random() % 64);
    for (uint64_t& word : words) word = random() >> (random() % 64);
    const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(words.data()),
                                           words.size() * sizeof(uint64_t));
    const auto block = encoder_.Encode(BlockKind::kRecords, bytes, before.size());
    ASSERT_TRUE(block.ok());
    trace_.SetBytes(kSegment, before + std::string(block->begin(), block->end()));
    EXPECT_FALSE(Load()->damage().ok());
  }
}

}  // namespace
}  // namespace hindsight
