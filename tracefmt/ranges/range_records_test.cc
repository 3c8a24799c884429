// MappedRange and UsedPages: written and read back, and refused where they cannot be.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tracefmt/record_columns.h"
#include "tracefmt/record_decoder.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

using absl::StatusCode;

template <typename Body>
std::vector<const Body*> All(const Segment& segment) {
  std::vector<const Body*> found;
  for (const Record& record : segment.records()) {
    if (const auto* body = std::get_if<Body>(&record.body)) found.push_back(body);
  }
  return found;
}

TEST(RangeRecords, RoundTrip) {
  const std::vector<uint64_t> few = {0x1000}, more = {0, 0x2000, ~uint64_t{0xfff}};
  TestTrace trace;
  ASSERT_EQ(*trace.writer()->AddModule("/proc/self/exe", -1, 1 << 30), 0);
  trace.Begin(0).Add({0, MappedRange{0x1000, 0x2000, 0, 0x3000}});
  trace.Add({1, MappedRange{0x8000, 0x1000}}).Add({2, UsedPages{false, few}});
  trace.Add({3, UsedPages{true, more}}).Add({3, UsedPages{true, {}}}).End(4);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  const auto ranges = All<MappedRange>(*segment);
  ASSERT_EQ(ranges.size(), 2);
  EXPECT_EQ(ranges[0]->address, 0x1000);
  EXPECT_EQ(ranges[0]->bytes, 0x2000);
  EXPECT_EQ(ranges[0]->module, 0);
  EXPECT_EQ(ranges[0]->module_offset, 0x3000);
  EXPECT_EQ(ranges[1]->address, 0x8000);
  EXPECT_EQ(ranges[1]->module, -1);
  const auto used = All<UsedPages>(*segment);
  ASSERT_EQ(used.size(), 3);
  EXPECT_FALSE(used[0]->complete);
  EXPECT_EQ(used[0]->pages, few);
  EXPECT_TRUE(used[1]->complete);
  EXPECT_EQ(used[1]->pages, more);
  EXPECT_TRUE(used[2]->complete && used[2]->pages.empty());
}

TEST(RangeRecords, LongListsAreSplitAndTheLastPartIsComplete) {
  std::vector<uint64_t> pages(100000);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = (3 * i + (i % 7 == 0 ? 1 : 0)) * kPageBytes;
  TestTrace trace;
  trace.Begin(0).Add({5, UsedPages{true, pages}}).End(6);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  std::vector<uint64_t> read;
  const auto used = All<UsedPages>(*segment);
  ASSERT_EQ(used.size(), 4);
  for (const UsedPages* part : used) {
    EXPECT_EQ(part->complete, part == used.back());
    read.insert(read.end(), part->pages.begin(), part->pages.end());
  }
  EXPECT_EQ(read, pages);
  EXPECT_LT(segment->info().file_bytes, pages.size() / 10);
}

TEST(RangeRecords, TheWriterRefusesWhatIsNone) {
  const std::vector<uint64_t> twice = {0x1000, 0x1000}, crooked = {0x1001};
  TestTrace trace;
  trace.Begin(0);
  for (const RecordBody& body : std::vector<RecordBody>{
           MappedRange{0x1800, 0x1000}, MappedRange{0x1000, 0}, MappedRange{0x1000, 0x800},
           MappedRange{~uint64_t{0xfff}, 0x2000}, MappedRange{0x1000, 0x1000, 0, ~uint64_t{0xfff}},
           UsedPages{true, twice}, UsedPages{true, crooked}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(trace.writer()->Append(kThread, {0, body})));
  }
}

