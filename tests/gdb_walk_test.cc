// A random walk over a recording: at a position visited before everything is as it was.
//
// WALK_MOVES and WALK_SEED in the environment make it longer and different.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

std::string Setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// $0: breakpoints, $1: moves, $2: seed.
constexpr char kWalk[] = R"(
handle all nostop noprint pass
handle SIGTRAP SIGINT stop nopass
python
import random, re
random.seed($2)
seen = {}
different = []

def position():
    return re.search(r"[0-9A-Fa-f]+:[0-9A-Fa-f]+", when()).group()

def state():
    stack = int(gdb.parse_and_eval("(unsigned long)$$sp"))
    try:
        memory = gdb.selected_inferior().read_memory(stack, 256).tobytes()
    except gdb.MemoryError:
        memory = None
    return all_registers(), memory

def visit(how):
    where, now = position(), state()
    if seen.setdefault(where, now) != now:
        different.append("%s by %s" % (where, how))

def move():
    kind = random.randrange(8)
    if kind < 2: command = "stepi %d" % random.choice([1, 2, 3, 10, 100, 3000])
    elif kind < 4: command = "reverse-stepi %d" % random.choice([1, 2, 3, 10, 100, 3000])
    elif kind == 4: command = "continue"
    elif kind == 5: command = "reverse-continue"
    elif kind == 6: command = "monitor goto %s" % random.choice(list(seen))
    else: command = "monitor goto %d%%" % random.randrange(101)
    if command.startswith("monitor"):
        gdb.execute(command, to_string=True)
        gdb.execute("maintenance flush register-cache", to_string=True)
    else:
        run(command)
    return command

for place in "$0".split():
    gdb.execute("break " + place)
visit("start")
for _ in range($1):
    visit(move())
# Every state again, in another order.
for where in sorted(seen, key=lambda _: random.random())[:$1 // 4]:
    gdb.execute("monitor goto " + where, to_string=True)
    gdb.execute("maintenance flush register-cache", to_string=True)
    visit("goto")
say("different", different)
say("states", len(seen))
end
)";

void Walk(const Recorded& recorded, const std::string& breakpoints) {
  const std::string moves = Setting("WALK_MOVES", "120");
  const std::string seed = Setting("WALK_SEED", "1");
  std::printf("WALK_SEED=%s WALK_MOVES=%s\n", seed.c_str(), moves.c_str());
  Server server(recorded.trace());
  const GdbResult gdb = server.RunGdb(absl::Substitute(kWalk, breakpoints, moves, seed));
  EXPECT_EQ(gdb.Answer("different"), "[]") << gdb.text;
  int states = 0;
  EXPECT_TRUE(absl::SimpleAtoi(gdb.Answer("states"), &states)) << gdb.text;
  EXPECT_GT(states, 10);
}

TEST(GdbWalkTest, AcrossManySegments) {
  Walk(Recorded({Program("steps")}, {}, {"--light-keyframe-interval=5000"}),
       "main accumulate triple");
}

TEST(GdbWalkTest, ThroughSignals) { Walk(Recorded({Program("alarms")}), "on_alarm on_user"); }

TEST(GdbWalkTest, ThroughChangingMemoryMaps) {
  Walk(Recorded({Program("memory_maps")}, {},
                {"--light-keyframe-interval=1000000", "--full-keyframe-interval=5000000"}),
       "mmap munmap readv");
}

TEST(GdbWalkTest, ThroughFaultsAndNativeInstructions) {
  Walk(Recorded({Program("faults")}), "on_fault report");
}

}  // namespace
}  // namespace hindsight::e2e
