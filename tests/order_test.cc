// Sequence numbers: none is given twice, and none decreases along a thread, under every memory
// model. Read from `hindsight dump --json`, which shows what is in the files.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Reads dumps of all processes of one recording; prints "ordered N of the kernel, M instructions".
constexpr char kCheck[] = R"(
import json, subprocess, sys
hindsight, trace, *processes = sys.argv[1:]
seen, kernel, instructions = set(), 0, 0
def take(number, what):
    assert number not in seen, "%x again: %s" % (number, what)
    seen.add(number)
for process in processes:
    choice = ["-p", process] if process else []
    text = subprocess.run([hindsight, "dump", trace, "--json"] + choice,
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    thread, last, numbers_of_events, slices = None, 0, set(), []
    for line in text.splitlines():
        record = json.loads(line)
        if "event" in record:
            # The same events stand in the threads' records; slices and starts only here.
            if record["event"] in ("slice", "thread-start") and record["sequence"]:
                take(record["sequence"], record)
                kernel += 1
            if record["event"] == "slice":
                assert not slices or slices[-1] < record["sequence"], record
                slices.append(record["sequence"])
            continue
        if "segment" in record:
            if record["thread"] != thread: thread, last = record["thread"], 0
            continue
        numbers = []
        if record["kind"] == "order":
            counts = record["counts"]
            assert counts == sorted(set(counts)), record
            numbers = list(range(record["sequence"], record["sequence"] + len(counts)))
            instructions += len(numbers)
        elif record.get("sequence"):
            numbers = [record["sequence"]]
            kernel += 1
        for number in numbers:
            take(number, record)
            assert number > last, "%x after %x: %s" % (number, last, record)
            last = number
print("ordered", kernel > 0, instructions > 0)
)";

// Reads a dump of ping_pong on standard input; prints how many bytes there were, and how many were
// read before they were written by the sequence numbers.
constexpr char kCountErrors[] = R"(
import json, sys
calls = {}
for line in sys.stdin:
    record = json.loads(line)
    if record.get("event") != "syscall" or record["name"] not in ("read", "write"): continue
    if record["result"] == 1:
        calls.setdefault(int(record["arguments"][0], 16), []).append(record["sequence"])
bytes, errors = 0, 0
for read, write in ((40, 41), (42, 43)):
    assert len(calls[read]) == len(calls[write])
    bytes += len(calls[read])
    errors += sum(r < w for r, w in zip(sorted(calls[read]), sorted(calls[write])))
print(bytes, errors)
)";

// Python for what follows: reads a dump on standard input. Of each thread that calls getppid twice,
// the orderable instructions between: their counts and numbers. Lines that are not the dump's go to
// `note`.
constexpr char kBetweenCalls[] = R"(
import json, sys
def between_calls(note=None):
    ordered, calls, thread = {}, {}, None
    for line in sys.stdin:
        if not line.startswith("{"):
            note(line)
            continue
        record = json.loads(line)
        if "segment" in record: thread = record["thread"]
        elif record.get("kind") == "order":
            ordered.setdefault(thread, []).extend(
                (count, record["sequence"] + i) for i, count in enumerate(record["counts"]))
        elif record.get("name") == "getppid":
            calls.setdefault(record["thread"], []).append(record["count"])
    return {thread: [one for one in ordered[thread] if begin < one[0] < end]
            for thread, (begin, end) in calls.items()}
)";

// Reads a dump of handover on standard input; prints how many stores there were, and how often a
// turn of one thread is not after the turn of the other one that it waited for: its store, or the
// load that has seen the number, which is 3 instructions before.
constexpr char kCountHandovers[] = R"(
turns = []
for thread, mine in between_calls().items():
    loads = {count: number for count, number in mine}
    has_loads = any(count - 3 in loads for count, _ in mine)
    turns += [(number, loads.get(count - 3, number), thread) for count, number in mine
              if not has_loads or count - 3 in loads]
turns.sort()
print(len(turns), sum(one[2] == next[2] or next[1] < one[0] for one, next in zip(turns, turns[1:])))
)";

// Reads a dump of exchanges on standard input, and after it what that has printed; prints how many
// exchanges there were, and how many do not have what the one before has stored, by the sequence
// numbers.
constexpr char kCountExchanges[] = R"(
exchanges, printed = [], {}
def note(line):
    thread, had, stored = map(int, line.split())
    printed.setdefault(thread, []).append((had, stored))
for thread, mine in between_calls(note).items():
    assert len(mine) == len(printed[thread]), (len(mine), len(printed[thread]))
    exchanges += zip((number for _, number in mine), printed[thread])
exchanges.sort()
print(len(exchanges), sum(one[1][1] != next[1][0] for one, next in zip(exchanges, exchanges[1:])))
)";

