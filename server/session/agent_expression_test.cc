#include "server/session/agent_expression.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"

namespace hindsight {
namespace {

class FakeContext final : public ExpressionContext {
 public:
  absl::StatusOr<uint64_t> Register(int number) override {
    if (number != 0x0102) return absl::NotFoundError("register");
    return 0x123456789abcdef0;
  }
  absl::Status Memory(uint64_t address, absl::Span<uint8_t> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      if (address + i < 0x1000 || address + i >= 0x1008) return absl::NotFoundError("memory");
      out[i] = static_cast<uint8_t>(0x81 + (address + i - 0x1000));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<int64_t> Evaluate(absl::string_view hex) {
  FakeContext context;
  return EvaluateExpression(rsp::HexDecode(hex).value(), &context);
}

// Pushes `value`.
std::string Const(int64_t value) {
  return absl::StrCat("25", absl::Hex(static_cast<uint64_t>(value), absl::kZeroPad16));
}

// What `a OPCODE b` is.
absl::StatusOr<int64_t> Apply(int64_t a, absl::string_view opcode, int64_t b) {
  return Evaluate(absl::StrCat(Const(a), Const(b), opcode, "27"));
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(AgentExpressionTest, Constants) {
  EXPECT_EQ(*Evaluate("22ff27"), 0xff);
  EXPECT_EQ(*Evaluate("23123427"), 0x1234);
  EXPECT_EQ(*Evaluate("248000000027"), 0x80000000);
  EXPECT_EQ(*Evaluate("25fffffffffffffffe27"), -2);
}

TEST(AgentExpressionTest, Arithmetic) {
  EXPECT_EQ(*Apply(7, "02", -9), -2);
  EXPECT_EQ(*Apply(kMax, "02", 1), kMin);
  EXPECT_EQ(*Apply(7, "03", 9), -2);
  EXPECT_EQ(*Apply(-7, "04", 9), -63);
  EXPECT_EQ(*Apply(-7, "05", 2), -3);
  EXPECT_EQ(*Apply(-1, "06", 2), kMax);
  EXPECT_EQ(*Apply(-7, "07", 2), -1);
  EXPECT_EQ(*Apply(-1, "08", 10), 5);
  EXPECT_EQ(*Apply(kMin, "05", -1), kMin);
  EXPECT_EQ(*Apply(kMin, "07", -1), 0);
}

TEST(AgentExpressionTest, DivisionByZeroFails) {
  for (const char* opcode : {"05", "06", "07", "08"}) EXPECT_FALSE(Apply(1, opcode, 0).ok());
}

TEST(AgentExpressionTest, Shifts) {
  EXPECT_EQ(*Apply(1, "09", 63), kMin);
  EXPECT_EQ(*Apply(1, "09", 64), 0);
  EXPECT_EQ(*Apply(-8, "0a", 1), -4);
  EXPECT_EQ(*Apply(-8, "0a", 200), -1);
  EXPECT_EQ(*Apply(-1, "0b", 63), 1);
  EXPECT_EQ(*Apply(-1, "0b", 64), 0);
}

TEST(AgentExpressionTest, LogicAndComparison) {
  EXPECT_EQ(*Evaluate("22000e27"), 1);
  EXPECT_EQ(*Evaluate("22050e27"), 0);
  EXPECT_EQ(*Apply(12, "0f", 10), 8);
  EXPECT_EQ(*Apply(12, "10", 10), 14);
  EXPECT_EQ(*Apply(12, "11", 10), 6);
  EXPECT_EQ(*Evaluate("22001227"), -1);
  EXPECT_EQ(*Apply(3, "13", 3), 1);
  EXPECT_EQ(*Apply(-1, "14", 1), 1);
  EXPECT_EQ(*Apply(-1, "15", 1), 0);
}

TEST(AgentExpressionTest, Extensions) {
  EXPECT_EQ(*Evaluate("22ff160827"), -1);
  EXPECT_EQ(*Evaluate("227f160827"), 0x7f);
  EXPECT_EQ(*Evaluate(absl::StrCat(Const(-1), "2a0827")), 0xff);
  EXPECT_EQ(*Evaluate(absl::StrCat(Const(-1), "2a4027")), -1);
  EXPECT_FALSE(Evaluate("22ff160027").ok());
}

TEST(AgentExpressionTest, Memory) {
  EXPECT_EQ(*Evaluate("2310001727"), 0x81);
  EXPECT_EQ(*Evaluate("2310011827"), 0x8382);
  EXPECT_EQ(*Evaluate("2310041927"), 0x88878685);
  EXPECT_EQ(*Evaluate("2310001a27"), static_cast<int64_t>(0x8887868584838281));
  EXPECT_TRUE(absl::IsNotFound(Evaluate("2310011a27").status()));
}

TEST(AgentExpressionTest, Registers) {
  EXPECT_EQ(*Evaluate("26010227"), 0x123456789abcdef0);
  EXPECT_TRUE(absl::IsNotFound(Evaluate("26000027").status()));
}

TEST(AgentExpressionTest, Stack) {
  EXPECT_EQ(*Evaluate("2203280227"), 6);      // dup add
  EXPECT_EQ(*Evaluate("220322042927"), 3);    // pop
  EXPECT_EQ(*Evaluate("220322052b0327"), 2);  // swap sub
  EXPECT_EQ(*Evaluate("2201220222033202"
                      "27"),
            1);  // pick 2
  EXPECT_EQ(*Evaluate("22012202220333"
                      "27"),
            2);  // rot: 1 2 3 => 3 1 2
  EXPECT_EQ(*Evaluate("2201220222033329"
                      "27"),
            1);
  EXPECT_EQ(*Evaluate("220122022203332929"
                      "27"),
            3);
}

TEST(AgentExpressionTest, Jumps) {
  EXPECT_EQ(*Evaluate("2201200008220527220627"), 6);
  EXPECT_EQ(*Evaluate("2200200008220527220627"), 5);
  EXPECT_EQ(*Evaluate("210006220527220627"), 6);
}

TEST(AgentExpressionTest, EndlessLoopFails) {
  EXPECT_TRUE(absl::IsResourceExhausted(Evaluate("210000").status()));
}

TEST(AgentExpressionTest, EndlessStackFails) {
  EXPECT_TRUE(absl::IsInvalidArgument(Evaluate("2201210000").status()));
}

TEST(AgentExpressionTest, BadBytecodeFails) {
  for (const char* code :
       {"", "27", "22", "2501", "02", "220102", "28", "2b", "220133", "2201320127", "2201",
        "21ffff", "2620", "00", "01", "2201220130", "ff", "2b27"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Evaluate(code).status())) << code;
  }
}

// Every two-byte and three-byte beginning, on a stack with something on it: no crash, no hang.
TEST(AgentExpressionTest, AnyBytesEnd) {
  FakeContext context;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      std::string code = "\x22\x01\x22\x02\x22\x03";
      code += {static_cast<char>(a), static_cast<char>(b), '\0', '\x27'};
      (void)EvaluateExpression(code, &context);
    }
  }
}

}  // namespace
}  // namespace hindsight
