// Programs with signals of all kinds record unchanged, and their traces are exact.

#include <gtest/gtest.h>

#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

TEST(SignalsTest, Origins) { ExpectAlwaysRecordsUnchanged({Program("signal_kinds")}); }

TEST(SignalsTest, Handlers) { ExpectAlwaysRecordsUnchanged({Program("signal_handlers")}); }

TEST(SignalsTest, QueuesAndWaiting) { ExpectAlwaysRecordsUnchanged({Program("signal_queues")}); }

TEST(SignalsTest, ThoseOfFaultsThatAreSentAndBlocked) {
  // A tracer does not know which SIGTRAP is its own.
  const bool traced = Engine() == TestedEngine::kEmulate;
  ExpectAlwaysRecordsUnchanged({Program("blocked_faults"), traced ? "4" : "5"});
}

TEST(SignalsTest, WhoTakesAllSignalsGetsThoseOfTheProgramOnly) {
  ExpectAlwaysRecordsUnchanged({Program("waits_for_all")}, {},
                               {"--full-keyframe-interval=2000000"});
}

TEST(SignalsTest, IgnoredOnesEndNoCall) { ExpectRecordsUnchanged({Program("ignored_signals")}); }

TEST(SignalsTest, IgnoredOnesEndNoCallWhateverTheSchedule) {
  if (Engine() == TestedEngine::kTranslate) GTEST_SKIP() << "has no schedule";
  if (Recordings() == 1) GTEST_SKIP() << "waits most of the time: ./test --long";
  ExpectRecordsUnchanged({Program("ignored_signals")}, {}, {"--quantum=3000"});
  ExpectRecordsUnchanged({Program("ignored_signals")}, {}, {"--chaos=5"});
}

TEST(SignalsTest, ForOneThread) { ExpectAlwaysRecordsUnchanged({Program("signal_to_thread")}); }

TEST(SignalsTest, Storm) { ExpectAlwaysRecordsUnchanged({Program("signal_storm")}); }

TEST(SignalsTest, StormUnderSmallQuanta) {
  ExpectAlwaysRecordsUnchanged({Program("signal_storm")}, {}, {"--quantum=3000"});
}

TEST(SignalsTest, TimersOfProcessorTime) { ExpectRecordsUnchanged({Program("cpu_timers")}); }

TEST(SignalsTest, JobControl) { ExpectAlwaysRecordsUnchanged({Program("job_control")}); }

TEST(SignalsTest, JobControlOfThreads) {
  ExpectRecordsUnchanged({Program("stopped_threads")});
  if (Engine() == TestedEngine::kTranslate) return;  // has no schedule
  ExpectRecordsUnchanged({Program("stopped_threads")}, {}, {"--quantum=3000"});
  ExpectRecordsUnchanged({Program("stopped_threads")}, {}, {"--chaos=5"});
}

TEST(SignalsTest, DeathWithAndWithoutCore) {
  ExpectAlwaysRecordsUnchanged({Program("core_death")});
}

TEST(SignalsTest, CrashInAThread) { ExpectAlwaysRecordsUnchanged({Program("crash_in_thread")}); }

TEST(SignalsTest, SystemCallsThatAreFiltered) {
  ExpectAlwaysRecordsUnchanged({Program("seccomp_filter")});
}

}  // namespace
}  // namespace hindsight::e2e
