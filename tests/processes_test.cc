// Programs of several processes record unchanged, each process as an exact trace.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

TEST(ProcessesTest, ForkAndWait) { ExpectAlwaysRecordsUnchanged({Program("forks")}); }

TEST(ProcessesTest, ForkServer) { ExpectAlwaysRecordsUnchanged({Program("fork_server")}); }

TEST(ProcessesTest, VforkAndExec) { ExpectAlwaysRecordsUnchanged({Program("vfork_exec")}); }

TEST(ProcessesTest, ProgramsStartedByThreadsAtTheSameTime) {
  ExpectAlwaysRecordsUnchanged({Program("spawn_threads")});
}

TEST(ProcessesTest, ProcessesThatChildrenOfVforkMake) {
  ExpectAlwaysRecordsUnchanged({Program("nested_vforks")});
}

TEST(ProcessesTest, ProcessesThatAreKilledWhileTheyExecuteAProgram) {
  ExpectRecordsUnchanged({Program("killed_execs")});
}

TEST(ProcessesTest, TasksThatCannotBeMade) { ExpectRecordsUnchanged({Program("odd_clones")}); }

TEST(ProcessesTest, PosixSpawn) { ExpectAlwaysRecordsUnchanged({Program("spawner")}); }

TEST(ProcessesTest, Pipeline) { ExpectAlwaysRecordsUnchanged({Program("pipeline")}); }

TEST(ProcessesTest, ForkWhileThreadsRun) {
  ExpectAlwaysRecordsUnchanged({Program("fork_threads")});
}

// A child for which not even a recorder can have one more runs as it would natively, and that is
// said.
TEST(ProcessesTest, WithAsManyFilesAsThereMayBe) {
  const std::vector<std::string> command = {Program("few_files")};
  const ChildResult native = RunProcess(command);
  const Recorded recorded(command);
  EXPECT_EQ(recorded.run().out, native.out);
  EXPECT_EQ(recorded.run().Ending(), native.Ending());
  if (!recorded.run().err.empty()) {
    EXPECT_EQ(Engine(), TestedEngine::kTranslate);
    EXPECT_THAT(recorded.run().err, HasSubstr("could record it with"));
  }
  ExpectExact(recorded.trace());
}

TEST(ProcessesTest, Orphan) { ExpectAlwaysRecordsUnchanged({Program("orphan")}); }

TEST(ProcessesTest, ForkOfAHundredMegabytes) { ExpectRecordsUnchanged({Program("big_fork")}); }

TEST(ProcessesTest, DroppingPrivileges) { ExpectRecordsUnchanged({Program("drops_privileges")}); }

TEST(ProcessesTest, Namespaces) { ExpectRecordsUnchanged({Program("namespaces")}); }

// All of them, though they do not know the numbers that the recorder has for them.
TEST(ProcessesTest, ThoseBelowAPidNamespace) {
  const std::vector<std::string> command = {Program("below_namespace")};
  const ChildResult native = RunProcess(command);
  for (int i = 0; i < Recordings() && !HasFailure(); ++i) {
    const Recorded recorded(command);
    EXPECT_EQ(recorded.run().out, native.out);
    EXPECT_EQ(recorded.run().err, "");
    EXPECT_EQ(recorded.run().Ending(), native.Ending());
    EXPECT_EQ(CountProcesses(recorded.trace()), native.out.empty() ? 1 : 7);
    ExpectExact(recorded.trace());
  }
}

// Its kernel spares it the signal while it is traced, so its end is not emulated.
TEST(ProcessesTest, TheFirstOfANamespaceDies) {
  const ChildResult native = RunProcess({Program("init_dies")});
  const Recorded recorded({Program("init_dies")});
  EXPECT_EQ(recorded.run().out, native.out);
  EXPECT_EQ(recorded.run().Ending(), "exit 0");
  if (Engine() == TestedEngine::kTranslate) {
    EXPECT_EQ(recorded.run().err, "");
  } else if (!native.out.empty()) {
    EXPECT_THAT(recorded.run().err, HasSubstr("dies natively"));
  }
  ExpectExact(recorded.trace());
}

