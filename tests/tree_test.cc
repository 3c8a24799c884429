// The shape of the source tree: which folder may include which, how large folders are, and that a
// type's name is defined once.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/harness/source_tree.h"

namespace hindsight::e2e {
namespace {

std::string Folder(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

using Arrows = std::map<std::string, std::set<std::string>>;

// What each folder may include besides itself and base/.
const Arrows& Allowed() {
  static const auto* allowed = new Arrows{
      {"base", {}},
      {"confine", {}},
      {"isa", {}},
      {"translator/runtime", {}},
      {"translator/host", {}},
      {"translator/guest", {"isa", "translator/host"}},
      {"translator", {"isa", "translator/runtime", "translator/host", "translator/guest"}},
      {"tracefmt/storage", {}},
      {"tracefmt/modules", {"tracefmt", "tracefmt/storage"}},
      {"tracefmt/ring", {"tracefmt", "tracefmt/storage", "tracefmt/modules"}},
      {"tracefmt/ranges", {"tracefmt", "tracefmt/storage"}},
      {"tracefmt/references", {"tracefmt", "tracefmt/storage"}},
      {"tracefmt",
       {"tracefmt/storage", "tracefmt/modules", "tracefmt/ring", "tracefmt/ranges",
        "tracefmt/references"}},
      {"emulator/view", {"tracefmt"}},
      {"emulator/assist", {"isa", "tracefmt"}},
      {"emulator/unicorn", {"isa", "tracefmt", "emulator/view"}},
      {"emulator/code", {"isa", "tracefmt", "emulator/view", "emulator/assist"}},
      {"emulator/cpu",
       {"isa", "tracefmt", "emulator/view", "emulator/assist", "emulator/code",
        "emulator/unicorn"}},
      {"emulator/calls", {"isa", "tracefmt", "emulator/code", "emulator/cpu"}},
      {"keyframes/state", {"tracefmt"}},
      {"keyframes/replay", {"isa", "tracefmt", "emulator/cpu", "keyframes/state"}},
      {"keyframes/memory", {"tracefmt", "keyframes/state", "keyframes/replay"}},
      {"keyframes/timeline",
       {"isa", "tracefmt", "emulator/cpu", "keyframes/state", "keyframes/replay",
        "keyframes/memory"}},
      {"keyframes/inspect", {"isa", "tracefmt", "keyframes/state", "keyframes/timeline"}},
      {"keyframes/verify",
       {"isa", "tracefmt", "emulator/cpu", "keyframes/state", "keyframes/replay"}},
      {"libhindsight", {}},
      {"recorder/pace", {}},
      {"recorder/snapshot/points",
       {"isa", "libhindsight", "recorder/process", "recorder/symbols", "recorder/ptrace/whole"}},
      {"recorder/snapshot",
       {"isa", "tracefmt", "tracefmt/ring", "recorder/pace", "recorder/process", "recorder/ptrace",
        "recorder/ptrace/whole", "recorder/ptrace/watch", "recorder/log", "recorder/symbols",
        "recorder/snapshot/points"}},
      {"recorder/restore",
       {"isa", "tracefmt", "recorder/process", "recorder/ptrace", "recorder/ptrace/watch",
        "recorder/ptrace/whole", "recorder/snapshot"}},
      {"recorder/syscalls", {"tracefmt"}},
      {"recorder/process", {"tracefmt"}},
      {"recorder/symbols", {"tracefmt", "emulator/calls", "recorder/process"}},
      {"recorder/ptrace", {"isa", "recorder/process", "recorder/syscalls"}},
      {"recorder/ptrace/whole",
       {"isa", "tracefmt", "recorder/process", "recorder/ptrace", "recorder/syscalls"}},
      {"recorder/ptrace/watch",
       {"isa", "recorder/process", "recorder/ptrace", "recorder/ptrace/whole"}},
      {"recorder/log", {"isa", "tracefmt", "tracefmt/modules", "recorder/process"}},
      {"recorder/translate/agent",
       {"libhindsight", "translator", "translator/runtime", "recorder/syscalls",
        "recorder/translate/base", "recorder/translate/filter", "recorder/translate/limits",
        "recorder/translate/stream", "recorder/translate/view"}},
      {"recorder/translate",
       {"isa", "translator", "translator/host", "tracefmt", "emulator/assist", "emulator/code",
        "recorder/process", "recorder/ptrace", "recorder/log", "recorder/session",
        "recorder/translate/base", "recorder/translate/guard", "recorder/translate/memo",
        "recorder/translate/stream", "recorder/snapshot/points"}},
      {"recorder/translate/base", {}},
      {"recorder/translate/guard",
       {"isa", "translator", "translator/host", "tracefmt", "recorder/translate/base"}},
      {"recorder/translate/memo",
       {"isa", "translator", "translator/host", "tracefmt", "recorder/translate/base"}},
      {"recorder/translate/stream",
       {"isa", "tracefmt", "recorder/syscalls", "recorder/process", "recorder/log"}},
      {"recorder/translate/filter", {}},
      {"recorder/translate/limits", {"recorder/translate/view"}},
      {"recorder/translate/view", {"recorder/translate/base", "recorder/translate/stream"}},
      {"recorder/session",
       {"isa", "tracefmt", "tracefmt/ring", "recorder/syscalls", "recorder/process",
        "recorder/symbols", "recorder/ptrace", "recorder/log", "recorder/snapshot",
        "recorder/snapshot/points"}},
      {"recorder/emulate/pager",
       {"tracefmt", "emulator/cpu", "recorder/syscalls", "recorder/process", "recorder/ptrace",
        "recorder/log"}},
      {"recorder/emulate/thread",
       {"isa", "tracefmt", "emulator/code", "emulator/cpu", "recorder/syscalls", "recorder/process",
        "recorder/ptrace"}},
      {"recorder/emulate/sync",
       {"isa", "tracefmt", "emulator/cpu", "recorder/syscalls", "recorder/ptrace", "recorder/log",
        "recorder/emulate/pager", "recorder/emulate/thread"}},
      {"recorder/emulate",
       {"isa", "tracefmt", "emulator/code", "emulator/cpu", "recorder/syscalls", "recorder/process",
        "recorder/ptrace", "recorder/log", "recorder/session", "recorder/emulate/pager",
        "recorder/emulate/thread", "recorder/emulate/sync", "recorder/snapshot/points"}},
      {"recorder/choice",
       {"isa", "recorder/process", "recorder/session", "recorder/translate",
        "recorder/translate/base"}},
      {"recorder",
       {"isa", "tracefmt", "keyframes/verify", "recorder/process", "recorder/ptrace",
        "recorder/log", "recorder/session", "recorder/choice", "recorder/emulate",
        "recorder/translate", "recorder/snapshot/points"}},
      {"server/rsp", {}},
      {"server/monitor",
       {"isa", "tracefmt", "keyframes/state", "keyframes/timeline", "keyframes/inspect"}},
      {"server/target",
       {"isa", "tracefmt", "emulator/cpu", "keyframes/state", "keyframes/timeline",
        "keyframes/inspect", "server/monitor"}},
      {"server/snapshots",
       {"isa", "tracefmt", "keyframes/state", "keyframes/inspect", "server/monitor",
        "server/target"}},
      {"server/session", {"server/rsp", "server/target"}},
      {"server", {"server/rsp", "server/target", "server/session"}},
      {"cli/info", {"cli", "isa", "tracefmt", "keyframes/state"}},
      {"cli",
       {"confine", "isa", "tracefmt", "emulator/unicorn", "keyframes/state", "keyframes/verify",
        "recorder", "recorder/session", "recorder/snapshot", "server", "server/session",
        "server/snapshots", "server/target", "cli/capture", "cli/info", "cli/running",
        "cli/snapshots", "cli/states"}},
      {"cli/snapshots",
       {"cli", "cli/capture", "cli/running", "cli/states", "tracefmt", "keyframes/state",
        "keyframes/inspect", "recorder", "recorder/restore", "recorder/session",
        "recorder/snapshot", "recorder/snapshot/points"}},
      {"cli/capture", {"cli", "recorder/snapshot"}},
      {"cli/running", {"cli", "tracefmt/ring"}},
      {"cli/states",
       {"cli", "isa", "tracefmt", "keyframes/state", "keyframes/timeline", "keyframes/inspect",
        "recorder/process", "recorder/symbols"}},
      {"bench", {}},
      {"bench/parallel", {"bench", "libhindsight"}},
      {"examples", {}},
  };
  return *allowed;
}

// What tests and their tools may include, by folder at the root.
const Arrows& AllowedToTests() {
  static const auto* allowed = new Arrows{
      {"base", {}},
      {"confine", {}},
      {"isa", {}},
      {"translator", {"isa", "emulator"}},
      {"tracefmt", {}},
      {"emulator", {"isa", "tracefmt"}},
      {"keyframes", {"isa", "tracefmt", "emulator"}},
      {"libhindsight", {}},
      {"recorder", {"isa", "libhindsight", "translator", "tracefmt", "emulator", "keyframes"}},
      {"server/rsp", {}},
      {"server", {"isa", "tracefmt", "emulator", "keyframes", "server/rsp"}},
      {"cli",
       {"confine", "isa", "tracefmt", "emulator", "keyframes", "recorder", "server", "server/rsp"}},
      {"tests", {"tracefmt"}},
      {"examples", {}},
  };
  return *allowed;
}

// Folders that only tests use, and files of tests in others.
bool IsForTests(const std::string& path) {
  static const std::set<std::string> kFolders = {"emulator/checks",
                                                 "keyframes/checks",
                                                 "keyframes/toys",
                                                 "keyframes/fuzz",
                                                 "recorder/testdata",
                                                 "tracefmt/samples",
                                                 "tracefmt/fuzz",
                                                 "translator/checks",
                                                 "recorder/translate/testdata",
                                                 "recorder/choice/testdata",
                                                 "libhindsight/testdata"};
  static const std::regex name(
      "(_test\\.cc|_fixture\\.(h|cc)|_fuzzer\\.cc)$|/(fake|gdb_client|"
      "session_client|memory_observer|true_process)[a-z_]*\\.(h|cc)$");
  return TopFolder(path) == "tests" || kFolders.count(Folder(path)) != 0 ||
         std::regex_search(path, name);
}

// The project's own headers that a file includes.
std::vector<std::string> Includes(const SourceFile& file) {
  static const std::regex include("^#include \"([^\"]+)\"");
  static const std::set<std::string> kSystem = {"absl", "benchmark", "gmock", "gtest"};
  std::vector<std::string> result;
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    if (kSystem.count(TopFolder(match[1])) == 0) result.push_back(match[1]);
  }
  return result;
}

TEST(TreeTest, IncludesPointOneWay) {
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".cc") && !absl::EndsWith(file.path, ".h")) continue;
    const bool test = IsForTests(file.path);
    // The codec is a library of its own, its tests too.
    auto place = [&](const std::string& path) {
      return test && Folder(path) != "server/rsp" ? TopFolder(path) : Folder(path);
    };
    const Arrows& arrows = test ? AllowedToTests() : Allowed();
    const auto rule = arrows.find(place(file.path));
    ASSERT_TRUE(rule != arrows.end()) << file.path << ": a folder without a rule";
    for (const std::string& included : Includes(file)) {
      const std::string to = place(included);
      EXPECT_TRUE(to == rule->first || to == "base" || rule->second.count(to) != 0)
          << file.path << " must not include " << included;
      EXPECT_TRUE(test || !IsForTests(included)) << file.path << " includes a test's " << included;
    }
  }
}

