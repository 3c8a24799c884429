// Modules of a ring: those that nothing refers to any more go, the others stay and keep their
// indices.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/test_trace.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBase = 0x100000;
constexpr int kThread = 4711;

// What file `number` holds: two pages that no other file has.
std::string Bytes(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::string bytes(2 * kPageBytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

class RingModulesTest : public testing::Test {
 protected:
  RingModulesTest()
      : directory_(absl::StrCat(testing::TempDir(), "/ringmodules", getpid(), ".", number_++)),
        trace_(directory_ + "/trace") {
    fs::create_directories(directory_);
  }
  ~RingModulesTest() override { fs::remove_all(directory_); }

  void Create(const RingLimits& ring) {
    auto writer = TraceWriter::Create(trace_, SampleManifest(), WriterOptions(), ring);
    ASSERT_TRUE(writer.ok()) << writer.status();
    writer_ = *std::move(writer);
    Begin(writer_.get());
  }
  void Begin(TraceWriter* writer) {
    writer->KeepPageTable();
    Ok(writer->AppendEvent({.kind = EventKind::kThreadStart, .sequence = 1, .thread = kThread}));
    Ok(writer->BeginSegment(kThread, 0, 0, 1, {0, 0, 0, 0}));
  }
  // The process maps file `number`, whose bytes are those of file `bytes`.
  int32_t Map(int number, int bytes = -1, TraceWriter* writer = nullptr) {
    const std::string path = absl::StrCat(directory_, "/file", number);
    std::ofstream(path) << Bytes(bytes < 0 ? number : bytes);
    const auto module = (writer == nullptr ? writer_.get() : writer)->AddModule(path, -1, 1 << 20);
    EXPECT_TRUE(module.ok()) << module.status();
    mapped_[number] = *module;
    return *module;
  }
  // And unmaps it.
  void Unmap(int number, TraceWriter* writer = nullptr) {
    Ok((writer == nullptr ? writer_.get() : writer)->ReleaseModules({mapped_.at(number)}));
    mapped_.erase(number);
  }
  // A segment that ends, with a page of each file that is mapped, and a full keyframe, with both.
  // `own`: pages that are none of a file, at kOwn and after it.
  void Keyframe(const std::vector<std::string>& own = {}, bool unchanged = false) {
    for (const auto& [number, module] : mapped_) {
      const PageImport page = {.address = AddressOf(number), .first = true, .module = module};
      Ok(writer_->Append(kThread, {count_, page}));
    }
    Ok(writer_->Append(kThread, {++count_, SegmentEnd{{0, 0, 0, 0}}}));
    Ok(writer_->BeginSegment(kThread, ++segment_, count_, 1, {0, 0, 0, 0}));
    const TraceWriter::ThreadState state = {
        .thread = kThread, .count = count_, .segment = segment_, .registers = {0, 0, 0, 0}};
    Ok(writer_->BeginFullKeyframe(++keyframe_, 1, {state}, Regions(), {}));
    for (const auto& [number, module] : mapped_) {
      Ok(writer_->AddModulePage(AddressOf(number), module, 0));
      Ok(writer_->AddModulePage(AddressOf(number) + kPageBytes, module, kPageBytes));
    }
    uint64_t address = kOwn;
    for (const std::string& page : own) {
      unchanged_ = unchanged && writer_->HadPage(address);
      if (unchanged_) {
        Ok(writer_->AddUnchangedPage(address));
      } else {
        Ok(writer_->AddPage(
            address,
            absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(page.data()), kPageBytes)));
      }
      address += kPageBytes;
    }
    Ok(writer_->FinishFullKeyframe());
    Ok(writer_->AppendEvent({.kind = EventKind::kFullKeyframe,
                             .thread = kThread,
                             .count = count_,
                             .number = static_cast<int64_t>(keyframe_)}));
  }
  void Finish() {
    Ok(writer_->Append(kThread, {count_, SegmentEnd{{0, 0, 0, 0}}}));
    Manifest manifest = SampleManifest();
    manifest.state = TraceState::kComplete;
    Ok(writer_->Finish(manifest));
  }
  static void Ok(const absl::Status& status) { ASSERT_TRUE(status.ok()) << status; }

  // Opens the trace and finds the bytes of every file that anything in it refers to.
  void Check() {
    const auto trace = TraceReader::Open(trace_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    for (const absl::Status& damage : (*trace)->damage()) ADD_FAILURE() << damage;
    for (const auto& [index, module] : (*trace)->modules()) {
      EXPECT_EQ(TextOf(**trace, index), Bytes(NumberOf(module.path))) << module.path;
    }
    for (const auto& keyframe : (*trace)->full_keyframes()) CheckKeyframe(**trace, *keyframe);
    for (const SegmentInfo& info : (*trace)->segments(kThread)) {
      const auto segment = (*trace)->LoadSegment(kThread, info.number);
      ASSERT_TRUE(segment.ok()) << segment.status();
      for (const Record& record : (*segment)->records()) {
        const auto* page = std::get_if<PageImport>(&record.body);
        if (page == nullptr) continue;
        EXPECT_EQ(TextOf(**trace, page->module), Bytes(FileAt(page->address)));
      }
    }
    if ((*trace)->manifest().totals.has_value()) {
      EXPECT_EQ((*trace)->manifest().totals->modules, (*trace)->modules().size());
    }
  }
  void CheckKeyframe(const TraceReader& trace, const FullKeyframe& keyframe) {
    for (const MapRegion& region : keyframe.maps()) {
      ASSERT_TRUE(trace.modules().contains(region.module)) << keyframe.number();
    }
    for (const uint64_t address : keyframe.page_addresses()) {
      std::string bytes(kPageBytes, '\0');
      Ok(keyframe.ReadPage(address,
                           absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), kPageBytes)));
      if (address >= kOwn) continue;
      EXPECT_EQ(bytes, Bytes(FileAt(address)).substr(address % (2 * kPageBytes), kPageBytes));
    }
  }
  static std::string TextOf(const TraceReader& trace, int32_t module) {
    const auto bytes = trace.ModuleBytes(module);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? std::string(bytes->begin(), bytes->end()) : "";
  }

  static constexpr uint64_t kOwn = 0x10'0000'0000;
  static uint64_t AddressOf(int number) {
    return kBase + 2 * kPageBytes * static_cast<uint64_t>(number);
  }
  static int FileAt(uint64_t address) {
    return static_cast<int>((address - kBase) / (2 * kPageBytes));
  }
  static int NumberOf(const std::string& path) {
    return std::stoi(path.substr(path.rfind("/file") + 5));
  }
  std::vector<MapRegion> Regions() const {
    std::vector<MapRegion> regions;
    for (const auto& [number, module] : mapped_) {
      regions.push_back({.start = AddressOf(number),
                         .end = AddressOf(number + 1),
                         .name = absl::StrCat(directory_, "/file", number),
                         .module = module});
    }
    return regions;
  }
  // Of the bytes of modules in the recording.
  std::set<std::string> Stored() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(trace_ + "/modules")) {
      if (entry.path().filename() != "list") names.insert(entry.path().filename());
    }
    return names;
  }

  static inline int number_ = 0;
  const std::string directory_, trace_;
  std::unique_ptr<TraceWriter> writer_;
  std::map<int, int32_t> mapped_;
  uint64_t count_ = 0, segment_ = 0, keyframe_ = 0;
  bool unchanged_ = false;  // of the last page given to Keyframe: it was not read
};

