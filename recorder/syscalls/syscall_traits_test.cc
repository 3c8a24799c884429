#include "recorder/syscalls/syscall_traits.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(SyscallTraitsTest, KnowsTasksThatNoTracerIsToldOf) {
  EXPECT_TRUE(MakesUntracedTask(SYS_clone, CLONE_VM | CLONE_UNTRACED));
  EXPECT_TRUE(MakesUntracedTask(SYS_clone3, CLONE_UNTRACED));
  EXPECT_FALSE(MakesUntracedTask(SYS_clone, CLONE_VM | SIGCHLD));
  EXPECT_FALSE(MakesUntracedTask(SYS_read, CLONE_UNTRACED));
}

TEST(SyscallTraitsTest, KnowsRestartCodes) {
  EXPECT_TRUE(IsRestartCode(-512));
  EXPECT_TRUE(IsRestartCode(-516));
  EXPECT_FALSE(IsRestartCode(-515));
  EXPECT_FALSE(IsRestartCode(-4));
  EXPECT_FALSE(IsRestartCode(512));
}

TEST(SyscallTraitsTest, KnowsWhoBecomesATracer) {
  const uint64_t trace_me[6] = {PTRACE_TRACEME};
  const uint64_t seize[6] = {PTRACE_SEIZE, 77};
  const uint64_t go_on[6] = {PTRACE_CONT, 77};
  EXPECT_EQ(TracesOthers(SYS_ptrace, trace_me).kind, TraceCall::Kind::kTraceMe);
  EXPECT_EQ(TracesOthers(SYS_ptrace, seize).kind, TraceCall::Kind::kAttach);
  EXPECT_EQ(TracesOthers(SYS_ptrace, seize).target, 77);
  EXPECT_EQ(TracesOthers(SYS_ptrace, go_on).kind, TraceCall::Kind::kNone);
  EXPECT_EQ(TracesOthers(SYS_read, trace_me).kind, TraceCall::Kind::kNone);
}

TEST(SyscallTraitsTest, KnowsCallsThatRestrictOthers) {
  const uint64_t strict[6] = {PR_SET_SECCOMP, SECCOMP_MODE_STRICT};
  const uint64_t filter[6] = {SECCOMP_SET_MODE_FILTER};
  const uint64_t ask[6] = {SECCOMP_GET_ACTION_AVAIL};
  const uint64_t name[6] = {PR_SET_NAME};
  EXPECT_TRUE(RestrictsSystemCalls(SYS_prctl, strict));
  EXPECT_TRUE(RestrictsSystemCalls(SYS_seccomp, filter));
  EXPECT_FALSE(RestrictsSystemCalls(SYS_seccomp, ask));
  EXPECT_FALSE(RestrictsSystemCalls(SYS_prctl, name));
}

TEST(SyscallTraitsTest, KnowsTimersOfProcessorTime) {
  const uint64_t real[6] = {ITIMER_REAL}, profiling[6] = {ITIMER_PROF};
  const uint64_t monotonic[6] = {CLOCK_MONOTONIC}, thread[6] = {CLOCK_THREAD_CPUTIME_ID};
  const uint64_t ask[6] = {0, RLIMIT_CPU, 0}, set[6] = {0, RLIMIT_CPU, 0x1000};
  EXPECT_FALSE(LimitsProcessorTime(SYS_setitimer, real));
  EXPECT_TRUE(LimitsProcessorTime(SYS_setitimer, profiling));
  EXPECT_FALSE(LimitsProcessorTime(SYS_timer_create, monotonic));
  EXPECT_TRUE(LimitsProcessorTime(SYS_timer_create, thread));
  EXPECT_FALSE(LimitsProcessorTime(SYS_prlimit64, ask));
  EXPECT_TRUE(LimitsProcessorTime(SYS_prlimit64, set));
}

TEST(SyscallTraitsTest, KnowsWhatCannotBeRecorded) {
  const uint64_t zero[6] = {}, one[6] = {1};
  EXPECT_NE(ReasonNotToRecord(SYS_userfaultfd, zero), nullptr);
  EXPECT_EQ(ReasonNotToRecord(SYS_modify_ldt, zero), nullptr);
  EXPECT_NE(ReasonNotToRecord(SYS_modify_ldt, one), nullptr);
  EXPECT_EQ(ReasonNotToRecord(SYS_read, zero), nullptr);
}

}  // namespace
}  // namespace hindsight
