// Whom a recording can be read by, and where it is not written.

#include "tracefmt/storage/output_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr uid_t kSomebodyElse = 12345;

mode_t ModeOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

StatusCode CreateAt(const std::string& path) {
  return OutputDirectory::Create(path).status().code();
}

class OutputDirectoryTest : public testing::Test {
 protected:
  OutputDirectoryTest() {
    const char* parent = getenv("TEST_TMPDIR");
    base_ = std::string(parent == nullptr ? "/tmp" : parent) + "/output.XXXXXX";
    EXPECT_NE(mkdtemp(base_.data()), nullptr);
    mask_ = umask(0);  // as unfavourable as can be
  }
  ~OutputDirectoryTest() override {
    umask(mask_);
    fs::remove_all(base_);
  }

  std::string Path(const std::string& name) const { return base_ + "/" + name; }
  void MakeDirectory(const std::string& name, mode_t mode) const {
    ASSERT_EQ(mkdir(Path(name).c_str(), mode), 0);
    ASSERT_EQ(chmod(Path(name).c_str(), mode), 0);
  }
  // False where only the administrator may do so.
  bool GiveAway(const std::string& name) const {
    return chown(Path(name).c_str(), kSomebodyElse, kSomebodyElse) == 0;
  }

  std::string base_;
  mode_t mask_ = 0;
};

TEST_F(OutputDirectoryTest, NobodyElseCanReadAnythingOfARecording) {
  WriteSampleTrace(Path("trace"));
  EXPECT_EQ(ModeOf(Path("trace")), 0700);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Path("trace"))) {
    const bool directory = entry.is_directory();
    files += directory ? 0 : 1;
    EXPECT_EQ(ModeOf(entry.path()), directory ? 0700 : 0600) << entry.path();
  }
  EXPECT_GT(files, 10);
}

TEST_F(OutputDirectoryTest, AnEmptyDirectoryOfOursIsTakenAndClosedToOthers) {
  MakeDirectory("empty", 0777);
  EXPECT_EQ(CreateAt(Path("empty/")), StatusCode::kOk);
  EXPECT_EQ(ModeOf(Path("empty")), 0700);
  EXPECT_EQ(CreateAt(Path("made")), StatusCode::kOk);
  EXPECT_EQ(ModeOf(Path("made")), 0700);
}

TEST_F(OutputDirectoryTest, WhatIsInUseIsRefused) {
  MakeDirectory("full", 0777);
  MakeDirectory("full/something", 0777);
  EXPECT_EQ(CreateAt(Path("full")), StatusCode::kAlreadyExists);
  EXPECT_EQ(ModeOf(Path("full")), 0777);
  EXPECT_EQ(CreateAt("/"), StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateAt(Path("none/of/this")), StatusCode::kNotFound);
}

TEST_F(OutputDirectoryTest, LinksInItsPlaceAreNotFollowed) {
  MakeDirectory("target", 0700);
  fs::create_directory_symlink("target", Path("link"));
  fs::create_symlink("nowhere", Path("dangling"));
  EXPECT_FALSE(OutputDirectory::Create(Path("link")).ok());
  EXPECT_FALSE(OutputDirectory::Create(Path("link/")).ok());
  EXPECT_FALSE(OutputDirectory::Create(Path("dangling")).ok());
  EXPECT_TRUE(fs::is_empty(Path("target")));
}

TEST_F(OutputDirectoryTest, DirectoriesOfOthersAreRefused) {
  MakeDirectory("theirs", 0777);
  if (!GiveAway("theirs")) GTEST_SKIP() << "only root can give a directory away";
  EXPECT_EQ(CreateAt(Path("theirs")), StatusCode::kPermissionDenied);
  EXPECT_TRUE(fs::is_empty(Path("theirs")));
}

TEST_F(OutputDirectoryTest, InADirectoryThatEverybodyMayChangeItNeedsTheStickyBit) {
  MakeDirectory("open", 0777);
  MakeDirectory("sticky", 01777);
  MakeDirectory("ours", 0777);
  if (!GiveAway("open") || !GiveAway("sticky")) GTEST_SKIP() << "only root can do this";
  EXPECT_EQ(CreateAt(Path("open/trace")), StatusCode::kPermissionDenied);
  EXPECT_TRUE(fs::is_empty(Path("open")));
  EXPECT_EQ(CreateAt(Path("sticky/trace")), StatusCode::kOk);
  EXPECT_EQ(CreateAt(Path("ours/trace")), StatusCode::kOk);
}

