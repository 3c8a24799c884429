// hindsight refine: a snapshot's process lives again, and goes on as it did.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"
#include "tests/refine/refine_fixture.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {
namespace {

class StagesTest : public RefineTest {
 protected:
  StagesTest() { WriteFile(input_, "one\ntwo\nthree\nfour\nfive\n"); }
  std::vector<std::string> Stages() const {
    return {Runfile("tests/refine/stages"), input_, output_};
  }

  const std::string input_ = directory_.File("input"), output_ = directory_.File("output");
};

TEST_F(StagesTest, GoesOnAsItDid) {
  const ChildResult native = RunProcess(Stages());
  EXPECT_EQ(native.Ending(), "exit 7");
  EXPECT_EQ(Snap(Stages(), "exit 7"), native.out);
  const std::string written = ReadFile(output_);
  for (const int from : {1, 3, 5}) {
    WriteFile(output_, written.substr(0, static_cast<size_t>(from) * 8));
    const ChildResult refined = Refine({absl::StrCat("--from=", from)});
    EXPECT_EQ(refined.Ending(), "exit 7") << refined.err;
    EXPECT_EQ(refined.out, After(native.out, absl::StrCat("stage ", from))) << refined.err;
    EXPECT_EQ(ReadFile(output_), written);
    EXPECT_EQ(RefinedSnapshots(), 5u - static_cast<size_t>(from));
    std::filesystem::remove_all(refined_);
  }
}

TEST_F(StagesTest, StopsAtLaterSnapshotAndCompares) {
  Snap(Stages(), "exit 7");
  const ChildResult same = Refine({"--from=1", "--to=4", "--keep=sums", "--json"});
  EXPECT_EQ(same.Ending(), "exit 0") << same.err;
  EXPECT_TRUE(absl::StrContains(same.out, "stage 4")) << same.out;
  EXPECT_FALSE(absl::StrContains(same.out, "stage 5")) << same.out;
  EXPECT_TRUE(absl::StrContains(same.out, "\"consistent\": true")) << same.out;
  EXPECT_EQ(RefinedSnapshots(), 3u);
}

TEST_F(StagesTest, VariableSetBeforeItRunsChangesWhatItDoes) {
  const std::string before = Snap(Stages(), "exit 7");
  const ChildResult changed = Refine({"--from=2", "--to=4", "--keep=sums", "--set=factor=5"});
  EXPECT_EQ(changed.Ending(), "exit 1") << changed.err;
  EXPECT_TRUE(absl::StrContains(changed.err, "sums: ")) << changed.err;
  EXPECT_TRUE(absl::StrContains(changed.err, "not consistent")) << changed.err;
  EXPECT_FALSE(absl::StrContains(before, changed.out)) << changed.out;
  EXPECT_FALSE(std::filesystem::exists(refined_));
}

TEST_F(StagesTest, IsRecordedFromItsNextInstruction) {
  const std::string out = Snap(Stages(), "exit 7");
  const ChildResult recorded = Refine({"--from=4", "--record"});
  EXPECT_EQ(recorded.Ending(), "exit 7") << recorded.err;
  EXPECT_EQ(recorded.out, After(out, "stage 4"));
  const ChildResult verified = RunProcess({Hindsight(), "verify", refined_});
  EXPECT_EQ(verified.Ending(), "exit 0") << verified.out << verified.err;
}

TEST_F(StagesTest, IsRecordedUpToALaterSnapshotAndCompared) {
  Snap(Stages(), "exit 7");
  const ChildResult same = Refine({"--from=1", "--to=4", "--record", "--keep=sums", "--json"});
  EXPECT_EQ(same.Ending(), "exit 0") << same.err;
  EXPECT_TRUE(absl::StrContains(same.out, "stage 4")) << same.out;
  EXPECT_FALSE(absl::StrContains(same.out, "stage 5")) << same.out;
  EXPECT_TRUE(absl::StrContains(same.out, "\"consistent\": true")) << same.out;
  EXPECT_TRUE(absl::StrContains(same.out, "\"instructions\": ")) << same.out;
  const ChildResult verified = RunProcess({Hindsight(), "verify", refined_});
  EXPECT_EQ(verified.Ending(), "exit 0") << verified.out << verified.err;
  // Its last snapshot is there what the other one is.
  constexpr char kLook[] = R"(
hindsight goto snapshot $0
python say("sums", value("sums"))
python say("main", "main" in functions())
)";
  const GdbResult recorded = RunGdb(refined_, absl::Substitute(kLook, 3));
  const GdbResult snapshot = RunGdb(trace_, absl::Substitute(kLook, 4));
  EXPECT_EQ(recorded.Answer("sums"), snapshot.Answer("sums")) << recorded.text;
  EXPECT_EQ(recorded.Answer("main"), "True") << recorded.text;
}

