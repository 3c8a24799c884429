// Programs with threads record unchanged, and their traces are exact. What races is recorded as
// often as RECORDINGS says.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

TEST(ThreadsTest, StartAndJoin) { ExpectRecordsUnchanged({Program("threads")}); }

TEST(ThreadsTest, ProducersAndConsumers) {
  ExpectAlwaysRecordsUnchanged({Program("producers_consumers")});
}

TEST(ThreadsTest, LockFreeQueue) { ExpectAlwaysRecordsUnchanged({Program("lock_free_queue")}); }

TEST(ThreadsTest, SixtyFourAtOnce) { ExpectAlwaysRecordsUnchanged({Program("many_threads")}); }

TEST(ThreadsTest, AThousandShortOnes) {
  ExpectAlwaysRecordsUnchanged({Program("thread_churn"), "1000"});
}

// The recorder is behind those by all that they have told: who waited for it to come to each of
// his calls took more than a minute.
TEST(ThreadsTest, OneMapsOrForksBesideOthersThatCallAllTheTime) {
  const absl::Time start = absl::Now();
  ExpectRecordsUnchanged({Program("maps_beside_calls")});
  ExpectRecordsUnchanged({Program("maps_beside_calls"), "children"});
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST(ThreadsTest, Cancelled) { ExpectAlwaysRecordsUnchanged({Program("thread_cancel")}); }

TEST(ThreadsTest, MainThreadEndsFirst) {
  ExpectAlwaysRecordsUnchanged({Program("thread_exits"), "main_first"});
}

TEST(ThreadsTest, ProcessEndsWhileOthersAreBlockedAndComputing) {
  for (const char* way : {"return", "exit_group", "exit_elsewhere", "signal_elsewhere"}) {
    ExpectAlwaysRecordsUnchanged({Program("thread_exits"), way});
  }
}

TEST(ThreadsTest, AnotherThanTheFirstExecutesAProgram) {
  ExpectAlwaysRecordsUnchanged({Program("thread_exec")});
}

TEST(ThreadsTest, RobustMutexes) { ExpectAlwaysRecordsUnchanged({Program("robust_mutex")}); }

TEST(ThreadsTest, PriorityInheritance) { ExpectAlwaysRecordsUnchanged({Program("pi_mutex")}); }

TEST(ThreadsTest, Futexes) { ExpectAlwaysRecordsUnchanged({Program("futex_waits")}); }

TEST(ThreadsTest, LockedInstructionsOfAllKinds) {
  ExpectAlwaysRecordsUnchanged({Program("locked_updates")});
}

TEST(ThreadsTest, SpinningWithoutSystemCalls) {
  ExpectAlwaysRecordsUnchanged({Program("spin_lock")});
}

TEST(ThreadsTest, OneWaitsWhileAnotherComputes) {
  ChildOptions options;
  options.timeout = absl::Seconds(60);
  ExpectRecordsUnchanged({Program("poll_beside_work")}, options);
}

TEST(ThreadsTest, Names) { ExpectAlwaysRecordsUnchanged({Program("thread_names")}); }

TEST(ThreadsTest, SmallQuantaChangeNothing) {
  for (const char* program : {"producers_consumers", "thread_cancel", "many_threads"}) {
    ExpectAlwaysRecordsUnchanged({Program(program)}, {}, {"--quantum=5000"});
  }
}

TEST(ThreadsTest, ManyKeyframes) {
  const std::vector<std::string> flags = {"--light-keyframe-interval=20000",
                                          "--full-keyframe-interval=100000"};
  ExpectAlwaysRecordsUnchanged({Program("producers_consumers")}, {}, flags);
  ExpectAlwaysRecordsUnchanged({Program("many_threads")}, {}, flags);
}

TEST(ThreadsTest, EveryMemoryModel) {
  for (const std::string& model : MemoryModels()) {
    for (const char* program : {"producers_consumers", "lock_free_queue"}) {
      ExpectAlwaysRecordsUnchanged({Program(program)}, {}, {"--memory-model=" + model});
    }
  }
}

// Its result differs from run to run, so no native run shows what it should be: replay must show
// what the recorded program printed.
TEST(ThreadsTest, DataRaceReplaysWithTheResultThatWasRecorded) {
  for (int i = 0; i < Recordings() && !HasFailure(); ++i) {
    const Recorded recorded({Program("data_race")}, {}, {"--quantum=100000"});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    const GdbResult gdb = RunGdb(recorded.trace(), R"(
break main
continue
python say("first", value("counter"))
delete
continue
python say("last", value("counter"))
)");
    EXPECT_EQ(gdb.Answer("first"), "0") << gdb.text;
    EXPECT_EQ(gdb.Answer("last"), absl::StripAsciiWhitespace(recorded.run().out)) << gdb.text;
  }
}

TEST(ManyThreadsTest, ThousandsOfShortOnes) {
  ChildOptions options;
  options.timeout = absl::Seconds(400);
  const char* threads = Recordings() > 1                       ? "10000"
                        : Engine() == TestedEngine::kTranslate ? "5000"
                                                               : "2500";
  ExpectRecordsUnchanged({Program("thread_churn"), threads}, options);
}

}  // namespace
}  // namespace hindsight::e2e
