// Traces made to cost their reader more than they cost their maker: reading any of them takes a
// constant and a multiple of its files' size, and files stay within a process's limits.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

using absl::StatusCode;
using Words = std::vector<uint64_t>;

constexpr uint64_t kMib = 1 << 20;
// What opening takes at most here, where files are small: the budget, twice because vectors double
// their room and hold both for an instant, and one block being read.
#ifdef __SANITIZE_ADDRESS__
// AddressSanitizer keeps what was freed for a while, and room around each piece.
constexpr uint64_t kOpenMib = 2 * (2 * 64 + 32);
#else
constexpr uint64_t kOpenMib = 2 * 64 + 32;
#endif
constexpr uint64_t kLoadMib = 2 * 256 + 64;
// Words of the largest message.
constexpr size_t kMostWords = kMaxRawBytes / sizeof(uint64_t);

// A value of /proc/self/status in bytes.
uint64_t Status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) << 10;
  }
  return 0;
}

// By how many MiB the process grows at most during `act`, in a process of its own.
uint64_t PeakMib(const std::function<void()>& act) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins here
    const uint64_t before = Status("VmRSS");
    act();
    const uint64_t grown = Status("VmHWM") - before;
    _exit(write(ends[1], &grown, sizeof(grown)) == sizeof(grown) ? 0 : 1);
  }
  close(ends[1]);
  uint64_t grown = 0;
  EXPECT_EQ(read(ends[0], &grown, sizeof(grown)), sizeof(grown)) << "the reader died";
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::printf("%.1f MiB\n", static_cast<double>(grown) / kMib);
  return grown / kMib;
}

// Cap'n Proto's pointers, by hand: the builder makes no lists that lie.
uint64_t StructPointer(uint64_t offset, uint64_t data_words, uint64_t pointers) {
  return offset << 2 | data_words << 32 | pointers << 48;
}
uint64_t ListPointer(uint64_t offset, uint64_t size_code, uint64_t count) {
  return 1 | offset << 2 | size_code << 32 | count << 35;
}
constexpr uint64_t kVoid = 0, kByte = 2, kComposite = 7;
// As many elements of no size as Cap'n Proto lets pass in the largest message.
constexpr uint64_t kManyVoids = 2 * kMostWords - 64;

// The message of these words, filled up with zeros to the largest there is.
Words Largest(Words words) {
  words.insert(words.begin(), (kMostWords - 1) << 32);
  words.resize(kMostWords);
  return words;
}

Words WordsOf(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> flat = capnp::messageToFlatArray(message);
  Words words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * sizeof(uint64_t));
  return words;
}

class HostileTest : public testing::Test {
 protected:
  HostileTest() {
    trace_.Begin(0).Add(Effect(3)).End(5).Keyframe(1, {{0x1000, 1}}).Event(ProcessEvent());
    trace_.Finish();
  }

  // Blocks of these messages, after the first `kept` bytes of the file.
  void Put(const std::string& name, BlockKind kind, const std::vector<Words>& messages,
           size_t kept = 0) {
    BlockEncoder encoder;
    std::string file = kept == 0 ? "" : trace_.Bytes(name).substr(0, kept);
    for (const Words& words : messages) {
      const absl::Span<const uint8_t> raw(reinterpret_cast<const uint8_t*>(words.data()),
                                          words.size() * sizeof(uint64_t));
      const auto block = encoder.Encode(kind, raw, file.size());
      ASSERT_TRUE(block.ok());
      file.append(block->begin(), block->end());
    }
    std::printf("%s: %zu bytes\n", name.c_str(), file.size());
    trace_.SetBytes(name, file);
  }
  void PutSegment(const std::vector<Words>& messages) {
    Put(kSegment, BlockKind::kRecords, messages, trace_.BlockOffsets(kSegment)[1]);
  }

  uint64_t OpenMib() {
    return PeakMib([&] { trace_.TryRead().IgnoreError(); });
  }
  uint64_t LoadMib() {
    return PeakMib([&] { (*trace_.TryRead())->LoadSegment(kThread, 0).IgnoreError(); });
  }
  StatusCode SegmentDamage() { return trace_.Read().Load(0)->damage().code(); }

  static constexpr char kSegment[] = "threads/1/0.seg";
  TestTrace trace_;
};