// What stops, continues and looks into another process lies in one folder; /proc/PID/mem is opened,
// and process_vm_readv called, in one file.
TEST(TreeTest, ProcessesAreControlledInOnePlace) {
  static const std::regex ptrace("\\bptrace\\((PTRACE_|request)|\\bWIFSTOPPED\\(");
  static const std::regex memory("\"/mem\"|/mem\"|\\bprocess_vm_(read|write)v\\b[^.]*;");
  for (const SourceFile& file : Sources()) {
    const std::string folder = Folder(file.path);
    if (TopFolder(file.path) != "recorder" || IsForTests(file.path)) continue;
    for (const std::string& line : file.lines) {
      EXPECT_TRUE(folder == "recorder/ptrace" || folder == "recorder/ptrace/whole" ||
                  folder == "recorder/ptrace/watch" || !std::regex_search(line, ptrace))
          << file.path << " calls ptrace: " << line;
      EXPECT_TRUE(file.path == "recorder/process/process_memory.cc" ||
                  !std::regex_search(line, memory))
          << file.path << " reads a process's memory by itself: " << line;
    }
  }
}

TEST(TreeTest, FoldersAreSmall) {
  std::map<std::string, int> files;
  for (const SourceFile& file : Sources()) {
    if (!absl::EndsWith(file.path, ".c")) ++files[Folder(file.path)];
  }
  for (const auto& [folder, count] : files) {
    EXPECT_LE(count, 40) << folder << " has too many source files: it has more than one purpose";
  }
}