TEST_F(RingModulesTest, FilesGoThatWereUnmappedBeforeTheOldestKeyframe) {
  Create({.keyframes = 3, .text = "3"});
  Map(100000);  // stays
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Map(i), i + 1);
    Keyframe();
    Unmap(i);
    if (i % 100 == 50) {
      ASSERT_TRUE(writer_->Flush().ok());
      Check();
      // Of the three newest parts, and the one that stays.
      EXPECT_LE(Stored().size(), 5u);
      EXPECT_LT(fs::file_size(trace_ + "/modules/list"), 2000u);
    }
  }
  Finish();
  Check();
  EXPECT_LE(Stored().size(), 5u);
}

TEST_F(RingModulesTest, WhatIsStillMappedStays) {
  Create({.keyframes = 2, .text = "2"});
  for (int i = 0; i < 50; ++i) Map(i);
  for (int i = 0; i < 20; ++i) Keyframe();
  Finish();
  Check();
  EXPECT_EQ(Stored().size(), 50u);
}

TEST_F(RingModulesTest, AFileMappedAgainHasItsBytesAgain) {
  Create({.keyframes = 2, .text = "2"});
  std::set<int32_t> indices;
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(indices.insert(Map(1)).second);
    Keyframe();
    Unmap(1);
    for (int rest = 0; rest < i % 4; ++rest) Keyframe();
    ASSERT_TRUE(writer_->Flush().ok());
    Check();
  }
  Finish();
  Check();
}

TEST_F(RingModulesTest, BytesThatTwoFilesHaveGoWithTheSecond) {
  Create({.keyframes = 2, .text = "2"});
  Map(1, 7);
  Map(2, 7);
  Keyframe();
  Unmap(1);
  for (int i = 0; i < 5; ++i) Keyframe();
  ASSERT_TRUE(writer_->Flush().ok());
  EXPECT_EQ(Stored().size(), 1u);
  Unmap(2);
  for (int i = 0; i < 5; ++i) Keyframe();
  ASSERT_TRUE(writer_->Flush().ok());
  EXPECT_EQ(Stored().size(), 0u);
  Finish();
}

