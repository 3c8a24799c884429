// Memory that the kernel, another thread or another process has written and the program has not
// touched since: as it was, or unavailable, never as it was before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

const Recorded& Writes() {
  static const Recorded* recorded = new Recorded({Program("kernel_writes")});
  return *recorded;
}

std::string At(const std::string& marker) {
  return absl::StrCat("kernel_writes.c:", LineOf("kernel_writes.c", marker));
}

// Says for each stop in checked() what the program is about to print.
constexpr char kTellWhatIsThere[] = R"(
python
def tell(command):
  lines = []
  while run(command).startswith("breakpoint"):
    name, size = value("(char*)name"), int(value("size"))
    at = int(gdb.parse_and_eval("(long)bytes"))
    try:
      memory = bytes(gdb.selected_inferior().read_memory(at, size)).hex()
    except gdb.MemoryError:
      memory = "unavailable"
    lines.append(name.split('"')[1] + " " + memory)
  return lines
end
)";

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(GdbKernelWritesTest, ProgramAndReplayAreExact) {
  EXPECT_EQ(Writes().run().Ending(), "exit 0") << Writes().run().err;
  ExpectExact(Writes().trace());
}

TEST(GdbKernelWritesTest, EveryCallsOutputsBothWays) {
  const GdbResult gdb =
      RunGdb(Writes().trace(), absl::Substitute(R"(
$1
break $0
python for line in tell("continue"): say("forward", line)
python for line in reversed(tell("reverse-continue")): say("backward", line)
)",
                                                At("// before looking"), kTellWhatIsThere));
  const std::vector<std::string> truth = Lines(Writes().run().out);
  ASSERT_GT(truth.size(), 30u);
  EXPECT_EQ(gdb.Answers("forward"), truth);
  EXPECT_EQ(gdb.Answers("backward"), truth);
}

TEST(GdbKernelWritesTest, EachChunkOfALoopIsItsOwn) {
  const GdbResult gdb = RunGdb(Writes().trace(), absl::Substitute(R"(
handle SIGUSR1 nostop noprint pass
break $0
python say("chunks", collect("continue", "chunk[6] - 48"))
)",
                                                                  At("// a chunk was read")));
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    // The last digit of the number of the line.
    absl::StrAppend(&expected, i == 0 ? "" : " ", i % 10);
  }
  EXPECT_EQ(gdb.Answer("chunks"), expected) << gdb.text;
}

TEST(GdbKernelWritesTest, ReverseWatchFindsTheCallThatWrote) {
  const GdbResult gdb = RunGdb(Writes().trace(), absl::Substitute(R"(
break $0
continue
delete
watch area[5000]
python say("stop", run("reverse-continue"))
python
frame = gdb.newest_frame()
while frame.name() != "watched": frame = frame.older()
say("line", frame.find_sal().line)
end
python say("before", value("area[5000]"))
python say("again", run("continue"))
python say("after", value("area[5000]"))
)",
                                                                  At("// long after")));
  EXPECT_EQ(gdb.Answer("line"), absl::StrCat(LineOf("kernel_writes.c", "// the writer")))
      << gdb.text;
  EXPECT_EQ(gdb.Answer("before"), "97 'a'") << gdb.text;
  EXPECT_EQ(gdb.Answer("after"), "48 '0'") << gdb.text;
}

// Which the kernel has moved: it is known from where it was.
TEST(GdbKernelWritesTest, MovedMemoryIsShownBeforeItIsUsed) {
  const Recorded recorded({Program("moved_memory")});
  ExpectExact(recorded.trace());
  const auto line = [](const char* marker) {
    return absl::StrCat("moved_memory.c:", LineOf("moved_memory.c", marker));
  };
  const GdbResult gdb =
      RunGdb(recorded.trace(), absl::Substitute(R"(
break $0
break $1
continue
python say("moved", value("moved"))
python say("second page", value("moved + 4096"))
continue
python say("changed", value("moved"))
delete
watch *(int*)moved
python say("stop", run("reverse-continue"))
python say("before", value("moved"))
)",
                                                line("// moved"), line("// changed")));
  EXPECT_THAT(gdb.Answer("moved"), HasSubstr("filled before the move")) << gdb.text;
  EXPECT_THAT(gdb.Answer("second page"), HasSubstr("filled as well"));
  EXPECT_THAT(gdb.Answer("changed"), HasSubstr("changed"));
  EXPECT_EQ(gdb.Answer("stop"), "breakpoint 3");  // the watchpoint
  EXPECT_THAT(gdb.Answer("before"), HasSubstr("filled before the move"));
}

