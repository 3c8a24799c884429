// The sources of the project, for tests that check its style and structure.
//
// Read once; any thread.

#ifndef HINDSIGHT_TESTS_HARNESS_SOURCE_TREE_H_
#define HINDSIGHT_TESTS_HARNESS_SOURCE_TREE_H_

#include <filesystem>
#include <string>
#include <vector>

namespace hindsight::e2e {

struct SourceFile {
  std::string path;  // relative to the root of the tree
  std::string text;
  std::vector<std::string> lines;
};

// Where the sources are: runfiles are links to them.
std::filesystem::path SourceRoot();

// The folders at the root that hold sources or documentation.
const std::vector<std::string>& TopFolders();

// All C, C++ and Python sources in them.
const std::vector<SourceFile>& Sources();

// "emulator" of "emulator/cpu/cpu.h".
std::string TopFolder(const std::string& path);

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_HARNESS_SOURCE_TREE_H_