TEST_F(HostileTest, ModulesOfNoSize) {
  const Words list = Largest({StructPointer(0, 0, 1), ListPointer(0, kVoid, kManyVoids)});
  Put("modules/list", BlockKind::kModules, {list, list, list, list});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->warnings().size(), 1);
}

// A composite list may say that its structs have no words, too.
TEST_F(HostileTest, ModulesOfNoWords) {
  const Words list = Largest(
      {StructPointer(0, 0, 1), ListPointer(0, kComposite, 0), StructPointer(kManyVoids, 0, 0)});
  Put("modules/list", BlockKind::kModules, {list, list});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_TRUE(trace_.Read()->modules().empty());
}

// What is said is there, and compresses to nothing.
TEST_F(HostileTest, EmptyModulesByTheMillion) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::ModuleList>().initModules(400'000);
  const Words list = WordsOf(message);
  Put("modules/list", BlockKind::kModules, {list, list, list, list, list, list, list, list});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kResourceExhausted);
}

TEST_F(HostileTest, EventsByTheMillion) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::EventBlock>().initEvents(250'000);
  const Words list = WordsOf(message);
  Put("events", BlockKind::kEvents, {list, list, list, list, list, list});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kResourceExhausted);
}

// One event with a memory map of regions of no size.
TEST_F(HostileTest, MemoryMapsOfNoSize) {
  const Words list =
      Largest({StructPointer(0, 0, 1), ListPointer(0, kComposite, 8), StructPointer(1, 5, 3), 0, 0,
               0, 0, 0, 0, 0, ListPointer(0, kVoid, kManyVoids - 100)});
  Put("events", BlockKind::kEvents, {list});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kDataLoss);
}

// What the recorder never writes: readers reject it.
TEST_F(HostileTest, PartsOfTheMapThatCannotBe) {
  const MapRegion region = {.start = 0x2000, .end = 0x3000};
  const struct {
    const char* what;
    std::vector<uint64_t> ranges;
    std::vector<MapRegion> maps;
  } parts[] = {
      {"no range", {}, {}},
      {"half a range", {0x1000}, {}},
      {"empty range", {0x1000, 0x1000}, {}},
      {"range backward", {0x4000, 0x1000}, {region}},
      {"ranges overlap", {0x1000, 0x3000, 0x2000, 0x4000}, {region}},
      {"ranges descend", {0x8000, 0x9000, 0x1000, 0x4000}, {region}},
      {"empty region", {0x1000, 0x4000}, {{.start = 0x2000, .end = 0x2000}}},
      {"region backward", {0x1000, 0x4000}, {{.start = 0x3000, .end = 0x2000}}},
      {"regions overlap", {0x1000, 0x4000}, {region, {.start = 0x2000, .end = 0x4000}}},
      {"regions descend", {0x1000, 0x4000}, {region, {.start = 0x1000, .end = 0x2000}}},
      {"region before the range", {0x2800, 0x4000}, {region}},
      {"region after the range", {0x1000, 0x2800}, {region}},
      {"region in no range", {0x1000, 0x2000, 0x3000, 0x4000}, {region}},
      {"region in two ranges", {0x2000, 0x2800, 0x2800, 0x3000}, {region}},
  };
  for (const auto& part : parts) {
    TestTrace trace;
    trace.Event(ProcessEvent()).Flush();
    trace.Event({.kind = EventKind::kMapPart, .arguments = part.ranges, .maps = part.maps});
    trace.Finish();
    const OpenTrace read = trace.Read();
    EXPECT_EQ(read->events().size(), 1) << part.what;
    ASSERT_EQ(read->damage().size(), 1) << part.what;
    EXPECT_EQ(read->damage()[0].code(), StatusCode::kDataLoss) << part.what;
  }
}

class HostileKeyframe : public HostileTest {
 protected:
  // A header with these lists of threads and of the memory map, alone in its file.
  void PutHeader(uint64_t threads, uint64_t maps) {
    uint64_t uuid[2];
    std::memcpy(uuid, SampleManifest().uuid.data(), sizeof(uuid));
    Put("full/1", BlockKind::kKeyframeHeader,
        {Largest({StructPointer(0, 2, 4), 1, 0, ListPointer(3, kByte, 16), threads, maps, 0,
                  uuid[0], uuid[1]})});
  }
};

TEST_F(HostileKeyframe, ThreadsOfNoSize) {
  PutHeader(ListPointer(0, kVoid, kManyVoids - 100), 0);
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kDataLoss);
}