// gdb's prologue analysis of code without symbols asks for such addresses.
TEST(GdbKernelWritesTest, TheEndOfTheAddressSpaceIsNotThere) {
  const GdbResult gdb = RunGdb(Writes().trace(), R"(
monitor goto 50%
python
def reading(address, size):
    try:
        gdb.selected_inferior().read_memory(address, size)
        return "there"
    except gdb.MemoryError:
        return "not there"
end
python say("within", reading(0xffffffffffffff98, 9))
python say("last", reading(0xfffffffffffffff8, 8))
python say("around", reading(0xffffffffffffeff8, 0x1000))
)");
  EXPECT_EQ(gdb.Answer("within"), "not there") << gdb.text;
  EXPECT_EQ(gdb.Answer("last"), "not there");
  EXPECT_EQ(gdb.Answer("around"), "not there");
}

TEST(GdbKernelWritesTest, OmittedBulkIsUnavailable) {
  SKIP_IF_TRANSLATED("it omits nothing");
  const Recorded omitted({Program("kernel_writes")}, {}, {"--omit-bulk=1000"});
  ExpectExact(omitted.trace());
  const GdbResult gdb =
      RunGdb(omitted.trace(), absl::Substitute(R"(
$1
break $0
python for line in tell("continue"): say("forward", line)
)",
                                               At("// before looking"), kTellWhatIsThere));
  const std::vector<std::string> truth = Lines(omitted.run().out);
  const std::vector<std::string> shown = gdb.Answers("forward");
  ASSERT_EQ(shown.size(), truth.size()) << gdb.text;
  int unavailable = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (absl::StrContains(shown[i], "unavailable")) {
      ++unavailable;
    } else {
      EXPECT_EQ(shown[i], truth[i]);
    }
  }
  EXPECT_GT(unavailable, 1);
  EXPECT_LT(unavailable, 4);
}

TEST(GdbKernelWritesTest, ReverseWatchSaysWhatItCouldNotSee) {
  SKIP_IF_TRANSLATED("it omits nothing");
  const Recorded omitted({Program("kernel_writes")}, {}, {"--omit-bulk=1000"});
  const GdbResult gdb = RunGdb(omitted.trace(), absl::Substitute(R"(
break $0
continue
delete
watch area[5000]
python
where = []
for i in range(3):
  run("reverse-continue")
  frame = gdb.newest_frame()
  while frame.name() not in ("watched", "files", "main"): frame = frame.older()
  try: shown = value("area[5000]")
  except gdb.MemoryError: shown = "unavailable"
  where.append("%s:%s" % (frame.name(), shown))
say("where", " ".join(where))
end
)",
                                                                 At("// before looking")));
  // The second stop is where it became known again, before the next store; then the last store
  // before it was not.
  EXPECT_EQ(gdb.Answer("where"), "files:48 '0' main:unavailable watched:0 '\\000'") << gdb.text;
  EXPECT_TRUE(absl::StrContains(gdb.text, "was not known between")) << gdb.text;
}