// With --wait the last process has ended when recording has, so the daemon's work is done then.
TEST(ProcessesTest, Daemon) {
  for (int i = 0; i < Recordings() && !HasFailure(); ++i) {
    const TempDir directory;
    const Recorded recorded({Program("daemonizes"), directory.File("work")}, {}, {"--wait"});
    EXPECT_EQ(recorded.run().Ending(), "exit 5") << recorded.run().err;
    EXPECT_EQ(recorded.run().out,
              "intermediate ended with 3; daemon: group left 1, session of its own 1\n");
    EXPECT_EQ(recorded.run().err, "");
    EXPECT_EQ(ReadFile(directory.File("work")), "the daemon did its work\n");
    EXPECT_EQ(CountProcesses(recorded.trace()), 3);
    ExpectExact(recorded.trace());
  }
}

// Nobody traces what is translated: it is recorded like others.
TEST(ProcessesTest, AChildThatNoTracerIsToldOf) {
  const Recorded recorded({Program("untraced_child")});
  EXPECT_EQ(recorded.run().out, "the child exited with 3\n");
  if (Engine() == TestedEngine::kTranslate) {
    EXPECT_EQ(recorded.run().err, "");
    EXPECT_EQ(CountProcesses(recorded.trace()), 2);
  } else {
    EXPECT_THAT(recorded.run().err, HasSubstr("CLONE_UNTRACED: it is not recorded"));
    EXPECT_EQ(CountProcesses(recorded.trace()), 1);
  }
  ExpectExact(recorded.trace());
}

// A process can have one tracer only. It works, or a line says why it cannot; nothing hangs.
TEST(ProcessesTest, ProgramThatTracesAnother) {
  const Recorded recorded({Program("uses_ptrace")});
  EXPECT_EQ(recorded.run().out.substr(0, 7), "before\n");
  if (recorded.run().Ending() != "exit 0") {
    EXPECT_THAT(recorded.run().err, HasSubstr("ptrace")) << recorded.run().out;
  }
  ExpectExact(recorded.trace());
}

// Whoever traces sees the program, not what records it.
TEST(ProcessesTest, ProcessThatIsGoingToBeTracedIsLetGo) {
  for (const char* way : {"vfork", "attach", "threads"}) {
    SCOPED_TRACE(way);
    const std::vector<std::string> program = {Program("uses_ptrace"), way};
    const Recorded recorded(program);
    const ChildResult native = RunProcess(program);
    EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    EXPECT_EQ(recorded.run().out, native.out);
    EXPECT_THAT(recorded.run().err, HasSubstr("ptrace"));
    ExpectExact(recorded.trace());
  }
}

// Who is followed.

TEST(ChildrenTest, AreFollowedByDefault) {
  const Recorded recorded({Program("pipeline")});
  EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  EXPECT_EQ(CountProcesses(recorded.trace()), 5);
}

TEST(ChildrenTest, RunNativelyIfNobodyIsFollowed) {
  for (const char* program : {"pipeline", "fork_server", "vfork_exec", "spawner", "orphan"}) {
    ExpectAlwaysRecordsUnchanged({Program(program)}, {}, {"--children=none"});
  }
  const Recorded recorded({Program("pipeline")}, {}, {"--children=none"});
  EXPECT_EQ(CountProcesses(recorded.trace()), 1);
}

TEST(ChildrenTest, OnlyOneProgramIsRecorded) {
  SKIP_IF_TRANSLATED("it does not choose processes by their program");
  const std::vector<std::string> flags = {"--children=only=hello"};
  const std::string script =
      "/bin/true; " + Program("hello") + " one; " + Program("hello") + " two; exit 3";
  ExpectRecordsUnchanged({"/bin/sh", "-c", script}, {}, flags);
  const Recorded recorded({"/bin/sh", "-c", script}, {}, flags);
  EXPECT_GE(CountProcesses(recorded.trace()), 2);
  EXPECT_LE(CountProcesses(recorded.trace()), 3);  // with or without the shell that began it
}

TEST(ChildrenTest, AreListedAsATree) {
  const Recorded recorded({Program("fork_server")});
  const ChildResult info = RunHindsight({"info", recorded.trace()});
  EXPECT_EQ(info.Ending(), "exit 0") << info.err;
  size_t found = 0, lines = 0;
  while ((found = info.out.find("fork_server", found + 1)) != std::string::npos) ++lines;
  EXPECT_GE(lines, 7u) << info.out;  // six workers and their parent
}

}  // namespace
}  // namespace hindsight::e2e
