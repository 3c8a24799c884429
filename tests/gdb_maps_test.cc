// The memory map that gdb shows, forward and backward, is what the program read of itself; and
// memory where there was something else before is shown as it is in the live program.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

const Recorded& Changes() {
  static const Recorded* recorded = new Recorded({Program("changing_maps")});
  return *recorded;
}

// What the program printed, map by map: of each region what gdb shows, too.
std::vector<std::vector<std::string>> Truth() {
  std::vector<std::vector<std::string>> maps;
  for (const absl::string_view text :
       absl::StrSplit(Changes().run().out, "\n\n", absl::SkipEmpty())) {
    std::vector<std::string>& map = maps.emplace_back();
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      const size_t name = line.find_first_of("/[");
      map.push_back(absl::StrCat(words[0], " ", words[1], " ", words[2], " ",
                                 name == absl::string_view::npos ? "" : line.substr(name)));
    }
  }
  return maps;
}

// "map" answers: the number of a map, and a region in the words of /proc/PID/maps.
constexpr char kSayMaps[] = R"(
python
import re
def say_maps(tag, command, first, step):
  number = first
  while run(command).startswith("breakpoint"):
    for text in gdb.execute("info proc mappings", to_string=True).split("\n"):
      line = re.match(r"\s*0x(\w+)\s+0x(\w+)\s+0x\w+\s+0x(\w+)\s+(\S+)\s*(.*)$", text)
      if line:
        start, end, offset, rights, name = line.groups()
        say(tag, "%d %08x-%08x %s %08x %s" % (number, int(start, 16), int(end, 16), rights,
                                              int(offset, 16), name.strip()))
    number += step
  say(tag + " maps", number)
end
)";

std::vector<std::string> Numbered(const std::vector<std::vector<std::string>>& maps,
                                  bool backward) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < maps.size(); ++i) {
    const size_t map = backward ? maps.size() - 1 - i : i;
    for (const std::string& region : maps[map]) {
      lines.push_back(absl::StrCat(map, " ", region));
    }
  }
  return lines;
}

TEST(GdbMapsTest, ProgramAndReplayAreExact) {
  EXPECT_EQ(Changes().run().Ending(), "exit 0") << Changes().run().err;
  ExpectExact(Changes().trace());
}

TEST(GdbMapsTest, MappingsAreThoseOfTheLiveProgramBothWays) {
  const std::vector<std::vector<std::string>> truth = Truth();
  ASSERT_EQ(truth.size(), 9u);
  ASSERT_GT(truth.back().size(), 150u);
  const GdbResult gdb =
      RunGdb(Changes().trace(),
             absl::Substitute(
                 R"(
$0
break $1
python say_maps("forward", "continue", 0, 1)
python say_maps("backward", "reverse-continue", $2, -1)
)",
                 kSayMaps,
                 absl::StrCat("changing_maps.c:", LineOf("changing_maps.c", "// maps were read")),
                 truth.size() - 1));
  EXPECT_EQ(gdb.Answers("forward"), Numbered(truth, /*backward=*/false));
  EXPECT_EQ(gdb.Answers("backward"), Numbered(truth, /*backward=*/true));
}

// "TAG" answers after each step: its number, and of all pages the first bytes, or that they cannot
// be read.
constexpr char kLook[] = R"(
break stopped
python
def page(address):
    try: return bytes(gdb.selected_inferior().read_memory(address, 70)).hex()
    except gdb.MemoryError: return "none"
def look(tag, command):
    while run(command).startswith("breakpoint"):
        pages = [int(gdb.parse_and_eval("(long)area")) + i * 4096 for i in range(12)]
        pages += [int(gdb.parse_and_eval("(long)heap")) + i * 4096 for i in range(4)]
        say(tag, value("step") + " " + " ".join(page(address) for address in pages))
end
)";

// The engine that emulates does not know what other threads have not given back yet: then a page
// cannot be read. What is shown is true.
void ExpectPages(const std::vector<std::string>& seen, const std::vector<std::string>& truth) {
  ASSERT_EQ(seen.size(), truth.size());
  for (size_t step = 0; step < truth.size(); ++step) {
    const std::vector<std::string> pages = absl::StrSplit(seen[step], ' ');
    const std::vector<std::string> expected = absl::StrSplit(truth[step], ' ');
    ASSERT_EQ(pages.size(), expected.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      if (Engine() == TestedEngine::kEmulate && pages[i] == "none") continue;
      EXPECT_EQ(pages[i], expected[i]) << "step " << expected[0] << ", page " << i - 1;
    }
  }
}

void ExpectShownAsLive(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {Program("replaced_memory")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const std::string look = kLook;
  const GdbResult live = RunGdbOnProgram(argv, look + "python look(\"live\", \"continue\")\n");
  const Recorded recorded(argv, {}, flags);
  ExpectExact(recorded.trace());
  const GdbResult gdb = RunGdb(recorded.trace(), look + R"(
python look("forward", "continue")
python look("backward", "reverse-continue")
)");
  const std::vector<std::string> truth = live.Answers("live");
  std::vector<std::string> backward = gdb.Answers("backward");
  std::reverse(backward.begin(), backward.end());
  ASSERT_EQ(truth.size(), 100u) << live.text;
  ExpectPages(gdb.Answers("forward"), truth);
  ExpectPages(backward, truth);
}

TEST(GdbReplacedMemoryTest, IsShownAsItIsInAProgramOfOneThread) {
  for (const char* const seed : {"1", "2"}) {
    SCOPED_TRACE(seed);
    ExpectShownAsLive({seed, "100"}, {});
    ExpectShownAsLive({seed, "100"}, {"--light-keyframe-interval=3000"});
  }
}

TEST(GdbReplacedMemoryTest, IsShownAsItIsWhereThreadsReplaceItInTurn) {
  for (const char* const seed : {"4", "5"}) {
    SCOPED_TRACE(seed);
    ExpectShownAsLive({seed, "100", "threads"}, {});
    ExpectShownAsLive({seed, "100", "threads"}, {"--light-keyframe-interval=3000"});
    ExpectShownAsLive({seed, "100", "threads"}, {"--full-keyframe-interval=60000"});
  }
}

}  // namespace
}  // namespace hindsight::e2e