TEST_F(StagesTest, ARecordingThatDiffersIsTriedAgainAndRemoved) {
  Snap(Stages(), "exit 7");
  const ChildResult changed = Refine(
      {"--from=2", "--to=3", "--record", "--keep=sums", "--set=factor=5", "--tries=2", "--json"});
  EXPECT_EQ(changed.Ending(), "exit 1") << changed.err;
  EXPECT_TRUE(absl::StrContains(changed.out, "\"tries\": 2")) << changed.out;
  EXPECT_TRUE(absl::StrContains(changed.out, "\"name\": \"sums\"")) << changed.out;
  EXPECT_FALSE(std::filesystem::exists(refined_));
}

class StridesTest : public RefineTest {
 protected:
  // The ids of the breakpoints of a trace, in order.
  static std::vector<uint64_t> Ids(const std::string& path) {
    std::vector<uint64_t> ids;
    const auto trace = TraceReader::Open(path);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (!trace.ok()) return ids;
    for (const ProcessEvent& event : (*trace)->events()) {
      if (event.kind == EventKind::kSnapshot) ids.push_back(event.arguments.at(4));
    }
    return ids;
  }
  std::vector<std::string> Program() const { return {Runfile("tests/refine/strides")}; }
};

TEST_F(StridesTest, PointsAreCountedOnFromTheSnapshot) {
  Snap(Program(), "exit 0", {"--trigger=point", "--class=1", "--stride=7"});
  EXPECT_EQ(Ids(trace_), (std::vector<uint64_t>{1, 8, 15, 22, 29, 36}));
  const ChildResult refined = Refine({"--from=2", "--trigger=point", "--class=1", "--stride=7"});
  EXPECT_EQ(refined.Ending(), "exit 0") << refined.err;
  EXPECT_EQ(Ids(refined_), (std::vector<uint64_t>{15, 22, 29, 36}));
}

TEST_F(StridesTest, WhatHasPassedOnceDoesNotPassAgain) {
  Snap(Program(), "exit 0", {"--trigger=point", "--class=1,2", "--max=6"});
  EXPECT_EQ(Ids(trace_), (std::vector<uint64_t>{1, 1, 2, 3, 4, 5}));
  const ChildResult refined = Refine({"--from=4", "--to=6", "--trigger=point", "--class=1,2"});
  EXPECT_EQ(refined.Ending(), "exit 0") << refined.err;
  EXPECT_EQ(Ids(refined_), (std::vector<uint64_t>{4, 5}));
}

TEST_F(StridesTest, ArrivalsAtFunctionsAreCountedOnFromTheSnapshot) {
  Snap(Program(), "exit 0", {"--trigger=none", "--at=step", "--stride=7"});
  EXPECT_EQ(Ids(trace_).size(), 6u);  // of the rounds 1, 8, ..., 36
  const ChildResult refined = Refine({"--from=2", "--trigger=none", "--at=step", "--stride=7"});
  EXPECT_EQ(refined.Ending(), "exit 0") << refined.err;
  const GdbResult gdb = RunGdb(refined_, R"(
python
for number in range(1, 5):
  gdb.execute("hindsight goto snapshot %d" % number)
  say("number", value("$edi"))
end
)");
  EXPECT_EQ(gdb.Answers("number"), (std::vector<std::string>{"15", "22", "29", "36"})) << gdb.text;
  std::filesystem::remove_all(refined_);
  // Not one arrival is missed after the process was let go, and the one of the snapshot is over.
  const ChildResult reached = Refine({"--from=2", "--to=3", "--trigger=none", "--stride=7"});
  EXPECT_EQ(reached.Ending(), "exit 0") << reached.err;
  EXPECT_TRUE(absl::StartsWith(reached.out, "8: 36\n")) << reached.out;
  EXPECT_TRUE(absl::EndsWith(reached.out, "\n14: 105\n")) << reached.out;
}

