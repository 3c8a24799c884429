// Sequence numbers: none is given twice, and none decreases along a thread, under every memory
// model. Read from `hindsight dump --json`, which shows what is in the files.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

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
  SKIP_IF_TRANSLATED("it has no stronger memory models");
  ExpectOrdered("acqrel", "thread_cancel", "ordered True True\n");
  ExpectOrdered("load", "threads", "ordered True True\n");
}

TEST(OrderTest, OfProcesses) {
  ExpectOrdered("kernel", "pipeline", "ordered True False\n");
  ExpectOrdered("fence", "fork_server", "ordered True True\n");
}

// What was read had been written. Threads that take turns never contradict that. Of those that run
// at once a number says when a call was over, and a reader may be through before the writer has
// come back: counted here, where it is provoked, and not yet bounded.
TEST(OrderTest, CausesComeBeforeEffects) {
  constexpr int kRounds = 3000;
  const Recorded recorded({Program("ping_pong"), std::to_string(kRounds)});
  ASSERT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  ChildOptions options;
  options.input = RunHindsight({"dump", recorded.trace(), "--json"}).out;
  const ChildResult result = RunProcess({"/usr/bin/python3", "-c", kCountErrors}, options);
  ASSERT_EQ(result.Ending(), "exit 0") << result.err;
  std::istringstream counts(result.out);
  int bytes = 0, errors = -1;
  counts >> bytes >> errors;
  std::cout << errors << " of " << bytes << " bytes were read before they were written\n";
  EXPECT_EQ(bytes, 2 * kRounds);
  SKIP_IF_TRANSLATED("its numbers are those of the calls' ends");
  EXPECT_EQ(errors, 0);
}

TEST(OrderTest, OfSignals) { ExpectOrdered("fence", "signal_storm", "ordered True True\n"); }

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
