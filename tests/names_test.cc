// Names that contain terminal commands, or that are not text at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

// A path and an argument with the same bytes as the threads' names.
const std::string& Directory() {
  static const auto* directory = new TempDir;
  return directory->path();
}

const Recorded& Wild() {
  static const Recorded* recorded = [] {
    const std::string program = Directory() + "/\033[32mwild\377\n";
    std::filesystem::copy_file(Program("wild_names"), program);
    return new Recorded({program, "\033[1margument\302\233\200"});
  }();
  return *recorded;
}

// Nothing but printable text and line ends.
void ExpectHarmless(const std::string& text) {
  const auto bad = std::find_if(text.begin(), text.end(), [](unsigned char c) {
    return c == 0x7f || (c < 0x20 && c != '\n' && c != '\t');
  });
  EXPECT_EQ(bad, text.end()) << "control byte " << int{*bad} << " at " << bad - text.begin();
  for (const char* sequence : {"\302\233", "\342\200\256", "\377", "\200\303"}) {
    EXPECT_EQ(text.find(sequence), std::string::npos) << sequence;
  }
}

void ExpectJson(const std::string& text, const std::string& lines) {
  ChildOptions options;
  options.input = text;
  const std::string program =
      lines.empty() ? "import json,sys; json.load(sys.stdin)"
                    : "import json,sys; [json.loads(l) for l in sys.stdin.buffer if l.strip()]";
  const ChildResult python = RunProcess({"python3", "-c", program}, options);
  EXPECT_EQ(python.Ending(), "exit 0") << python.err;
}

TEST(NamesTest, CommandsPrintThemHarmlessly) {
  const std::string& trace = Wild().trace();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"info", "--threads", trace},
        {"dump", trace},
        {"verify", trace},
        {"info", trace, "-p", "no\033such"},
        {"info", "\033[31m/nowhere\377"},
        {"record", "-o", Directory() + "/none", "--", "/no\033[31msuch\377"}}) {
    const ChildResult result = RunHindsight(command);
    ExpectHarmless(result.out);
    ExpectHarmless(result.err);
  }
  EXPECT_THAT(RunHindsight({"info", "--threads", trace}).out, HasSubstr("\\x1b[31mred"));
  EXPECT_THAT(RunHindsight({"info", "--threads", trace}).out, HasSubstr("\\xff\\xfe\\x80\\xc3("));
}

TEST(NamesTest, JsonIsJson) {
  const std::string& trace = Wild().trace();
  ExpectJson(RunHindsight({"info", "--threads", "--json", trace}).out, "");
  ExpectJson(RunHindsight({"verify", "--json", trace}).out, "");
  ExpectJson(RunHindsight({"dump", "--json", trace}).out, "lines");
}

TEST(NamesTest, GdbListsTheThreads) {
  const Recorded recorded({Program("wild_names"), "\033[1margument\302\233\200"});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
set pagination off
break all_named
continue
info threads
monitor threads
monitor info
monitor processes
monitor events 40 thread
python say("threads", len(gdb.selected_inferior().threads()))
python threads = gdb.selected_inferior().threads()
python say("names", sorted(t.name for t in threads if "wild" not in t.name))
)");
  EXPECT_EQ(gdb.Answer("threads"), "5");
  EXPECT_THAT(gdb.Answer("names"), HasSubstr("xff"));
  EXPECT_THAT(gdb.text, HasSubstr("\\x1b[31mred"));
  EXPECT_THAT(gdb.text, HasSubstr("<&\"'>\\x01"));
}

}  // namespace
}  // namespace hindsight::e2e