TEST_F(HostileKeyframe, RegionsOfNoSize) {
  PutHeader(0, ListPointer(0, kVoid, kManyVoids - 100));
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kDataLoss);
}

// All threads' registers are the same words.
TEST_F(HostileKeyframe, RegistersOfMillionsOfWords) {
  capnp::MallocMessageBuilder message;
  auto header = message.initRoot<wire::KeyframeHeader>();
  const std::string uuid = SampleManifest().uuid;
  header.setUuid(AsData(uuid));
  auto threads = header.initThreads(100);
  for (auto thread : threads) thread.initRegisters(20'000);
  for (int number = 1; number <= 20; ++number) {
    header.setNumber(number);
    const std::string name = absl::StrCat("full/", number);
    trace_.SetBytes(name, "");
    Put(name, BlockKind::kKeyframeHeader, {WordsOf(message)});
    // A keyframe without an end is dropped at once.
    capnp::MallocMessageBuilder end;
    end.initRoot<wire::KeyframeEnd>();
    Put(name, BlockKind::kKeyframeEnd, {WordsOf(end)}, trace_.Bytes(name).size());
  }
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_GE(trace_.Read()->full_keyframes().size(), 4);
  EXPECT_EQ(trace_.Read()->damage().back().code(), StatusCode::kResourceExhausted);
}

TEST_F(HostileKeyframe, GroupsOfManyPages) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::PageGroup>().initBytes(17 * kPageBytes);
  Put("full/1", BlockKind::kPageGroup, {WordsOf(message)}, trace_.BlockOffsets("full/1")[1]);
  EXPECT_EQ(trace_.Read()->damage()[0].code(), StatusCode::kDataLoss);
}

TEST_F(HostileKeyframe, PageTablesByTheMillion) {
  const std::string whole = trace_.Bytes("full/1");
  const uint64_t header = trace_.BlockOffsets("full/1")[1];
  std::vector<Words> tables;
  uint64_t next = 0;
  for (int part = 0; part < 20; ++part) {
    constexpr uint32_t kEntries = 700'000;
    capnp::MallocMessageBuilder message(kMostWords);
    auto table = message.initRoot<wire::PageTable>();
    auto addresses = table.initAddresses(kEntries);
    for (uint32_t i = 0; i < kEntries; ++i) addresses.set(i, next++ * kPageBytes);
    table.initSources(kEntries);
    table.initOwners(kEntries);
    table.initPositions(kEntries);
    tables.push_back(WordsOf(message));
  }
  Put("full/1", BlockKind::kPageTable, tables, header);
  // The end, in its new place.
  capnp::MallocMessageBuilder end;
  end.initRoot<wire::KeyframeEnd>().setPageCount(next);
  const Words words = WordsOf(end);
  const std::string file = trace_.Bytes("full/1");
  BlockEncoder encoder;
  const auto block = encoder.Encode(
      BlockKind::kKeyframeEnd,
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(words.data()), words.size() * 8),
      file.size());
  trace_.SetBytes("full/1", file + std::string(block->begin(), block->end()));
  ASSERT_EQ(trace_.Read()->full_keyframes().size(), 1);
  const uint64_t allowed = kOpenMib + file.size() * 256 / kMib;
  EXPECT_LE(PeakMib([&] { trace_.Read()->full_keyframes()[0]->page_addresses(); }), allowed);
}

