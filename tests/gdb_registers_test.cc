// Vector registers in gdb: walking a recording backward shows what the processor computes, as gdb
// sees it on the live process.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Tells the registers before each instruction of the functions that compute, one line each, from
// here until `done` says so; `step` goes on by one instruction.
constexpr char kWalk[] = R"(
def offset(): return pc() - int(gdb.parse_and_eval("(unsigned long)&" + function()))
def walk(step, done):
    while True:
        if function() in ("first_part", "second_part"):
            frame = gdb.selected_frame()
            say("state", "%s+%d %s mxcsr %s flags %x xmm %s" % (
                function(), offset(), instruction(), frame.read_register("mxcsr"),
                int(frame.read_register("eflags")) & 0x8d5,
                " ".join(str(frame.read_register("xmm%d" % i)["v2_int64"]) for i in range(8))))
        if done(): break
        gdb.execute(step, to_string=True)
)";

TEST(GdbRegistersTest, SseBackwardIsAsOnTheLiveProcess) {
  if (!HostHas({"sse4_2"})) GTEST_SKIP() << "this host's processors lack them";
  const std::string walk = kWalk;
  const GdbResult live = RunGdbOnProgram({Program("sse_registers")}, R"(
break *first_part
continue
python)" + walk + R"(
walk("stepi", lambda: function() == "finished")
end
kill
)");
  const Recorded recorded({Program("sse_registers")});
  const GdbResult back = RunGdb(recorded.trace(), R"(
break finished
continue
delete
python)" + walk + R"(
walk("reverse-stepi", lambda: function() == "first_part" and offset() == 0)
end
)");
  std::vector<std::string> expected = live.Answers("state");
  std::vector<std::string> seen = back.Answers("state");
  std::reverse(seen.begin(), seen.end());
  ASSERT_GT(expected.size(), 3000u) << live.text;
  ASSERT_EQ(seen.size(), expected.size()) << back.text;
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], expected[i]) << "after " << (i == 0 ? "" : expected[i - 1]);
  }
}

// The extended registers at the first two calls of state(): with the upper parts of fill(5), and
// with zeros there.
constexpr char kExtended[] = R"(
def part(name, kind, lanes):
    value = gdb.selected_frame().read_register(name)[kind]
    return [int(value[i]) & (2**64 - 1) for i in range(lanes)]
def stops():
    for stop in range(2):
        gdb.execute("continue", to_string=True)
        for i in range(16): say("ymm %d %d" % (stop, i), part("ymm%d" % i, "v4_int64", 4))
        yield stop
)";

// gdb finds only the ymm registers on live processes on all processors: of AMD's, versions before
// 15 read the others where Intel's would be. So these must be what the program has put there.
TEST(GdbRegistersTest, ExtendedOnesAreAsOnTheLiveProcess) {
  const std::vector<std::string> features = {"avx512f", "avx512bw", "avx512dq", "xsavec"};
  if (!HostHas(features)) GTEST_SKIP() << "this host's processors lack them";
  const std::string extended = kExtended;
  const GdbResult live = RunGdbOnProgram({Program("extended_state")}, R"(
break *state
python)" + extended + R"(
for stop in stops(): pass
end
kill
)");
  const Recorded recorded({Program("extended_state")});
  const GdbResult seen = RunGdb(recorded.trace(), R"(
break *state
python)" + extended + R"(
def filled(seed, i): return seed * 31**(i // 4) * (1, 2, 3, 5)[i % 4] & (2**64 - 1)
for stop in stops():
    low, high = ((6, 5), (7, 0))[stop]
    wrong = []
    for i in range(32):
        lanes = [filled(low if i < 16 else high, i)] * 2 + [filled(high, i)] * 6
        if part("zmm%d" % i, "v8_int64", 8) != lanes: wrong.append("zmm%d" % i)
    for i, times in enumerate((0, 1, 2, 3, 5, 8, 13, 21)):
        mask = int(gdb.selected_frame().read_register("k%d" % i)) & (2**64 - 1)
        if mask != high * 31**8 * times: wrong.append("k%d" % i)
    say("wrong %d" % stop, wrong)
end
)");
  for (int stop = 0; stop < 2; ++stop) {
    for (int i = 0; i < 16; ++i) {
      const std::string what = absl::StrCat("ymm ", stop, " ", i);
      EXPECT_EQ(seen.Answer(what), live.Answer(what)) << what;
    }
    EXPECT_EQ(seen.Answer(absl::StrCat("wrong ", stop)), "[]") << seen.text;
  }
  EXPECT_NE(live.Answer("ymm 0 15"), live.Answer("ymm 1 15")) << live.text;
}

}  // namespace
}  // namespace hindsight::e2e
