#include "tests/harness/source_tree.h"

#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {

namespace fs = std::filesystem;

fs::path SourceRoot() { return fs::canonical(Runfile("WORKSPACE")).parent_path(); }

const std::vector<std::string>& TopFolders() {
  static const auto* folders = new std::vector<std::string>{
      "base",     "bench",       "cli",       "confine",      "docs",     "emulator",
      "examples", "isa",         "keyframes", "libhindsight", "recorder", "server",
      "tests",    "third_party", "tracefmt",  "translator"};
  return *folders;
}

const std::vector<SourceFile>& Sources() {
  static const auto* sources = [] {
    auto* result = new std::vector<SourceFile>;
    for (const std::string& folder : TopFolders()) {
      for (const auto& entry : fs::recursive_directory_iterator(SourceRoot() / folder)) {
        static const std::set<std::string> kExtensions = {".cc", ".h", ".c", ".py"};
        if (!entry.is_regular_file() || kExtensions.count(entry.path().extension()) == 0) continue;
        SourceFile file;
        file.path = fs::relative(entry.path(), SourceRoot());
        file.text = ReadFile(entry.path());
        file.lines = absl::StrSplit(file.text, '\n');
        result->push_back(std::move(file));
      }
    }
    return result;
  }();
  return *sources;
}

std::string TopFolder(const std::string& path) { return path.substr(0, path.find('/')); }

}  // namespace hindsight::e2e
