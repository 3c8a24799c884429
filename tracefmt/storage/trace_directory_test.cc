#include "tracefmt/storage/trace_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

// recording/{manifest,threads/1/0.seg}, recording/processes/12/manifest, and secret beside it.
class TraceDirectoryTest : public testing::Test {
 protected:
  TraceDirectoryTest() {
    EXPECT_NE(mkdtemp(top_.data()), nullptr);
    recording_ = top_ + "/recording";
    Write("recording/manifest", "root");
    Write("recording/threads/1/0.seg", "segment");
    Write("recording/processes/12/manifest", "child");
    Write("secret", "secret");
  }
  ~TraceDirectoryTest() override { fs::remove_all(top_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(top_ + "/" + name).parent_path());
    std::ofstream(top_ + "/" + name) << text;
  }
  static std::string Text(const TraceDirectory& directory, const std::string& file) {
    const absl::StatusOr<UniqueFd> fd = directory.OpenFile(file);
    if (!fd.ok()) return "refused";
    char text[64];
    const ssize_t size = read(fd->get(), text, sizeof(text));
    return std::string(text, size < 0 ? 0 : static_cast<size_t>(size));
  }

  std::string top_ = testing::TempDir() + "/directory.XXXXXX";
  std::string recording_;
};

TEST_F(TraceDirectoryTest, ReadsWhatLiesInIt) {
  const TraceDirectory directory = *TraceDirectory::Open(recording_);
  EXPECT_EQ(directory.path(), recording_);
  EXPECT_EQ(Text(directory, "manifest"), "root");
  EXPECT_EQ(Text(directory, "threads/1/0.seg"), "segment");
  EXPECT_EQ(directory.Entries("threads"), std::vector<std::string>{"1"});
  EXPECT_EQ(directory.BytesUnder("threads"), 7);
  EXPECT_EQ(directory.BytesUnder("manifest"), 4);
  EXPECT_TRUE(absl::IsNotFound(directory.OpenFile("lock").status()));
}

TEST_F(TraceDirectoryTest, WhatIsKeptOpenIsFoundAgain) {
  const TraceDirectory plain = *TraceDirectory::Open(recording_);
  const TraceDirectory keeping = plain.KeepingOpen({"threads/"}, 1);
  Write("recording/threads/1/1.seg", "second");
  EXPECT_EQ(Text(keeping, "threads/1/0.seg"), "segment");
  EXPECT_EQ(Text(keeping, "threads/1/1.seg"), "second");
  EXPECT_EQ(Text(keeping, "manifest"), "root");
  for (const char* file : {"threads/1/0.seg", "threads/1/1.seg", "manifest"}) {
    fs::remove(recording_ + "/" + file);
  }
  const auto offset = [](const TraceDirectory& directory) {
    return lseek(directory.OpenFile("threads/1/0.seg")->get(), 0, SEEK_SET);
  };
  EXPECT_EQ(offset(keeping), 0);
  EXPECT_EQ(Text(keeping, "threads/1/0.seg"), "segment");
  EXPECT_EQ(Text(plain, "threads/1/0.seg"), "refused");
  EXPECT_EQ(Text(keeping, "threads/1/1.seg"), "refused");
  EXPECT_EQ(Text(keeping, "manifest"), "refused");
  // Another file of that name is another's.
  Write("recording/threads/1/0.seg", "new");
  EXPECT_EQ(Text(plain, "threads/1/0.seg"), "new");
  EXPECT_EQ(offset(keeping), 0);
  EXPECT_EQ(Text(keeping.Recording(), "threads/1/0.seg"), "segment");
}

