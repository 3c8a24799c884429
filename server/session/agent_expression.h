// Evaluates gdb's agent expressions: the bytecode in which gdb sends the conditions of breakpoints.
//
// The language is that of GDB's manual, appendix "The GDB Agent Expression Mechanism": a stack of
// 64-bit integers. Floating point and tracing, which gdb never puts into conditions, are errors.

#ifndef HINDSIGHT_SERVER_SESSION_AGENT_EXPRESSION_H_
#define HINDSIGHT_SERVER_SESSION_AGENT_EXPRESSION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hindsight {

// What an expression can see of the program.
class ExpressionContext {
 public:
  virtual ~ExpressionContext() = default;
  // The value of the register with that number, cut to 64 bits.
  virtual absl::StatusOr<uint64_t> Register(int number) = 0;
  // Fills all of `out`, or fails.
  virtual absl::Status Memory(uint64_t address, absl::Span<uint8_t> out) = 0;
};

// The value on top of the stack at the end. Errors: kInvalidArgument for bytecode that is not
// valid (also a division by zero), kResourceExhausted if it does not end within a bounded number of
// steps, or what `context` answered.
absl::StatusOr<int64_t> EvaluateExpression(absl::string_view bytecode, ExpressionContext* context);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_AGENT_EXPRESSION_H_
