// Vector registers in gdb: walking a recording backward shows what the processor computes, as gdb
// sees it on the live process.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
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
  const GdbResult live = RunGdbOnProgram(Program("sse_registers"), R"(
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

// The extended registers at a breakpoint: filled, restored, and set to zero.
constexpr char kExtended[] = R"(
def vector(name): return str(gdb.selected_frame().read_register(name)["v8_int64"])
for stop in range(3):
    gdb.execute("continue", to_string=True)
    frame = gdb.selected_frame()
    for i in range(32): say("zmm %d %d" % (stop, i), vector("zmm%d" % i))
    for i in range(16): say("ymm %d %d" % (stop, i), frame.read_register("ymm%d" % i)["v4_int64"])
    for i in range(8): say("k %d %d" % (stop, i), int(frame.read_register("k%d" % i)))
)";

TEST(GdbRegistersTest, ExtendedOnesAreAsOnTheLiveProcess) {
  const std::vector<std::string> features = {"avx512f", "avx512bw", "avx512dq", "xsavec"};
  if (!HostHas(features)) GTEST_SKIP() << "this host's processors lack them";
  const std::string ask = kExtended;
  const GdbResult live = RunGdbOnProgram(Program("extended_state"), R"(
break *state
python)" + ask + R"(
end
kill
)");
  const Recorded recorded({Program("extended_state")});
  const GdbResult seen = RunGdb(recorded.trace(), R"(
break *state
python)" + ask + R"(
end
)");
  const std::string filled = live.Answer("zmm 0 31");
  EXPECT_NE(filled, live.Answer("zmm 2 31")) << live.text;
  for (int stop = 0; stop < 3; ++stop) {
    for (const auto& [kind, count] : {std::pair{"zmm", 32}, {"ymm", 16}, {"k", 8}}) {
      for (int i = 0; i < count; ++i) {
        const std::string what = absl::StrCat(kind, " ", stop, " ", i);
        ASSERT_NE(live.Answer(what), "") << what << live.text;
        EXPECT_EQ(seen.Answer(what), live.Answer(what)) << what;
      }
    }
  }
}

}  // namespace
}  // namespace hindsight::e2e