// Reads dumps of all processes of a recording of causes; prints of each way how often something was
// noticed before it was caused, by the sequence numbers.
constexpr char kCheckCauses[] = R"(
import json, subprocess, sys
hindsight, trace, *processes = sys.argv[1:]
ROUNDS = 30
calls, signals, execs, first, last, wrong = [], [], [], {}, {}, {}
for process in processes:
    choice = ["-p", process] if process else []
    text = subprocess.run([hindsight, "dump", trace, "--json"] + choice,
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    for record in map(json.loads, text.splitlines()):
        if not record.get("event") or not record["sequence"]: continue
        number = record["sequence"]
        first[process] = min(first.get(process, number), number)
        last[process] = max(last.get(process, number), number)
        if record["event"] == "signal": signals.append((number, record["number"]))
        if record["event"] == "exec" and process: execs.append(number)
        if record["event"] != "syscall": continue
        arguments = [int(a, 16) for a in record["arguments"]]
        calls.append((number, record["name"], arguments, record["result"], process))
calls.sort()
def compare(what, causes, effects):
    causes, effects = sorted(causes), sorted(effects)
    assert len(causes) == len(effects) >= ROUNDS // 10, (what, len(causes), len(effects))
    wrong[what] = wrong.get(what, 0) + sum(effect < cause for cause, effect in zip(causes, effects))
def IsFutex(call, operation):
    return call[1] == "futex" and call[2][1] & 127 == operation
def named(name, descriptor, result):
    return [c[0] for c in calls if c[1] == name and c[2][0] == descriptor and c[3] == result]
for write, read in ((50, 50), (51, 51)):
    compare("event", named("write", write, 8), named("read", read, 8))
for send, receive in ((52, 53), (53, 52)):
    compare("message", named("sendto", send, 1), named("recvfrom", receive, 1))
compare("close", named("close", 54, 0), named("read", 55, 0))
compare("exec", execs, named("read", 56, 0))
compare("signal", [c[0] for c in calls if c[1] == "tgkill" and c[2][2] == 10],
        [s[0] for s in signals if s[1] == 10])
compare("munmap", [c[0] for c in calls if c[1] == "munmap" and c[2][1] == 4096 and c[4] == ""],
        [s[0] for s in signals if s[1] == 11])
looks = [c for c in calls if c[1] == "access"]
changes = [b for a, b in zip([(0, 0, 0, -2)] + looks, looks) if a[3] != b[3]]
path = changes[0][2][0]
compare("open", [c[0] for c in calls if c[1] == "openat" and c[2][1] == path],
        [c[0] for c in changes if c[3] == 0])
compare("unlink", [c[0] for c in calls if c[1] == "unlink"],
        [c[0] for c in changes if c[3] != 0])
for what, name in (("fork", "clone"), ("wait", "wait4")):
    for number, called, arguments, result, process in calls:
        if called != name or str(result) not in first: continue
        wrong.setdefault(what, 0)
        wrong[what] += number > first[str(result)] if what == "fork" else number < last[str(result)]
# Who was woken had been woken before. (Threads that end wake without a call.)
wakes, woken, wrong["futex"] = {c[2][0]: 0 for c in calls if IsFutex(c, 1)}, 0, 0
for call in calls:
    address, result = call[2][0], call[3]
    if IsFutex(call, 1): wakes[address] += result
    if address not in wakes or result != 0 or not (IsFutex(call, 0) or IsFutex(call, 9)): continue
    woken += 1
    wakes[address] -= 1
    wrong["futex"] += wakes[address] < 0
assert woken >= ROUNDS, woken
print(" ".join("%s %d" % one for one in sorted(wrong.items())))
)";

void ExpectOrdered(const std::string& model, const std::string& program,
                   const std::string& expected) {
  SCOPED_TRACE(model + " " + program);
  const Recorded recorded({Program(program)}, {}, {"--memory-model=" + model, "--quantum=20000"});
  EXPECT_EQ(InfoField(recorded.trace(), "memoryModel"), model);
  std::vector<std::string> argv = {"/usr/bin/python3", "-c", kCheck, Hindsight(),
                                   recorded.trace(),   ""};
  for (const std::string& child : ChildProcesses(recorded.trace())) argv.push_back(child);
  const ChildResult check = RunProcess(argv);
  EXPECT_EQ(check.Ending(), "exit 0") << check.err;
  EXPECT_EQ(check.out, expected);
}

TEST(OrderTest, OfThreads) {
  ExpectOrdered("kernel", "producers_consumers", "ordered True False\n");
  ExpectOrdered("fence", "producers_consumers", "ordered True True\n");
  ExpectOrdered("acqrel", "thread_cancel", "ordered True True\n");
  ExpectOrdered("load", "threads", "ordered True True\n");
}