TEST_F(OutputDirectoryTest, FilesAreNewAndLinksAreNotFollowed) {
  const auto directory = OutputDirectory::Create(Path("trace"));
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE(directory->MakeDirectory("a").ok());
  EXPECT_EQ(directory->MakeDirectory("a").code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(directory->In("a").CreateFile("file").ok());
  EXPECT_EQ(directory->CreateFile("a/file").status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(directory->OpenFile("a/file").ok());
  fs::create_symlink("file", Path("trace/a/link"));
  fs::create_symlink("nowhere", Path("trace/a/dangling"));
  fs::create_directory_symlink("a", Path("trace/b"));
  EXPECT_FALSE(directory->OpenFile("a/link").ok());
  EXPECT_FALSE(directory->CreateFile("a/dangling").ok());
  EXPECT_FALSE(directory->CreateFile("b/new").ok());
  EXPECT_FALSE(directory->OpenFile("b/file").ok());
  EXPECT_FALSE(directory->In("b").MakeDirectory("new").ok());
  EXPECT_TRUE(directory->Rename("a/file", "a/renamed").ok());
  EXPECT_TRUE(directory->Remove("a/renamed"));
  EXPECT_FALSE(directory->Remove("b/link"));
}

TEST_F(OutputDirectoryTest, FilesAskedForLatelyStayOpen) {
  const auto directory = OutputDirectory::Create(Path("trace"));
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE(directory->MakeDirectory("a").ok());
  EXPECT_FALSE(directory->OpenRecent("a/file").ok());
  ASSERT_TRUE(directory->CreateFile("a/file").ok());
  const auto file = directory->OpenRecent("a/file");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*directory->In("a").OpenRecent("file"), *file);
  // Until many others have been.
  for (int i = 0; i < 100; ++i) {
    const std::string name = "a/" + std::to_string(i);
    ASSERT_TRUE(directory->CreateFile(name).ok());
    ASSERT_TRUE(directory->OpenRecent(name).ok());
  }
  EXPECT_NE(*directory->OpenRecent("a/file"), *file);
}

TEST_F(OutputDirectoryTest, WhatIsRenamedOrRemovedIsNotTakenForWhatIsThereThen) {
  const auto directory = OutputDirectory::Create(Path("trace"));
  ASSERT_TRUE(directory.ok());
  const auto inode_of = [](const RecentFiles::File& file) {
    struct stat status = {};
    EXPECT_EQ(fstat(file->get(), &status), 0);
    return status.st_ino;
  };
  ASSERT_TRUE(directory->CreateFile("old").ok());
  ASSERT_TRUE(directory->CreateFile("new").ok());
  const auto old_file = directory->OpenRecent("old"), new_file = directory->OpenRecent("new");
  ASSERT_TRUE(old_file.ok() && new_file.ok());
  ASSERT_TRUE(directory->Rename("new", "old").ok());
  const auto renamed = directory->OpenRecent("old");
  ASSERT_TRUE(renamed.ok());
  EXPECT_EQ(inode_of(*renamed), inode_of(*new_file));
  EXPECT_FALSE(directory->OpenRecent("new").ok());
  EXPECT_TRUE(directory->Remove("old"));
  EXPECT_FALSE(directory->OpenRecent("old").ok());
  ASSERT_TRUE(directory->CreateFile("old").ok());
  ASSERT_TRUE(directory->OpenRecent("old").ok());
  ASSERT_TRUE(directory->Delete("old").ok());
  EXPECT_FALSE(directory->OpenRecent("old").ok());
}

// A process may have only so many descriptors: those that are not needed are given up.
TEST_F(OutputDirectoryTest, FilesThatStayOpenAreInNobodysWay) {
  const auto directory = OutputDirectory::Create(Path("trace"));
  ASSERT_TRUE(directory.ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(directory->CreateFile(std::to_string(i)).ok());
    ASSERT_TRUE(directory->OpenRecent(std::to_string(i)).ok());
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd last(dup(STDERR_FILENO));  // after theirs
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  const auto opened = directory->CreateFile("new");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(opened.ok()) << opened.status();
}

// Somebody renames the recording's directory and puts another one in its place.
TEST_F(OutputDirectoryTest, WhatTakesItsPlaceGetsNothing) {
  auto writer = TraceWriter::Create(Path("trace"), SampleManifest());
  ASSERT_TRUE(writer.ok()) << writer.status();
  fs::rename(Path("trace"), Path("elsewhere"));
  MakeDirectory("trace", 0700);
  MakeDirectory("trace/threads", 0700);
  ASSERT_TRUE((*writer)->BeginSegment(kThread, 0, 0, 0, SampleRegisters()).ok());
  ASSERT_TRUE((*writer)->Append(kThread, {5, SegmentEnd{SampleRegisters(5)}}).ok());
  ASSERT_TRUE((*writer)->CreateChild(SampleManifest()).ok());
  Manifest end = SampleManifest();
  end.state = TraceState::kComplete;
  ASSERT_TRUE((*writer)->Finish(end).ok());
  EXPECT_TRUE(fs::is_empty(Path("trace/threads")));
  EXPECT_FALSE(fs::exists(Path("trace/manifest")));
  EXPECT_TRUE(fs::exists(Path("elsewhere/threads/1/0.seg")));
  EXPECT_TRUE(fs::exists(Path("elsewhere/processes/4711/manifest")));
}

}  // namespace
}  // namespace hindsight