// Two types of one name in one namespace, linked together, are undefined behaviour that no compiler
// reports.
TEST(TreeTest, TypesAreDefinedOnce) {
  static const std::regex opens("^namespace( [a-z_:0-9]+)? \\{$");
  static const std::regex closes("^\\}  // namespace");
  static const std::regex type(
      "^(class|struct|enum class|enum|using) ([A-Za-z0-9]+)( final)?( : [^;]*"
      "| =.*)?( \\{| =.*;)");
  std::map<std::string, std::string> defined;  // in which file
  for (const SourceFile& file : Sources()) {
    if (IsForTests(file.path) || absl::EndsWith(file.path, ".c")) continue;
    std::vector<std::string> spaces;
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (std::regex_search(line, match, opens)) {
        spaces.push_back(match[1].matched ? match[1].str() : "");
      } else if (std::regex_search(line, closes)) {
        if (!spaces.empty()) spaces.pop_back();
      } else if (!spaces.empty() && spaces.back() != "" && std::regex_search(line, match, type)) {
        const std::string name = spaces.back() + "::" + match[2].str();
        const auto [first, is_new] = defined.try_emplace(name, file.path);
        EXPECT_TRUE(is_new) << name << " is defined in " << first->second << " and " << file.path;
      }
    }
  }
  EXPECT_GT(defined.size(), 100u);
}

}  // namespace
}  // namespace hindsight::e2e