TEST_F(HostileTest, ManifestsOfManyProcesses) {
  capnp::MallocMessageBuilder message;
  auto manifest = message.initRoot<wire::Manifest>();
  const std::string uuid = SampleManifest().uuid;
  manifest.setUuid(AsData(uuid));
  manifest.initArguments(500'000);
  for (int i = 1; i <= 40; ++i) {
    const std::string directory = absl::StrCat("processes/", i);
    std::filesystem::create_directories(trace_.Path(directory));
    Put(directory + "/manifest", BlockKind::kManifest, {WordsOf(message)});
  }
  std::vector<std::string> warnings;
  EXPECT_LE(PeakMib([&] { ListProcesses(trace_.directory(), nullptr).IgnoreError(); }), kOpenMib);
  EXPECT_TRUE(ListProcesses(trace_.directory(), &warnings).ok());
  EXPECT_FALSE(warnings.empty());
}

class HostileAncestry : public HostileTest {
 protected:
  void PutProcess(const std::string& name, const std::string& parent) {
    capnp::MallocMessageBuilder message;
    auto manifest = message.initRoot<wire::Manifest>();
    const std::string uuid = SampleManifest().uuid;
    manifest.setUuid(AsData(uuid));
    manifest.setParentPid(parent.empty() ? 0 : 1);
    manifest.setParentDirectory(AsData(parent));
    std::filesystem::create_directories(trace_.Path("processes/" + name));
    Put("processes/" + name + "/manifest", BlockKind::kManifest, {WordsOf(message)});
  }
  StatusCode Check(const std::string& name) {
    return CheckAncestry(*TraceDirectory::Open(trace_.Path("processes/" + name))).code();
  }
};

TEST_F(HostileAncestry, CirclesAreNoticed) {
  PutProcess("1", "../1");
  PutProcess("2", "../3");
  PutProcess("3", "../4");
  PutProcess("4", "../3");
  PutProcess("5", "../..");
  PutProcess("6", "../5");
  for (const char* name : {"1", "2", "3", "4"}) EXPECT_EQ(Check(name), StatusCode::kDataLoss);
  EXPECT_EQ(Check("5"), StatusCode::kOk);
  EXPECT_EQ(Check("6"), StatusCode::kOk);
}

TEST_F(HostileAncestry, OnlyAProcessOfTheRecordingCanBeAParent) {
  for (const char* parent : {".", "..", "../../..", "/", "../../../other", "../1/../2", "x", "../",
                             "../.", "../../../processes/1"}) {
    PutProcess("1", parent);
    EXPECT_EQ(Check("1"), StatusCode::kDataLoss) << parent;
  }
  PutProcess("1", "../2");
  EXPECT_EQ(Check("1"), StatusCode::kNotFound);
}

TEST_F(HostileAncestry, GenerationsAreCounted) {
  PutProcess("1", "../..");
  for (size_t i = 2; i <= kMaxAncestors + 1; ++i) {
    PutProcess(absl::StrCat(i), absl::StrCat("../", i - 1));
  }
  EXPECT_EQ(Check(absl::StrCat(kMaxAncestors)), StatusCode::kOk);
  EXPECT_EQ(Check(absl::StrCat(kMaxAncestors + 1)), StatusCode::kResourceExhausted);
}

TEST_F(HostileTest, TotalsOfThreadsOfNoSize) {
  capnp::MallocMessageBuilder small;
  auto manifest = small.initRoot<wire::Manifest>();
  const std::string uuid = SampleManifest().uuid;
  manifest.setUuid(AsData(uuid));
  manifest.initTotals();
  Words words = WordsOf(small);
  // The last pointer that is set. The only list there is room for in Totals: the pointer after its
  // data, all zero yet.
  const uint64_t root = words[1];
  const size_t pointers = 2 + (root >> 32 & 0xffff);
  size_t totals_slot = pointers + (root >> 48) - 1;
  while (words[totals_slot] == 0) --totals_slot;
  const size_t totals = totals_slot + 1 + (words[totals_slot] >> 2 & 0x3fffffff);
  words[totals + (words[totals_slot] >> 32 & 0xffff)] = ListPointer(0, kVoid, kManyVoids - 1000);
  words.erase(words.begin());
  Put("manifest", BlockKind::kManifest, {Largest(words)});
  EXPECT_LE(OpenMib(), kOpenMib);
  EXPECT_EQ(trace_.TryRead().status().code(), StatusCode::kDataLoss);
}

TEST_F(HostileTest, RegisterHashesByTheMillion) {
  constexpr uint32_t kRecords = 1'000'000;
  std::vector<Words> blocks;
  for (uint32_t i = 0; i < 12; ++i) {
    capnp::MallocMessageBuilder message(kMostWords);
    auto block = message.initRoot<wire::RecordBlock>();
    block.setFirstRecord(uint64_t{i} * kRecords);
    block.setKinds(AsData(std::string(kRecords, '\5')));
    block.initCountDeltas(kRecords);
    block.initRegisterHashes(kRecords);
    blocks.push_back(WordsOf(message));
  }
  PutSegment(blocks);
  EXPECT_LE(LoadMib(), kLoadMib);
  EXPECT_EQ(SegmentDamage(), StatusCode::kResourceExhausted);
}

TEST_F(HostileTest, OrderedStatesByTheMillion) {
  constexpr uint32_t kCounts = 15'000'000;
  std::vector<Words> blocks;
  for (uint32_t i = 0; i < 8; ++i) {
    capnp::MallocMessageBuilder message(kMostWords);
    auto block = message.initRoot<wire::RecordBlock>();
    block.setFirstRecord(i);
    block.setFirstCount(uint64_t{i} * kCounts);
    block.setKinds(AsData("\x80"));
    block.initCountDeltas(1).set(0, kCounts);
    auto runs = block.initOrderRuns();
    runs.initFirstSequences(1).set(0, 1 + uint64_t{i} * kCounts);
    runs.initSizes(1).set(0, kCounts - 1000);
    // Back to the first of them, then one each.
    std::string counts = std::string("\xc0\xc3\x93\x07", 4) + std::string(kCounts, '\1');
    runs.setCounts(AsData(counts));
    blocks.push_back(WordsOf(message));
  }
  PutSegment(blocks);
  EXPECT_LE(LoadMib(), kLoadMib);
  EXPECT_EQ(SegmentDamage(), StatusCode::kResourceExhausted);
}

TEST_F(HostileTest, MappedRangesByTheMillion) {
  capnp::MallocMessageBuilder message(kMostWords);
  auto block = message.initRoot<wire::RecordBlock>();
  const std::string zeros(1000, '\0'), ones(1'000'000, '\1');
  block.setKinds(AsData("\x09" + std::string(zeros.size(), '\x08')));
  block.initCountDeltas(1001);
  block.initMappedRanges().initAddresses(1000);
  block.getMappedRanges().setFlags(AsData(zeros));
  FillList(block.getMappedRanges().initSizes(1000), Words(1000, uint64_t{1} << 33));
  block.initUsedPages().initSizes(1).set(0, 1'000'000);
  block.getUsedPages().setFlags(AsData(ones));
  block.getUsedPages().setPages(AsData(ones));
  PutSegment({WordsOf(message)});
  EXPECT_LE(LoadMib(), kLoadMib);
  EXPECT_EQ(SegmentDamage(), StatusCode::kResourceExhausted);
}

TEST_F(HostileTest, SiginfosLargerThanTheKernels) {
  for (const size_t size : {128, 129, 100'000}) {
    capnp::MallocMessageBuilder message;
    auto block = message.initRoot<wire::RecordBlock>();
    const std::string kinds(1, '\4');
    block.setKinds(AsData(kinds));
    block.initCountDeltas(1);
    auto jumps = block.initDiscontinuities();
    jumps.initKinds(1);
    jumps.initSequences(1);
    jumps.initRegisterHashes(1);
    jumps.initSignals(1);
    jumps.initSiginfos(1).init(0, static_cast<uint32_t>(size));
    jumps.initPatches().initSizes(1);
    PutSegment({WordsOf(message)});
    EXPECT_EQ(SegmentDamage(), size == 128 ? StatusCode::kOutOfRange : StatusCode::kDataLoss);
  }
}

// More keyframes, modules and segments than a process may have files open; and the same module
// again and again is mapped once.
TEST_F(HostileTest, FilesAreNotKeptOpen) {
  TestTrace trace;
  trace.SetBytes("file", std::string(10000, 'm'));
  for (int i = 0; i < 300; ++i) {
    const std::string path = trace.Path(absl::StrCat("module-", i));
    std::filesystem::copy_file(trace.Path("file"), path);
    ASSERT_TRUE(trace.writer()->AddModule(path, -1, 1 << 20).ok());
  }
  for (uint64_t i = 1; i <= 300; ++i) trace.Keyframe(i, {{0x1000, static_cast<uint8_t>(i)}});
  trace.Finish();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const OpenTrace read = trace.Read();
  EXPECT_EQ(read->warnings().size(), 0);
  ASSERT_EQ(read->full_keyframes().size(), 300);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(read.FirstByte(i, 0x1000), static_cast<uint8_t>(i + 1));
    EXPECT_TRUE(read->full_keyframes()[i]->CheckFile().ok());
    EXPECT_EQ(read->ModuleBytes(static_cast<int32_t>(i))->data(), read->ModuleBytes(0)->data());
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(HostileTest, ComplaintsAreCounted) {
  for (int i = 10; i < 3000; ++i) trace_.SetBytes(absl::StrCat("threads/1/", i, ".seg"), "");
  EXPECT_LE(trace_.Read()->warnings().size(), 1001);
  EXPECT_LE(trace_.Read()->damage().size(), 1000);
  EXPECT_EQ(trace_.Read()->LoadSegment(kThread, 2999).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace hindsight
