#include "recorder/process/program_lookup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

std::string WriteFile(const std::string& name, const std::string& bytes, mode_t mode) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << bytes;
  chmod(path.c_str(), mode);
  return path;
}

absl::StatusCode CodeFor(const std::string& program) {
  return LookUpProgram({program}).status().code();
}

TEST(ProgramLookupTest, SearchesPath) {
  auto command = LookUpProgram({"true", "x"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->path.substr(command->path.size() - 9), "/bin/true");
  EXPECT_EQ(command->arguments, (std::vector<std::string>{"true", "x"}));
}

TEST(ProgramLookupTest, MissingProgramIsNotFound) {
  EXPECT_EQ(CodeFor("no-such-program-at-all"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeFor("/no/such/file"), absl::StatusCode::kNotFound);
}

TEST(ProgramLookupTest, DirectoryAndPlainFileArePermissionDenied) {
  EXPECT_EQ(CodeFor("/tmp"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeFor(WriteFile("plain", "text", 0644)), absl::StatusCode::kPermissionDenied);
}

TEST(ProgramLookupTest, ForeignElfIsInvalid) {
  std::string header(
      "\x7f"
      "ELF\x01\x01\x01",
      7);
  header.resize(64);
  EXPECT_EQ(CodeFor(WriteFile("foreign", header, 0755)), absl::StatusCode::kInvalidArgument);
}

TEST(ProgramLookupTest, ScriptsAreLeftToTheKernelOrTheShell) {
  const std::string script = WriteFile("script", "#!/bin/sh\necho\n", 0755);
  EXPECT_EQ(LookUpProgram({script})->path, script);
  const std::string bare = WriteFile("bare", "echo $1\n", 0755);
  auto command = LookUpProgram({bare, "a"});
  EXPECT_EQ(command->path, "/bin/sh");
  EXPECT_EQ(command->arguments, (std::vector<std::string>{"/bin/sh", bare, "a"}));
}

}  // namespace
}  // namespace hindsight
