// The rules of the house that a program can check, on every file of the source tree.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/source_tree.h"

namespace hindsight::e2e {
namespace {

namespace fs = std::filesystem;

TEST(StyleTest, TreeIsFound) { EXPECT_GT(Sources().size(), 50u); }

TEST(StyleTest, EveryFolderIsLookedAt) {
  const std::set<std::string> looked_at(TopFolders().begin(), TopFolders().end());
  for (const auto& entry : fs::directory_iterator(SourceRoot())) {
    if (entry.is_symlink() || !fs::exists(entry.path() / "BUILD.bazel")) continue;
    EXPECT_EQ(looked_at.count(entry.path().filename()), 1u) << entry.path();
  }
}

TEST(StyleTest, FilesAreShort) {
  for (const SourceFile& file : Sources()) {
    EXPECT_LE(file.lines.size(), 501u) << file.path << " has more than 500 lines: split it";
  }
}

TEST(StyleTest, LinesFitAndEndCleanly) {
  for (const SourceFile& file : Sources()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const std::string where = absl::StrCat(file.path, ":", i + 1);
      EXPECT_LE(line.size(), 100u) << where;
      EXPECT_EQ(line.find('\t'), std::string::npos) << where << " has a tab";
      EXPECT_TRUE(line.empty() || !absl::ascii_isspace(line.back())) << where << " ends in a space";
    }
    EXPECT_TRUE(absl::EndsWith(file.text, "\n")) << file.path;
    EXPECT_FALSE(absl::EndsWith(file.text, "\n\n")) << file.path << " ends in an empty line";
  }
}

TEST(StyleTest, NothingIsLeftForLater) {
  // Written in two parts, so that this file passes.
  const std::regex later(absl::StrCat("\\b(TO", "DO|FIX", "ME|XX", "X)\\b"));
  for (const SourceFile& file : Sources()) {
    EXPECT_FALSE(std::regex_search(file.text, later)) << file.path;
  }
}

TEST(StyleTest, HeaderGuardsAreNamedAfterThePath) {
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".h")) continue;
    std::string guard = absl::AsciiStrToUpper(absl::StrCat("hindsight_", file.path, "_"));
    for (char& c : guard) {
      if (!absl::ascii_isalnum(c)) c = '_';
    }
    EXPECT_NE(file.text.find(absl::StrCat("#ifndef ", guard, "\n#define ", guard, "\n")),
              std::string::npos)
        << file.path << " wants " << guard;
    EXPECT_TRUE(absl::EndsWith(file.text, absl::StrCat("#endif  // ", guard, "\n"))) << file.path;
  }
}

TEST(StyleTest, HeadersOpenWithWhatTheyAreFor) {
  for (const SourceFile& file : Sources()) {
    if (absl::EndsWith(file.path, ".h")) {
      EXPECT_TRUE(absl::StartsWith(file.text, "// ")) << file.path;
    }
  }
}

// Each system library is included by one folder.
TEST(StyleTest, LibrariesStayBehindTheirFolders) {
  const std::map<std::string, std::set<std::string>> home = {{"unicorn", {"emulator"}},
                                                             {"capnp", {"tracefmt"}},
                                                             {"kj", {"tracefmt"}},
                                                             {"zstd.h", {"tracefmt"}},
                                                             {"nlohmann", {"cli"}}};
  const std::regex include("^#include [<\"]([^>\"/]+)");
  for (const SourceFile& file : Sources()) {
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const auto rule = home.find(match[1]);
      if (rule == home.end()) continue;
      EXPECT_TRUE(rule->second.count(TopFolder(file.path)) != 0) << file.path << ": " << line;
    }
  }
}

TEST(StyleTest, NoExceptionsOfOurOwn) {
  const std::regex throws("^[^/\"]*\\bthrow\\b");
  for (const SourceFile& file : Sources()) {
    // Programs that tests run may do what programs do.
    if (absl::EndsWith(file.path, ".py") || absl::StrContains(file.path, "/testdata/")) continue;
    for (const std::string& line : file.lines) {
      EXPECT_FALSE(std::regex_search(line, throws)) << file.path << ": " << line;
    }
  }
}

TEST(StyleTest, FoldersAreIntroducedInFewLines) {
  std::set<std::string> folders(TopFolders().begin(), TopFolders().end());
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".h")) continue;
    folders.insert(fs::path(file.path).parent_path());
  }
  for (const std::string& folder : folders) {
    const std::string text = ReadFile(SourceRoot() / folder / "README.md");
    EXPECT_NE(text, "") << folder << " has no README.md";
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30) << folder;
  }
}

TEST(StyleTest, LinksBetweenDocumentsLeadSomewhere) {
  const std::regex link("\\]\\(([^)#:]+)(#[^)]*)?\\)");
  for (const auto& entry : fs::recursive_directory_iterator(SourceRoot())) {
    const std::string path = fs::relative(entry.path(), SourceRoot());
    if (entry.path().extension() != ".md" || path[0] == '.' ||
        TopFolder(path).find("bazel-") == 0) {
      continue;
    }
    const std::string text = ReadFile(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(entry.path().parent_path() / (*it)[1].str()))
          << path << " links to " << (*it)[1];
    }
  }
}

TEST(StyleTest, SourcesAreFormatted) {
  if (RunProcess({"clang-format", "--version"}).Ending() != "exit 0") {
    GTEST_SKIP() << "clang-format is not installed (./setup --dev)";
  }
  std::vector<std::string> argv = {"clang-format", "--dry-run", "--Werror"};
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".py")) argv.push_back(file.path);
  }
  ChildOptions options;
  options.directory = SourceRoot();
  const ChildResult result = RunProcess(argv, options);
  std::set<std::string> wrong;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(result.err, '\n'))) {
    if (absl::StrContains(line, "error:")) wrong.insert(line.substr(0, line.find(':')));
  }
  EXPECT_TRUE(wrong.empty()) << "run clang-format -i " << absl::StrJoin(wrong, " ");
}

}  // namespace
}  // namespace hindsight::e2e