// What is left out on the way would make another arrival the one that is looked for.
TEST_F(StridesTest, AnArrivalIsNotCountedOtherwiseThanItWas) {
  const auto refused = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--from=2", "--to=4"});
    const ChildResult refine = Refine(options);
    EXPECT_EQ(refine.out, "");
    std::filesystem::remove_all(refined_);
    return refine.Ending() == "exit 1" && absl::StrContains(refine.err, "is found by counting");
  };
  Snap(Program(), "exit 0", {"--trigger=none", "--at=step", "--stride=7"});
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({"--trigger=none", "--stride=6"}));
  EXPECT_TRUE(refused({"--trigger=none", "--stride=7", "--at=printf"}));
  EXPECT_TRUE(refused({"--trigger=none", "--stride=7", "--record"}));
  std::filesystem::remove_all(trace_);
  Snap(Program(), "exit 0", {"--trigger=none", "--at=step"});
  EXPECT_TRUE(refused({"--trigger=none", "--stride=2"}));
  EXPECT_TRUE(refused({"--trigger=none", "--skip=3"}));
  EXPECT_TRUE(refused({"--trigger=none", "--interval=1s"}));
  const ChildResult more = Refine({"--from=2", "--to=5", "--trigger=none", "--at=puts"});
  EXPECT_EQ(more.out, "2: 3\n3: 6\n4: 10\n") << more.err;
}

TEST_F(StridesTest, APointIsNotCountedOtherwiseThanItWas) {
  const auto refine = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--from=2", "--to=4"});
    const ChildResult result = Refine(options);
    std::filesystem::remove_all(refined_);
    return absl::StrContains(result.err, "is found by counting") ? "refused" : result.Ending();
  };
  // The same point each time: the attributes do not tell one from another.
  Snap(Program(), "exit 0", {"--trigger=point", "--class=3", "--stride=7"});
  EXPECT_EQ(refine({"--trigger=point", "--class=3"}), "refused");
  EXPECT_EQ(refine({"--trigger=point", "--stride=7"}), "refused");
  EXPECT_EQ(refine({"--trigger=point", "--class=3", "--stride=7", "--skip=1"}), "refused");
  EXPECT_EQ(refine({}), "refused");
  const ChildResult reached =
      Refine({"--from=2", "--to=4", "--trigger=point", "--class=3", "--stride=7", "--keep=total"});
  EXPECT_EQ(reached.Ending(), "exit 0") << reached.err;
  std::filesystem::remove_all(refined_);
  std::filesystem::remove_all(trace_);
  Snap(Program(), "exit 0", {"--trigger=point", "--class=3"});
  EXPECT_EQ(refine({"--trigger=point", "--class=3", "--stride=2"}), "refused");
  EXPECT_EQ(refine({"--trigger=point"}), "exit 0");
}

TEST_F(StridesTest, IsRecordedUpToAFunction) {
  Snap(Program(), "exit 0", {"--trigger=none", "--at=step", "--max=5"});
  const ChildResult recorded =
      Refine({"--from=2", "--to=5", "--record", "--keep=total", "--keep=factor"});
  EXPECT_EQ(recorded.Ending(), "exit 0") << recorded.err;
  EXPECT_EQ(recorded.out, "2: 3\n3: 6\n4: 10\n") << recorded.err;
  const ChildResult verified = RunProcess({Hindsight(), "verify", refined_});
  EXPECT_EQ(verified.Ending(), "exit 0") << verified.out << verified.err;
}

