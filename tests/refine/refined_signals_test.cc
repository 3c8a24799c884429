// hindsight refine of snapshots that were taken before a signal was delivered: it is delivered
// then, as it was.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/refine/refine_fixture.h"

namespace hindsight::e2e {
namespace {

class RefinedSignalsTest : public RefineTest {
 protected:
  // Natively and recorded, each snapshot is the beginning of the same end.
  void ExpectSameEnd(int snapshots, const std::string& ending, const std::string& last_lines) {
    for (int from = 1; from <= snapshots; ++from) {
      for (const bool record : {false, true}) {
        std::vector<std::string> options = {absl::StrCat("--from=", from)};
        if (record) options.push_back("--record");
        const ChildResult refined = Refine(options);
        EXPECT_EQ(refined.Ending(), ending) << from << " " << record << "\n" << refined.err;
        EXPECT_EQ(refined.out, last_lines) << from << " " << record << "\n" << refined.err;
        if (record) ExpectExact();
        std::filesystem::remove_all(refined_);
      }
    }
  }
  void ExpectExact() {
    const ChildResult verified = RunProcess({Hindsight(), "verify", refined_});
    EXPECT_EQ(verified.Ending(), "exit 0") << verified.out << verified.err;
  }
  static std::vector<std::string> Deliveries() { return {Runfile("tests/refine/deliveries")}; }
};

// The program looks at each signal and at each interrupted call itself.
TEST_F(RefinedSignalsTest, HandlersRunAsTheyDid) {
  const std::vector<std::string> program = {Runfile("tests/snap/signals"), "alone"};
  EXPECT_EQ(RunProcess(program).out, "complaints 0\n");
  Snap(program, "exit 3", {"--on-signal=USR1,SEGV"});
  ExpectSameEnd(9, "exit 3", "complaints 0\n");
}

TEST_F(RefinedSignalsTest, AHandlerCountsTheSignalOfTheSnapshot) {
  const std::vector<std::string> program = {Runfile("libhindsight/testdata/kinds")};
  EXPECT_EQ(RunProcess(program).Ending(), "exit 5");
  Snap(program, "exit 5", {"--trigger=none", "--on-signal=USR1"});
  ExpectSameEnd(1, "exit 5", "");
}

TEST_F(RefinedSignalsTest, ASignalKillsAsItDid) {
  Snap({Runfile("tests/snap/signals"), "abort"}, "signal 6", {"--on-signal=ABRT"});
  ExpectSameEnd(1, "signal 6", "");
  std::filesystem::remove_all(trace_);
  Snap({Runfile("tests/snap/crash")}, "signal 11", {"--on-signal=SEGV"});
  ExpectSameEnd(1, "signal 11", "");
}

// One ends a system call, another one waits in a thread that blocks it.
TEST_F(RefinedSignalsTest, SignalsThatWaitAndInterruptDoSoAgain) {
  const ChildResult native = RunProcess(Deliveries());
  EXPECT_EQ(native.Ending(), "signal 8");
  EXPECT_TRUE(absl::StrContains(native.out, "\nepoll_wait -1, interrupted\n")) << native.out;
  EXPECT_EQ(Snap(Deliveries(), "signal 8", {"--on-signal=USR1"}), native.out);
  ExpectSameEnd(1, "signal 8", native.out);
}

// Else a change that removes the cause of a fault would change nothing.
TEST_F(RefinedSignalsTest, AFaultComesAgainOnlyIfItsCauseIsLeft) {
  Snap(Deliveries(), "signal 8", {"--on-signal=FPE"});
  ExpectSameEnd(1, "signal 8", "");
  EXPECT_EQ(Refine({"--from=1", "--set=divisor=0"}).Ending(), "signal 8");
  std::filesystem::remove_all(refined_);
  EXPECT_EQ(Refine({"--from=1", "--set=divisor=2"}).Ending(), "exit 9");
  std::filesystem::remove_all(refined_);
  EXPECT_EQ(Refine({"--from=1", "--set=divisor=6", "--record"}).Ending(), "exit 3");
  ExpectExact();
}

// The signal of the first snapshot is no arrival at a later one.
TEST_F(RefinedSignalsTest, LaterSignalsAreCountedWithoutTheFirst) {
  Snap({Runfile("tests/snap/signals"), "alone"}, "exit 3", {"--on-signal=USR1,SEGV"});
  for (const bool record : {false, true}) {
    std::vector<std::string> options = {"--from=1", "--to=3", "--keep=handled"};
    if (record) options.push_back("--record");
    const ChildResult reached = Refine(options);
    EXPECT_EQ(reached.Ending(), "exit 0") << reached.err;
    EXPECT_TRUE(absl::StrContains(reached.err, ": consistent")) << reached.err;
    EXPECT_EQ(RefinedSnapshots(), record ? 3u : 2u);
    std::filesystem::remove_all(refined_);
  }
}

}  // namespace
}  // namespace hindsight::e2e