TEST(OrderTest, OfProcesses) {
  ExpectOrdered("kernel", "pipeline", "ordered True False\n");
  ExpectOrdered("fence", "fork_server", "ordered True True\n");
}

// What `script` prints about the dump of a trace, which it gets on standard input, and `more`.
std::string CountInDump(const std::string& trace, const std::string& script,
                        const std::string& more = "") {
  ChildOptions options;
  options.input = RunHindsight({"dump", trace, "--json"}).out + more;
  const ChildResult result = RunProcess({"/usr/bin/python3", "-c", script}, options);
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  return result.out;
}

// Threads that run at once are recorded several times, with others that keep the processors busy.
int Repetitions() { return Engine() == TestedEngine::kTranslate ? 3 : 1; }

// Who has seen what another thread stored is later. A thread that does not run for a long time may
// be overtaken. (What a thread does all the while that the other one does not run has a number for
// each load: it gives up its processor.)
TEST(OrderTest, StoresComeBeforeWhoSeesThem) {
  constexpr int kMostErrors = 3;
  // Where threads take turns, each waits for the end of the other's.
  const int turns = Engine() == TestedEngine::kTranslate ? 3000 : 30;
  for (const std::string model : {"acqrel", "load"}) {
    const Recorded recorded({Program("handover"), std::to_string(turns), "1000"}, {},
                            {"--memory-model=" + model});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    const std::string counted =
        CountInDump(recorded.trace(), absl::StrCat(kBetweenCalls, kCountHandovers));
    int stores = 0, errors = 0;
    ASSERT_EQ(std::sscanf(counted.c_str(), "%d %d", &stores, &errors), 2) << counted;
    EXPECT_EQ(stores, 2 * turns) << model;
    EXPECT_LE(errors, kMostErrors) << model;
  }
}

// One that does not run between its access and its time stamp may be overtaken, too.
TEST(OrderTest, LockedInstructionsHaveTheOrderOfTheirAccesses) {
  constexpr int kRounds = 1000;
  constexpr int kMostErrors = 10;  // by threads that were interrupted there; of 3000
  for (int i = 0; i < Repetitions(); ++i) {
    const Recorded recorded({Program("exchanges"), std::to_string(kRounds)});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    const std::string counted = CountInDump(
        recorded.trace(), absl::StrCat(kBetweenCalls, kCountExchanges), recorded.run().out);
    int exchanges = 0, errors = 0;
    ASSERT_EQ(std::sscanf(counted.c_str(), "%d %d", &exchanges, &errors), 2) << counted;
    EXPECT_EQ(exchanges, 3 * kRounds);
    EXPECT_LE(errors, kMostErrors);
  }
}

// What was read had been written.
TEST(OrderTest, CausesComeBeforeEffects) {
  constexpr int kRounds = 3000;
  for (int i = 0; i < Repetitions(); ++i) {
    const Recorded recorded({Program("ping_pong"), std::to_string(kRounds)});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    EXPECT_EQ(CountInDump(recorded.trace(), kCountErrors), std::to_string(2 * kRounds) + " 0\n");
  }
}

TEST(OrderTest, CausesOfEveryKindComeBeforeEffects) {
  for (int i = 0; i < Recordings(); ++i) {
    const Recorded recorded({Program("causes"), "30"});
    ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
    std::vector<std::string> argv = {"/usr/bin/python3", "-c", kCheckCauses, Hindsight(),
                                     recorded.trace(),   ""};
    for (const std::string& child : ChildProcesses(recorded.trace())) argv.push_back(child);
    const ChildResult check = RunProcess(argv);
    EXPECT_EQ(check.Ending(), "exit 0") << check.err;
    EXPECT_EQ(check.out,
              "close 0 event 0 exec 0 fork 0 futex 0 message 0 munmap 0 open 0 signal 0 unlink 0 "
              "wait 0\n");
  }
}

TEST(OrderTest, OfSignals) { ExpectOrdered("fence", "signal_storm", "ordered True True\n"); }

TEST(OrderTest, WithPagesAndSignalsInBetween) {
  for (const std::string model : {"acqrel", "load"}) {
    const Recorded recorded({Program("signal_handlers")}, {}, {"--memory-model=" + model});
    EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
    ExpectExact(recorded.trace());
  }
}

TEST(OrderTest, StrongerModelsOrderMore) {
  uint64_t before = 0;
  for (const std::string& model : MemoryModels()) {
    const Recorded recorded({Program("threads")}, {}, {"--memory-model=" + model});
    const uint64_t ordered = std::stoull("0" + InfoField(recorded.trace(), "orderedInstructions"));
    if (model == "kernel") {
      EXPECT_EQ(ordered, 0u);
    } else {
      EXPECT_GT(ordered, before) << model;
    }
    before = ordered;
  }
}

}  // namespace
}  // namespace hindsight::e2e