// What a user changes in gdb - memory, and the argument of a call that has just begun - is what the
// program goes on with.
TEST_F(StridesTest, EditsOfGdbAreCarriedInto) {
  const std::string out = Snap(Program(), "exit 0", {"--trigger=none", "--at=step", "--max=5"});
  EXPECT_TRUE(absl::StrContains(out, "\n40: 820\n")) << out;
  const std::string edits = directory_.File("x.edits");
  const GdbResult gdb = RunGdb(trace_, absl::Substitute(R"(
hindsight goto snapshot 3
set var factor = 10
set var total = 1000
set var $$rdi = 70
monitor save edits $0
)",
                                                        edits));
  const ChildResult refined =
      Refine({"--from=3", absl::StrCat("--edits=", edits), "--to=5", "--keep=factor"});
  EXPECT_EQ(refined.Ending(), "exit 1") << gdb.text << refined.err;
  EXPECT_EQ(refined.out, "3: 1700\n4: 1740\n") << refined.err;
  EXPECT_TRUE(absl::StrContains(refined.err, "factor: 0a000000, was 01000000")) << refined.err;
  const ChildResult recorded = Refine({"--from=3", absl::StrCat("--edits=", edits), "--record"});
  EXPECT_EQ(recorded.Ending(), "exit 0") << recorded.err;
  EXPECT_TRUE(absl::StartsWith(recorded.out, "3: 1700\n4: 1740\n5: 1790\n")) << recorded.out;
  const GdbResult exact = RunGdb(refined_, R"(
watch total
continue
python say("total", value("total"))
)");
  EXPECT_EQ(exact.Answer("total"), "1700") << exact.text;
  // They are of one snapshot only.
  std::filesystem::remove_all(refined_);
  EXPECT_EQ(Refine({"--from=2", absl::StrCat("--edits=", edits)}).Ending(), "exit 1");
}

// A recording takes longer than the program did: the same time would be another place.
TEST_F(RefineTest, ATimersSnapshotIsNoEndForARecording) {
  Snap({"/usr/bin/python3", "-c", "import time\nfor i in range(8): time.sleep(0.1)"}, "exit 0",
       {"--every=300ms"});
  const ChildResult refused = Refine({"--from=1", "--to=2", "--record"});
  EXPECT_EQ(refused.Ending(), "exit 1");
  EXPECT_TRUE(absl::StrContains(refused.err, "--record needs")) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(refined_));
}

TEST_F(StagesTest, ChangedFilesAreNamed) {
  Snap(Stages(), "exit 7");
  std::filesystem::remove(input_);
  const ChildResult refused = Refine({"--from=2"});
  EXPECT_EQ(refused.Ending(), "exit 125") << refused.err;
  EXPECT_TRUE(absl::StrContains(refused.err, input_)) << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_FALSE(std::filesystem::exists(refined_ + "/full/1"));
}

TEST_F(RefineTest, RaceIsReproduced) {
  Snap({Runfile("tests/refine/race")}, "exit 0");
  const ChildResult result = Refine({"--from=1", "--to=2", "--keep=first", "--tries=500"});
  EXPECT_EQ(result.Ending(), "exit 0") << result.err.substr(0, 2000);
  EXPECT_TRUE(absl::StrContains(result.err, ": consistent")) << result.err.substr(0, 2000);
}

TEST_F(RefineTest, PythonGoesOn) {
  const std::string script = directory_.File("script.py");
  WriteFile(script,
            "import sys, time, threading\n"
            "done = threading.Event()\n"
            "threading.Thread(target=done.wait, daemon=True).start()\n"
            "total = 0\n"
            "for i in range(30):\n"
            "    total += hash(('a', i)) * 0 + i * i\n"
            "    print('line', i, total, flush=True)\n"
            "    time.sleep(0.05)\n"
            "done.set()\n"
            "print('end', open(sys.argv[0]).readline(), end='')\n");
  const std::string out = Snap({"/usr/bin/python3", script}, "exit 0", {"--every=400ms"});
  const ChildResult result = Refine({"--from=2"});
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_GT(result.out.size(), 100u) << result.err;
  EXPECT_TRUE(absl::EndsWith(out, result.out)) << out << "\n--\n" << result.out;
  EXPECT_LT(result.out.size(), out.size());
}

TEST_F(RefineTest, NothingIsLeftWhenItIsKilled) {
  Snap({"/usr/bin/python3", "-c", "import time\nfor i in range(8): time.sleep(0.1)"}, "exit 0",
       {"--every=300ms"});
  Child child = Child::Start({Hindsight(), "refine", trace_, "-o", refined_, "--from=1"});
  ASSERT_TRUE(child.WaitForFile(refined_ + "/manifest")) << child.err();
  child.Signal(SIGKILL);
  EXPECT_EQ(child.Finish().Ending(), "signal 9");
  const auto trace = TraceReader::Open(refined_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const pid_t pid = (*trace)->manifest().pid;
  int waits = 0;
  while (kill(pid, 0) == 0 && ++waits < 2000) usleep(5000);
  EXPECT_NE(kill(pid, 0), 0) << pid;
}

}  // namespace
}  // namespace hindsight::e2e