// As a live process shows it: a thread that has not looked at what another one has written since it
// saw the page, or that writes beside it, is shown it nevertheless.
TEST(GdbSharedMemoryTest, WhatAnotherThreadHasWrittenIsShown) {
  const Recorded recorded({Program("others_write")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
python
def values():
    return " ".join(value(name) for name in ("(int)shared.mine", "(int)shared.its", "shared.both",
                                             "shared.far_in_line[7]", "progress[1500]"))
gdb.execute("break look")
rounds = []
for i in range(6):
    run("continue")
    rounds.append(values())
say("rounds", ", ".join(rounds))
gdb.execute("tbreak look if progress[1500] == 20")
for i in range(4):
    run("reverse-continue")
say("again", values())
gdb.execute("delete")
gdb.execute("break answer")
run("continue")
say("its", thread_name() + ": " + values())
switch_to("others_write")
say("waits", "%s %s" % ("look" in functions(), values()))
switch_to("worker")
gdb.execute("delete")
gdb.execute("break look if shared.its == 5 && shared.mine == 5")
say("condition", run("continue") + " " + values())
end
)");
  EXPECT_EQ(gdb.Answer("rounds"),
            "1 1 2 -1 10, 2 2 4 -2 20, 3 3 6 -3 30, 4 4 8 -4 40, 5 5 10 -5 50, 6 6 12 -6 60")
      << gdb.text;
  EXPECT_EQ(gdb.Answer("again"), "2 2 4 -2 20") << gdb.text;
  EXPECT_EQ(gdb.Answer("its"), "worker: 3 2 5 -2 20") << gdb.text;
  EXPECT_EQ(gdb.Answer("waits"), "False 3 2 5 -2 20") << gdb.text;
  EXPECT_EQ(gdb.Answer("condition"), "breakpoint 4 5 5 10 -5 50") << gdb.text;
}

// With these stops one thread sets a word to 1, 2, 3, and another one clears it each time: to its
// view that thread stores what is there already. Forward, then back.
void ExpectEachRequest(const std::string& stops) {
  const Recorded recorded({Program("others_write")});
  const GdbResult gdb = RunGdb(recorded.trace(), absl::StrCat(stops, R"(
python
values = []
for command in ["continue"] * 6 + ["reverse-continue"] * 5:
    run(command)
    values.append(value("requested"))
say("values", " ".join(values))
end
)"));
  EXPECT_EQ(gdb.Answer("values"), "1 0 2 0 3 0 3 0 2 0 1") << gdb.text;
}

TEST(GdbSharedMemoryTest, AStoreIsShownThoughItChangesNothingThatTheThreadHasSeen) {
  ExpectEachRequest("break look\nbreak cleared");
}

// A debugger of the live process reports these stores: memory changes.
TEST(GdbSharedMemoryTest, AWatchpointSeesAStoreThatChangesNothingThatTheThreadHasSeen) {
  ExpectEachRequest("break main\ncontinue\ndelete\nwatch requested");
}

// Of a word that several threads store to, and none reads: every change, and who made it.
void ExpectEveryChange(const std::vector<std::string>& flags) {
  const Recorded recorded({Program("words_under_lock")}, {}, flags);
  std::vector<std::string> changes = {"0"};
  std::string now = "0";
  for (const std::string& line : Lines(recorded.run().out)) {
    const std::vector<std::string> store = absl::StrSplit(line, ' ');
    if (store[0] != "1" || store[1] == now) continue;
    now = store[1];
    changes.push_back(absl::StrCat(now, " by ", store[2]));
  }
  ASSERT_GT(changes.size(), 40u);
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break start
break done
continue
watch words[1]
python
changes = [value("words[1]")]
while run("continue") == "breakpoint 3":
    changes.append(value("words[1]") + " by " + value("thread"))
say("forward", ", ".join(changes))
changes = []
now = value("words[1]")
while run("reverse-continue") == "breakpoint 3":
    changes.insert(0, now + " by " + value("thread"))
    now = value("words[1]")
changes.insert(0, now)
say("backward", ", ".join(changes))
end
)");
  EXPECT_EQ(gdb.Answer("forward"), absl::StrJoin(changes, ", ")) << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), absl::StrJoin(changes, ", ")) << gdb.text;
}

TEST(GdbSharedMemoryTest, AWatchpointSeesEveryChangeByAnyThread) { ExpectEveryChange({}); }

// Segments begin with what memory has, which others change while that is looked at.
TEST(GdbSharedMemoryTest, AWatchpointSeesEveryChangeAcrossManySegments) {
  ExpectEveryChange({"--light-keyframe-interval=60000"});
}

// Nothing but a word of memory connects the two: no system call, no instruction with a lock.
TEST(GdbSharedMemoryTest, WhatOneThreadSeesTheOtherHasStored) {
  const Recorded recorded({Program("handover"), "15"});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break main
continue
watch -l number
python
def stops(command, count):
    numbers = []
    for i in range(count):
        gdb.execute(command)
        numbers.append(int(gdb.parse_and_eval("number")))
    return numbers
say("forward", stops("continue", 30) == list(range(1, 31)))
say("last", value("number"))
say("backward", stops("reverse-continue", 29) == list(range(29, 0, -1)))
end
)");
  EXPECT_EQ(gdb.Answer("forward"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("last"), "30") << gdb.text;
  EXPECT_EQ(gdb.Answer("backward"), "True") << gdb.text;
}

TEST(GdbSharedMemoryTest, WhatAnotherProcessHasWrittenIsShown) {
  const Recorded recorded({Program("shared_with_child")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
break look
python
rounds = []
for i in range(3):
    run("continue")
    rounds.append(" ".join(value("shared[%d]" % at) for at in (0, 100, 1500)))
say("rounds", ", ".join(rounds))
end
)");
  EXPECT_EQ(gdb.Answer("rounds"), "2 2 2, 3 3 3, 4 4 4") << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
