#include "cli/trace_path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

class TracePathTest : public ::testing::Test {
 protected:
  TracePathTest() : directory_(testing::TempDir() + "trace_path_test") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  ~TracePathTest() override { std::filesystem::remove_all(directory_); }

  void MakeTrace(const std::string& name, int64_t time_s) {
    std::filesystem::create_directory(directory_ + "/" + name);
    std::string manifest = directory_ + "/" + name + "/manifest";
    std::ofstream(manifest) << "x";
    timespec times[2] = {{time_s, 0}, {time_s, 0}};
    utimensat(AT_FDCWD, manifest.c_str(), times, 0);
  }

  std::string directory_;
};

TEST_F(TracePathTest, NewPathTakesLowestFreeNumber) {
  EXPECT_EQ(NewTracePath(directory_, "/bin/ls"), directory_ + "/ls-0.hindsight");
  MakeTrace("ls-0.hindsight", 1);
  MakeTrace("ls-2.hindsight", 1);
  EXPECT_EQ(NewTracePath(directory_, "/bin/ls"), directory_ + "/ls-1.hindsight");
}

TEST_F(TracePathTest, NewestByTimeNotByName) {
  MakeTrace("a.hindsight", 30);
  MakeTrace("b.hindsight", 20);
  auto newest = NewestTrace(directory_);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(*newest, directory_ + "/a.hindsight");
}

TEST_F(TracePathTest, NothingThereIsNotFound) {
  std::filesystem::create_directory(directory_ + "/empty.hindsight");
  EXPECT_EQ(NewestTrace(directory_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(NewestTrace(directory_ + "/nowhere").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight
