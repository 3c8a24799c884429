#include "cli/gdb_process.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(TemporaryDirectoryTest, GoesWithItsContents) {
  std::string path;
  {
    auto directory = TemporaryDirectory::Create();
    ASSERT_TRUE(directory.ok()) << directory.status();
    path = directory->path();
    auto file = directory->WriteFile("script", "hello");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(std::filesystem::file_size(*file), 5);
    TemporaryDirectory moved = *std::move(directory);
    EXPECT_EQ(moved.path(), path);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

class RunChildTest : public ::testing::Test {
 protected:
  RunChildTest() { BlockChildSignals(); }
};

TEST_F(RunChildTest, ReturnsExitStatus) {
  EXPECT_EQ(RunChild({"true"}).value_or(-1), 0);
  EXPECT_EQ(RunChild({"sh", "-c", "exit 3"}).value_or(-1), 3);
}

TEST_F(RunChildTest, ReturnsSignal) {
  EXPECT_EQ(RunChild({"sh", "-c", "kill -9 $$"}).value_or(-1), 128 + 9);
}

TEST_F(RunChildTest, MissingProgramIsNotFound) {
  EXPECT_EQ(RunChild({"/no/such/program"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RunChildTest, InterruptsAreTheChilds) {
  // The child sends the interrupt to its parent, too, as a terminal would.
  EXPECT_EQ(RunChild({"sh", "-c", "kill -INT $PPID; exit 4"}).value_or(-1), 4);
}

TEST_F(RunChildTest, PassesOnTermination) {
  EXPECT_EQ(RunChild({"sh", "-c",
                      "trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.01; "
                      "done"})
                .value_or(-1),
            5);
}

}  // namespace
}  // namespace hindsight