TEST_F(RingModulesTest, AnotherProcessKeepsTheBytesThatItHas) {
  Create({.keyframes = 2, .text = "2"});
  Map(1);
  Manifest manifest = SampleManifest();
  manifest.uuid.clear();
  manifest.pid = 5000;
  auto child = writer_->CreateChild(manifest);
  ASSERT_TRUE(child.ok()) << child.status();
  Begin(child->get());
  ASSERT_TRUE((*child)->AddModule(directory_ + "/file1", -1, 1 << 20).ok());
  Keyframe();
  Unmap(1);
  for (int i = 0; i < 5; ++i) Keyframe();
  ASSERT_TRUE(writer_->Flush().ok());
  EXPECT_EQ(Stored().size(), 1u);
  // When it has ended its trace goes as a whole, as the newest parts of others need the room.
  Ok((*child)->Append(kThread, {1, SegmentEnd{{0, 0, 0, 0}}}));
  manifest.state = TraceState::kComplete;
  Ok((*child)->Finish(manifest));
  child->reset();
  for (int i = 0; i < 5; ++i) Keyframe();
  ASSERT_TRUE(writer_->Flush().ok());
  EXPECT_FALSE(fs::exists(trace_ + "/processes/5000"));
  EXPECT_EQ(Stored().size(), 0u);
  Finish();
}

// A page of a program may equal a file's by chance, and be told to be unchanged ever after.
TEST_F(RingModulesTest, APageThatOnlyEqualsAFileIsStoredWhenThatGoes) {
  Create({.keyframes = 8, .text = "8"});  // the first four refer to each other
  const std::string page = Bytes(1).substr(0, kPageBytes);
  Map(1);
  Keyframe({page});
  Keyframe({page}, /*unchanged=*/true);
  EXPECT_TRUE(unchanged_);
  Unmap(1);
  Keyframe({page}, /*unchanged=*/true);
  EXPECT_FALSE(unchanged_);
  Keyframe({page}, /*unchanged=*/true);
  EXPECT_TRUE(unchanged_);
  for (int i = 0; i < 12; ++i) Keyframe({page}, /*unchanged=*/true);
  Finish();
  EXPECT_EQ(Stored().size(), 0u);
  const auto trace = TraceReader::Open(trace_);
  ASSERT_TRUE(trace.ok());
  for (const auto& keyframe : (*trace)->full_keyframes()) {
    std::string bytes(kPageBytes, '\0');
    Ok(keyframe->ReadPage(kOwn,
                          absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), kPageBytes)));
    EXPECT_EQ(bytes, page);
  }
}

TEST_F(RingModulesTest, FilesThatHaveChangedAreForgottenWithTheirModules) {
  Create({.keyframes = 2, .text = "2"});
  for (int i = 0; i < 50; ++i) {
    const int32_t module = Map(i);
    Ok(writer_->AppendEvent(
        {.kind = EventKind::kFileChanged, .thread = kThread, .number = module}));
    Keyframe();
    Unmap(i);
  }
  Finish();
  const auto trace = TraceReader::Open(trace_);
  ASSERT_TRUE(trace.ok());
  int changed = 0;
  for (const ProcessEvent& event : (*trace)->events()) {
    if (event.kind != EventKind::kFileChanged) continue;
    ++changed;
    EXPECT_TRUE((*trace)->modules().contains(static_cast<int32_t>(event.number)));
  }
  EXPECT_GE(changed, 1);
  EXPECT_LE(changed, 3);
}

TEST_F(RingModulesTest, OpensWhereverTheRecorderWasKilled) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 15; ++trial) {
    fs::remove_all(trace_);
    const pid_t child = fork();
    if (child == 0) {
      Create({.keyframes = 3, .text = "3"});
      for (int i = 0; i < 100000; ++i) {
        Map(i % 1000);
        Keyframe();
        Unmap(i % 1000);
      }
      _exit(0);
    }
    while (!fs::exists(trace_ + "/manifest")) usleep(1000);
    usleep(50'000 + random() % 200'000);
    // Also while it goes on.
    for (int i = 0; i < 5; ++i) {
      if (const auto live = TraceReader::Open(trace_); live.ok()) {
        for (const absl::Status& damage : (*live)->damage()) ADD_FAILURE() << damage;
      }
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    Check();
    EXPECT_LE(Stored().size(), 8u);
  }
}

// Readers of a trace are not to be led to a module by an index that it has not.
TEST_F(RingModulesTest, AnIndexThatWentNamesNothing) {
  Create({.keyframes = 2, .text = "2"});
  for (int i = 0; i < 10; ++i) {
    Map(i);
    Keyframe();
    Unmap(i);
  }
  Map(10);
  Keyframe();
  Finish();
  const auto trace = TraceReader::Open(trace_);
  ASSERT_TRUE(trace.ok());
  EXPECT_TRUE((*trace)->modules().contains(10));
  EXPECT_FALSE((*trace)->modules().contains(0));
  EXPECT_EQ((*trace)->ModuleBytes(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*trace)->ModuleBytes(11).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight
