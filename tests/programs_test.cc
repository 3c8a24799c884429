// Programs made for the purpose record unchanged, and their traces are exact.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

TEST(ProgramsTest, InputEnvironmentDirectoryArgumentsAndStatusAreTheProgramsOwn) {
  const TempDir directory;
  ChildOptions options;
  options.input = "three\nlines of\ninput\n";
  options.directory = directory.path();
  options.environment = {"HINDSIGHT_TEST=a value"};
  ExpectRecordsUnchanged({Program("hello"), "one", "", "--help", "with space"}, options);
}

TEST(ProgramsTest, StaticallyLinked) { ExpectRecordsUnchanged({Program("hello_static"), "one"}); }

TEST(ProgramsTest, AtAFixedAddress) {
  ExpectRecordsUnchanged({Program("hello_fixed_address"), "one"});
}

TEST(ProgramsTest, AlignedForLargePages) {
  ExpectRecordsUnchanged({Program("hello_large_pages"), "one"});
}

TEST(ProgramsTest, Strings) { ExpectRecordsUnchanged({Program("strings")}); }

TEST(ProgramsTest, FloatingPoint) { ExpectRecordsUnchanged({Program("numbers")}); }

TEST(ProgramsTest, NansFlagsAndUpperHalves) { ExpectRecordsUnchanged({Program("float_corners")}); }

TEST(ProgramsTest, FloatingPointExceptionsThatRaiseSignals) {
  ExpectRecordsUnchanged({Program("float_traps")});
}

TEST(ProgramsTest, CompiledForThisMachine) { ExpectRecordsUnchanged({Program("vectors")}); }

TEST(ProgramsTest, SignalHandlersJumpsAndAlternateStack) {
  ExpectRecordsUnchanged({Program("alarms")});
}

TEST(ProgramsTest, SignalsThatACallLetsThrough) {
  ExpectRecordsUnchanged({Program("suspended_signals")});
}

TEST(ProgramsTest, AlternateStacks) { ExpectRecordsUnchanged({Program("signal_stacks")}); }

TEST(ProgramsTest, FaultsThatAreHandled) { ExpectRecordsUnchanged({Program("faults")}); }

TEST(ProgramsTest, MappedMemoryPastTheEndOfItsFile) {
  ExpectRecordsUnchanged({Program("file_ends")});
}

TEST(ProgramsTest, FramesThatDoNotFitEndTheProcess) {
  ExpectRecordsUnchanged({Program("file_ends"), "without stack"});
}

TEST(ProgramsTest, JumpsToWhereNoCodeIs) { ExpectRecordsUnchanged({Program("wild_jumps")}); }

TEST(ProgramsTest, MisalignedOperands) { ExpectRecordsUnchanged({Program("alignment_faults")}); }

TEST(ProgramsTest, MisalignedAccessesThatTheProgramWantsRefused) {
  ExpectRecordsUnchanged({Program("alignment_check")});
}

TEST(ProgramsTest, CallsAndReturnsOnAMisalignedStack) {
  ExpectRecordsUnchanged({Program("misaligned_stack")});
}

TEST(ProgramsTest, ReturnsWhereAnotherCallHasBeenMeanwhile) {
  ExpectRecordsUnchanged({Program("crossed_returns")});
}

TEST(ProgramsTest, FlagsThatAreReadAfterCallsAndIndirectJumps) {
  ExpectRecordsUnchanged({Program("returned_flags")});
}

TEST(ProgramsTest, InstructionsThatCompilersDoNotWrite) {
  ExpectRecordsUnchanged({Program("odd_instructions")});
}

TEST(ProgramsTest, StoresThatFailInTheMiddle) {
  if (Engine() == TestedEngine::kEmulate) GTEST_SKIP() << "it is the processor's choice";
  ExpectRecordsUnchanged({Program("stores_in_part")});
  ExpectRecordsUnchanged({Program("stores_in_part"), "with a thread"});
}

TEST(ProgramsTest, CallsThatRaiseASignalInstead) {
  for (const char* wrong : {"", "handler", "selector", "nothing"}) {
    std::vector<std::string> argv = {Program("call_dispatch")};
    if (*wrong != '\0') argv.push_back(wrong);
    ExpectRecordsUnchanged(argv);
  }
}

TEST(ProgramsTest, DeathBySegmentationFault) { ExpectRecordsUnchanged({Program("die_by_segv")}); }

TEST(ProgramsTest, DeathByAbort) { ExpectRecordsUnchanged({Program("aborts")}); }

TEST(ProgramsTest, ThreadLocalVariables) { ExpectRecordsUnchanged({Program("thread_local")}); }

TEST(ProgramsTest, AddressSpaceChanges) { ExpectRecordsUnchanged({Program("memory_maps")}); }

TEST(ProgramsTest, AddressSpaceChangesOfThreadsAtOnce) {
  ExpectRecordsUnchanged({Program("maps_at_once")});
}

TEST(ProgramsTest, PagesOfFilesThatTheKernelTakesBack) {
  ExpectRecordsUnchanged({Program("pages_taken_back")});
}

TEST(ProgramsTest, MoreInputThanASegmentHolds) {
  const Recorded recorded({Program("much_input")});
  EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  EXPECT_EQ(recorded.run().out, RunProcess({Program("much_input")}).out);
  ExpectExact(recorded.trace());
}

TEST(ProgramsTest, ProgramsThatExecuteThemselvesWithoutRandomization) {
  if (Engine() == TestedEngine::kEmulate) GTEST_SKIP() << "it begins without";
  ExpectRecordsUnchanged({Program("own_personality")});
}

TEST(ProgramsTest, CallsAboutMemoryThatCannotBe) {
  ExpectRecordsUnchanged({Program("odd_ranges")});
}

TEST(ProgramsTest, LimitsOnItsOwnMemory) { ExpectRecordsUnchanged({Program("memory_limits")}); }

TEST(ProgramsTest, LimitsOnItsOwnMemoryAreThoseOfProgramsThatItExecutes) {
  const std::vector<std::string> argv = {Program("memory_limits"), "execute"};
  const ChildResult native = RunProcess(argv);
  const Recorded recorded(argv);
  EXPECT_EQ(recorded.run().out, native.out);
  EXPECT_EQ(recorded.run().Ending(), native.Ending());
  ExpectExact(recorded.trace());
}

TEST(ProgramsTest, WithoutTimeStampCounter) { ExpectRecordsUnchanged({Program("no_tsc")}); }

TEST(ProgramsTest, FieldsThatTheKernelFillsInOnItsWayBack) {
  SKIP_IF_TRANSLATED("it offers no restartable sequences");
  ExpectRecordsUnchanged({Program("rseq_fields")});
}

TEST(ProgramsTest, Clocks) { ExpectRecordsUnchanged({Program("clocks")}); }

TEST(ProgramsTest, NondeterministicInstructions) {
  ExpectRecordsUnchanged({Program("nondeterministic")});
}

TEST(ProgramsTest, CodeThatIsWritten) { ExpectRecordsUnchanged({Program("code_writer")}); }

TEST(ProgramsTest, CodeThatIsWrittenAndReadsFlags) {
  ExpectRecordsUnchanged({Program("code_reads_flags")});
}

TEST(ProgramsTest, OperandsAtUnusualAddresses) {
  ExpectRecordsUnchanged({Program("far_operands")});
}

TEST(ProgramsTest, MemoryAndCodeWrittenThroughProc) {
  ExpectRecordsUnchanged({Program("own_memory")});
}

TEST(ProgramsTest, TheVsyscallPage) { ExpectRecordsUnchanged({Program("vsyscall_page")}); }

// The status after each is corrected only where a replay could have another one.
TEST(ProgramsTest, RemaindersOfTheX87AndTheirStatus) {
  ExpectRecordsUnchanged({Program("x87_remainders")});
}

TEST(ProgramsTest, PointersToTheLastX87Instruction) {
  ExpectRecordsUnchanged({Program("x87_pointers"), "exceptions"});
  if (Engine() == TestedEngine::kEmulate) GTEST_SKIP() << "of others it does not keep them";
  ExpectRecordsUnchanged({Program("x87_pointers")});
}

// It goes on as natively, and whoever records it is told why no more of it is recorded.
void ExpectRecordedUpTo(const std::string& reason, const std::vector<std::string>& argv) {
  const ChildResult native = RunProcess(argv);
  const Recorded recorded(argv);
  EXPECT_EQ(recorded.run().out, native.out);
  EXPECT_EQ(recorded.run().Ending(), native.Ending());
  const std::string& err = recorded.run().err;
  const size_t told = err.find(reason);
  EXPECT_NE(told, std::string::npos) << err;
  EXPECT_EQ(err.find(reason, told + 1), std::string::npos) << "told twice: " << err;
  ExpectExact(recorded.trace());
}

TEST(ProgramsTest, WhatHasItselfTrappedAfterEachInstructionIsRecordedUpToThere) {
  for (const std::string how : {"popf", "signal"}) {
    ExpectRecordedUpTo("trap flag", {Program("trap_flag"), how});
  }
}

TEST(ProgramsTest, MemoryAtAnyAddressTheProgramAsksFor) {
  for (const std::vector<std::string>& argv : {std::vector<std::string>{Program("fixed_far_maps")},
                                               {Program("fixed_far_maps"), "move"},
                                               {Program("fixed_far_maps"), "insist"},
                                               {Program("fixed_far_maps"), "reserve"},
                                               {Program("fixed_far_maps"), "grow"}}) {
    if (Engine() == TestedEngine::kEmulate) {
      ExpectRecordsUnchanged(argv);
    } else {
      ExpectRecordedUpTo("maps memory where", argv);
    }
  }
}

TEST(ProgramsTest, MoreMemoryThanThereIs) {
  ExpectRecordsUnchanged({Program("fixed_far_maps"), "much"});
}

TEST(ProgramsTest, AddressesThatTheProgramGivesUp) {
  ExpectRecordsUnchanged({Program("fixed_far_maps"), "try"});
}

TEST(ProgramsTest, StepsAndWarehouse) {
  ExpectRecordsUnchanged({Program("steps")});
  ExpectRecordsUnchanged({Runfile("examples/warehouse")});
}

// Keyframes change nothing but time.
TEST(ProgramsTest, ManyKeyframes) {
  const std::vector<std::string> flags = {"--light-keyframe-interval=10000",
                                          "--full-keyframe-interval=30000"};
  ExpectRecordsUnchanged({Program("steps")}, {}, flags);
  ExpectRecordsUnchanged({Program("alarms")}, {}, flags);
  // 75 M instructions.
  if (Engine() == TestedEngine::kEmulate) {
    ExpectRecordsUnchanged({Program("memory_maps")}, {}, flags);
  } else {
    ExpectRecordsUnchanged({Program("memory_maps")}, {}, {"--light-keyframe-interval=1000000"});
  }
}

// libm chooses other code where it finds FMA, whose results differ in the last digit.
TEST(ProgramsTest, LibmPrintsTheDigitsItPrintsNatively) {
  ExpectRecordsUnchanged({Program("math_sums")}, {}, {"--cpu=host"});
}

TEST(ProgramsTest, TheProgramSeesTheMachinesFeatures) {
  ExpectRecordsUnchanged({Program("cpu_features")}, {}, {"--cpu=host"});
}

TEST(ProgramsTest, InfoNamesTheCpuModel) {
  for (const char* const cpu : {"host", "portable"}) {
    const Recorded recorded({Program("loop")}, {}, {absl::StrCat("--cpu=", cpu)});
    EXPECT_EQ(InfoField(recorded.trace(), "cpu"), cpu);
  }
  const bool translated = Engine() == TestedEngine::kTranslate;
  EXPECT_EQ(InfoField(Recorded({Program("loop")}).trace(), "cpu"),
            translated ? "portable" : "host");
  EXPECT_EQ(RunHindsight({"record", "--cpu=other", "--", Program("loop")}).Ending(), "exit 2");
}

// What a portable recording computes is what libm computes on a processor without these features.
TEST(ProgramsTest, PortableTakesThePathsOfAnOlderProcessor) {
  ChildOptions older;
  older.environment = {"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX"};
  const ChildResult native = RunProcess({Program("math_sums")}, older);
  const Recorded recorded({Program("math_sums")}, {}, {"--cpu=portable"});
  EXPECT_EQ(recorded.run().out, native.out);
  EXPECT_EQ(InfoField(recorded.trace(), "requiredFeatures"), "[]");
  ExpectExact(recorded.trace());
}

TEST(ProgramsTest, PortableRecordsUnchanged) {
  const std::vector<std::string> flags = {"--cpu=portable"};
  ExpectRecordsUnchanged({Program("strings")}, {}, flags);
  ExpectRecordsUnchanged({Program("vectors")}, {}, flags);
}

// Blocks that the thread itself executes as well do not affect it: full keyframes have what is
// in the process, replay what is in the recorder.
TEST(ProgramsTest, CheckedBlocksLeaveNothingBehind) {
  SKIP_IF_TRANSLATED("it does not emulate");
  const std::vector<std::string> flags = {"--self-check=1000", "--light-keyframe-interval=20000",
                                          "--full-keyframe-interval=40000"};
  ExpectRecordsUnchanged({Program("threads")}, {}, flags);
  ExpectRecordsUnchanged({Program("alarms")}, {}, flags);
}

// A program that cannot be started is reported as by a shell.
TEST(ProgramsTest, MissingProgramIsOneLine) {
  const TempDir directory;
  const ChildResult result = Record(directory.File("trace"), {"/nonexistent/program"});
  EXPECT_NE(result.Ending(), "exit 0");
  EXPECT_NE(result.err, "");
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

}  // namespace
}  // namespace hindsight::e2e