// A block of one record made by hand, in a trace of two modules.
template <typename Fill>
StatusCode Decode(RecordKind kind, const Fill& fill) {
  capnp::MallocMessageBuilder message;
  auto record_block = message.initRoot<wire::RecordBlock>();
  const std::string kinds(1, static_cast<char>(kind));
  record_block.setKinds(AsData(kinds));
  record_block.initCountDeltas(1);
  fill(record_block);
  const kj::Array<capnp::word> flat = capnp::messageToFlatArray(message);
  RawBlock block;
  block.words = std::make_unique<uint64_t[]>(flat.size());
  block.word_count = flat.size();
  std::memcpy(block.words.get(), flat.begin(), flat.size() * sizeof(uint64_t));
  ReadBudget budget(1 << 20, 0);
  RecordCursor cursor;
  std::vector<Record> records;
  DecodedLists lists;
  const absl::Status status =
      DecodeRecords("file", block, {2, 0, &budget}, &cursor, &records, &lists);
  EXPECT_EQ(records.size(), status.ok() ? 1 : 0);
  return status.code();
}

StatusCode DecodeRange(uint64_t address, uint64_t bytes, int32_t module = -1, uint64_t offset = 0) {
  return Decode(RecordKind::kMappedRange, [&](wire::RecordBlock::Builder block) {
    auto ranges = block.initMappedRanges();
    ranges.initAddresses(1).set(0, address);
    ranges.initSizes(1).set(0, bytes);
    const std::string flags(1, module == -1 ? '\0' : '\1');
    ranges.setFlags(AsData(flags));
    if (module == -1) return;
    ranges.initModules(1).set(0, module);
    ranges.initModuleOffsets(1).set(0, offset);
  });
}

StatusCode DecodeUsed(uint32_t size, const std::string& pages) {
  return Decode(RecordKind::kUsedPages, [&](wire::RecordBlock::Builder block) {
    auto used = block.initUsedPages();
    used.initSizes(1).set(0, size);
    const std::string flags(1, '\1');
    used.setFlags(AsData(flags));
    used.setPages(AsData(pages));
  });
}

TEST(MappedRangeOnDisk, OfWholePages) {
  EXPECT_EQ(DecodeRange(0x1000, 0x2000), StatusCode::kOk);
  EXPECT_EQ(DecodeRange(0x1800, 0x1000), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRange(0x1000, 0x1800), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRange(0x1000, 0), StatusCode::kDataLoss);
}
TEST(MappedRangeOnDisk, InTheAddressSpace) {
  EXPECT_EQ(DecodeRange(~uint64_t{0x1fff}, 0x1000), StatusCode::kOk);
  EXPECT_EQ(DecodeRange(~uint64_t{0x1fff}, 0x3000), StatusCode::kDataLoss);
}
TEST(MappedRangeOnDisk, OfAModuleThatIsListed) {
  EXPECT_EQ(DecodeRange(0x1000, 0x1000, 1, 0x7000), StatusCode::kOk);
  EXPECT_EQ(DecodeRange(0x1000, 0x1000, 2), StatusCode::kUnavailable);
  EXPECT_EQ(DecodeRange(0x1000, 0x1000, -2), StatusCode::kUnavailable);
  EXPECT_EQ(DecodeRange(0x1000, 0x1000, 1, ~uint64_t{0xfff}), StatusCode::kDataLoss);
}

TEST(UsedPagesOnDisk, Ascend) {
  EXPECT_EQ(DecodeUsed(2, "\1\1"), StatusCode::kOk);
  EXPECT_EQ(DecodeUsed(2, std::string("\0\1", 2)), StatusCode::kOk);  // page 0 is a page
  EXPECT_EQ(DecodeUsed(2, std::string("\1\0", 2)), StatusCode::kDataLoss);
}
TEST(UsedPagesOnDisk, MayBeNone) { EXPECT_EQ(DecodeUsed(0, ""), StatusCode::kOk); }
TEST(UsedPagesOnDisk, AreNoMoreThanTheBytesForThem) {
  EXPECT_EQ(DecodeUsed(3, "\1\1"), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeUsed(~uint32_t{0}, "\1\1"), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeUsed(2, "\1\xff"), StatusCode::kDataLoss);
}
TEST(UsedPagesOnDisk, AreInTheAddressSpace) {
  const std::string last = std::string(7, '\xff') + "\x07";  // 2^52 - 1
  EXPECT_EQ(DecodeUsed(1, last), StatusCode::kOk);
  EXPECT_EQ(DecodeUsed(2, last + "\1"), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeUsed(1, std::string(7, '\x80') + "\x08"), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hindsight
