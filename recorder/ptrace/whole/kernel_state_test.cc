// What is read of a process from outside is what it says itself, and it does not notice.

#include "tracefmt/kernel_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "recorder/ptrace/whole/copied_state.h"
#include "recorder/ptrace/whole/open_descriptors.h"
#include "recorder/ptrace/whole/process_copy.h"
#include "recorder/ptrace/whole/thread_state.h"
#include "recorder/ptrace/whole/whole_fixture.h"

namespace hindsight {
namespace {

using Facts = std::map<std::string, std::string>;

// What it says before it is ready.
Facts Said(RunningProgram* program) {
  Facts facts;
  for (std::string line = program->ReadLine(); line != "ready\n" && !line.empty();
       line = program->ReadLine()) {
    const std::pair<std::string, std::string> fact =
        absl::StrSplit(line.substr(0, line.size() - 1), absl::MaxSplits(' ', 1));
    facts.insert(fact);
  }
  return facts;
}

KernelState ReadAll(pid_t process) {
  KernelState state;
  auto stop = StopProcess(process);
  if (stop == nullptr) return state;
  for (const ThreadMoment& moment : stop->Read()) {
    state.threads.push_back(ReadThreadState(moment.thread));
    state.threads.back().name = moment.name;
  }
  state.siginfos = ProcessSiginfos(process);
  state.descriptors = ReadDescriptors(process);
  AskThreads(*stop, &state);
  auto copy = ProcessCopy::Make(*stop);
  EXPECT_TRUE(copy.ok()) << copy.status();
  stop->Release();
  if (copy.ok()) ReadCopiedState((*copy)->pid(), stop->call_site(), &state);
  ReadRelations(process, &state);
  return state;
}

void AddThread(const std::string& who, const ThreadKernelState& thread, Facts* facts) {
  (*facts)[who + ".thread"] = absl::StrCat(thread.thread);
  (*facts)[who + ".name"] = thread.name;
  (*facts)[who + ".blocked"] = absl::StrCat(absl::Hex(thread.blocked));
  (*facts)[who + ".stack"] =
      thread.has_signal_stack
          ? absl::StrFormat("%x %d %d", thread.signal_stack_base, thread.signal_stack_bytes,
                            thread.signal_stack_flags)
          : "unknown";
  (*facts)[who + ".robust"] =
      absl::StrFormat("%x %d", thread.robust_list, thread.robust_list_bytes);
  (*facts)[who + ".clear_tid"] = absl::StrCat(absl::Hex(thread.clear_tid.value_or(0)));
  (*facts)[who + ".nice"] = absl::StrCat(thread.nice);
}

// In the form in which the program says it.
Facts FactsOf(const KernelState& state) {
  Facts facts;
  AddThread("first", state.threads.at(0), &facts);
  AddThread("second", state.threads.at(1), &facts);
  facts["umask"] = absl::StrFormat("%o", state.umask);
  facts["brk"] = absl::StrCat(absl::Hex(state.layout.brk));
  facts["directory"] = state.working_directory;
  facts["personality"] = absl::StrCat(absl::Hex(state.personality));
  facts["interval"] = absl::StrCat(state.interval_timers.at(0).interval_ns / 1'000'000'000);
  facts["family"] = absl::StrCat(state.parent, " ", state.group, " ", state.session);
  facts["limit"] = absl::StrCat(state.limits.at(7).soft, " ", state.limits.at(7).hard);
  for (const int number : {SIGUSR1, SIGPIPE, SIGINT}) {
    const SignalHandling& signal = state.signals.at(static_cast<size_t>(number - 1));
    facts[absl::StrCat("signal.", number)] =
        absl::StrFormat("%x %x %x %x", signal.handler, signal.flags, signal.restorer, signal.mask);
  }
  return facts;
}

const OpenDescriptor* Find(const KernelState& state, int fd) {
  for (const OpenDescriptor& descriptor : state.descriptors) {
    if (descriptor.fd == fd) return &descriptor;
  }
  return nullptr;
}

// Descriptor `who`, after what it says of itself was compared.
const OpenDescriptor& Compared(const KernelState& state, const Facts& said, const char* who) {
  static const OpenDescriptor none;
  const std::vector<std::string> words = absl::StrSplit(said.at(absl::StrCat("fd.", who)), ' ');
  const OpenDescriptor* found = Find(state, std::stoi(words.at(0)));
  EXPECT_NE(found, nullptr) << who;
  if (found == nullptr) return none;
  const std::string offset = absl::StrCat(absl::Hex(found->offset + 1));
  EXPECT_TRUE(words.at(1) == "0" || words.at(1) == offset) << who << " " << offset;
  EXPECT_EQ(words.at(2), absl::StrCat(found->flags)) << who;
  EXPECT_EQ(words.at(3), absl::StrCat(found->inode)) << who;
  return *found;
}

TEST(KernelStateTest, IsWhatTheProcessSays) {
  RunningProgram program({TestProgram("known_state")}, false);
  Facts said = Said(&program);
  usleep(10'000);
  for (int i = 0; i < 20; ++i) {
    const KernelState state = ReadAll(program.child());
    ASSERT_EQ(state.threads.size(), 2u);
    Facts of_process;
    for (const auto& [key, value] : said) {
      if (!absl::StartsWith(key, "fd.")) of_process[key] = value;
    }
    EXPECT_EQ(FactsOf(state), of_process);
    EXPECT_EQ(SignalsOf(state.siginfos), uint64_t{1} << (SIGTERM - 1));
    EXPECT_EQ(state.threads[1].pending, uint64_t{1} << (SIGHUP - 1));
    EXPECT_EQ(state.threads[0].pending, 0u);
    EXPECT_NE(state.threads[0].rseq, 0u);
    EXPECT_NE(state.threads[0].rseq, state.threads[1].rseq);
    EXPECT_LE(state.interval_timers[0].left_ns, 1000'000'000'000u);
    EXPECT_GE(state.interval_timers[0].left_ns, 900'000'000'000u);

    const OpenDescriptor& file = Compared(state, said, "file");
    EXPECT_EQ(file.offset, 5u);
    EXPECT_TRUE(file.close_on_exec);
    EXPECT_EQ(file.kind, DescriptorKind::kFile);
    EXPECT_EQ(file.size_bytes, 10u);
    EXPECT_EQ(file.same_as, file.fd);
    const OpenDescriptor& same = Compared(state, said, "same");
    EXPECT_EQ(same.same_as, file.fd);
    EXPECT_FALSE(same.close_on_exec);
    EXPECT_EQ(Compared(state, said, "memory").kind, DescriptorKind::kMemory);
    const OpenDescriptor& counter = Compared(state, said, "counter");
    EXPECT_EQ(counter.path, "anon_inode:[eventfd]");
    EXPECT_TRUE(absl::StrContains(counter.details, "eventfd-count:")) << counter.details;
    EXPECT_EQ(Compared(state, said, "pipe").unread, "un\nread");
    EXPECT_EQ(Find(state, 0)->kind, DescriptorKind::kPipe);
    EXPECT_EQ(Find(state, 0)->unread, "");
  }
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
}

// Each of them makes calls for us, whatever it is in the middle of.
TEST(KernelStateTest, BusyThreadsDoNotNotice) {
  RunningProgram program({TestProgram("busy_threads")}, false);
  ASSERT_EQ(program.ReadLine(), "ready\n");
  size_t known = 0, unknown = 0;
  for (int i = 0; i < 50; ++i) {
    const KernelState state = ReadAll(program.child());
    for (const ThreadKernelState& thread : state.threads) {
      ++(thread.has_signal_stack && thread.clear_tid.has_value() ? known : unknown);
    }
    usleep(i % 5 * 1000);
  }
  EXPECT_GT(known, 700u);
  EXPECT_LT(unknown, known / 4);
  int status;
  const std::string out = program.Finish(&status);
  EXPECT_EQ(status, 0) << out;
}

}  // namespace
}  // namespace hindsight