TEST_F(TraceDirectoryTest, AChildKnowsItsRecording) {
  const TraceDirectory child = *TraceDirectory::Open(recording_ + "/processes/12");
  EXPECT_EQ(child.name(), "12");
  EXPECT_EQ(Text(child, "manifest"), "child");
  EXPECT_EQ(Text(child.Recording(), "manifest"), "root");
  EXPECT_EQ(Text(*child.Parent("../.."), "manifest"), "root");
  EXPECT_EQ(Text(*child.Parent("../12"), "manifest"), "child");
  EXPECT_EQ(child.ProcessNames(), std::vector<std::string>{"12"});
}

TEST_F(TraceDirectoryTest, WithoutARecordingAroundItAChildIsATraceOfItsOwn) {
  fs::remove(recording_ + "/manifest");
  const TraceDirectory directory = *TraceDirectory::Open(recording_ + "/processes/12");
  EXPECT_EQ(directory.name(), "");
  EXPECT_EQ(Text(directory, "manifest"), "child");
}

TEST_F(TraceDirectoryTest, NoNameInATraceLeadsOut) {
  const TraceDirectory directory = *TraceDirectory::Open(recording_);
  EXPECT_EQ(Text(directory, "../secret"), "refused");
  EXPECT_EQ(Text(directory, "threads/../../secret"), "refused");
  EXPECT_EQ(Text(directory, top_ + "/secret"), "refused");
  EXPECT_FALSE(directory.Parent("../..").ok());  // it has none
  const TraceDirectory child = *directory.Process("12");
  for (const char* parent : {".", "..", "../../..", "../../../other", "../", "../.", "../a/b", "",
                             "/etc", "../12/../../.."}) {
    EXPECT_TRUE(absl::IsDataLoss(child.Parent(parent).status())) << parent;
  }
  for (const char* name : {"", ".", "..", "a/b", "../.."}) {
    EXPECT_TRUE(absl::IsDataLoss(directory.Process(name).status())) << name;
  }
}

TEST_F(TraceDirectoryTest, LinksAreRefusedWhereverTheyAre) {
  fs::create_symlink("../secret", recording_ + "/events");
  fs::create_directory_symlink(top_, recording_ + "/full");
  fs::create_directory_symlink(top_, recording_ + "/processes/13");
  fs::create_symlink("manifest", recording_ + "/inside");
  const TraceDirectory directory = *TraceDirectory::Open(recording_);
  EXPECT_EQ(Text(directory, "events"), "refused");
  EXPECT_EQ(Text(directory, "full/secret"), "refused");
  EXPECT_EQ(Text(*directory.Process("13"), "secret"), "refused");
  EXPECT_EQ(Text(directory, "inside"), "refused");
  EXPECT_TRUE(directory.Entries("full").empty());
  EXPECT_EQ(directory.BytesUnder("full"), 0);
}

TEST_F(TraceDirectoryTest, TheUsersOwnPathMayBeALink) {
  fs::create_directory_symlink(recording_, top_ + "/link");
  EXPECT_EQ(Text(*TraceDirectory::Open(top_ + "/link"), "manifest"), "root");
}

TEST_F(TraceDirectoryTest, WhatIsOpenedStaysTheSameDirectory) {
  const TraceDirectory directory = *TraceDirectory::Open(recording_);
  fs::rename(recording_, top_ + "/elsewhere");
  Write("recording/manifest", "another");
  EXPECT_EQ(Text(directory, "manifest"), "root");
}

TEST_F(TraceDirectoryTest, ANamedPipeDoesNotHangTheReader) {
  ASSERT_EQ(mkfifo((recording_ + "/index").c_str(), 0600), 0);
  EXPECT_EQ(Text(*TraceDirectory::Open(recording_), "index"), "");
}

TEST_F(TraceDirectoryTest, OfNoTraceNothingIsFound) {
  EXPECT_FALSE(TraceDirectory().OpenFile("manifest").ok());
  EXPECT_TRUE(TraceDirectory().Entries("").empty());
  EXPECT_TRUE(absl::IsNotFound(TraceDirectory::Open(top_ + "/none").status()));
}

}  // namespace
}  // namespace hindsight
