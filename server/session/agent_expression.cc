#include "server/session/agent_expression.h"

#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Conditions that walk a list by means of goto do not exist; gdb emits only forward jumps.
constexpr int kMaxSteps = 100'000;
constexpr size_t kMaxStack = 1024;

enum Opcode : uint8_t {
  kAdd = 0x02,
  kSub = 0x03,
  kMul = 0x04,
  kDivSigned = 0x05,
  kDivUnsigned = 0x06,
  kRemSigned = 0x07,
  kRemUnsigned = 0x08,
  kLsh = 0x09,
  kRshSigned = 0x0a,
  kRshUnsigned = 0x0b,
  kLogNot = 0x0e,
  kBitAnd = 0x0f,
  kBitOr = 0x10,
  kBitXor = 0x11,
  kBitNot = 0x12,
  kEqual = 0x13,
  kLessSigned = 0x14,
  kLessUnsigned = 0x15,
  kExt = 0x16,
  kRef8 = 0x17,
  kRef16 = 0x18,
  kRef32 = 0x19,
  kRef64 = 0x1a,
  kIfGoto = 0x20,
  kGoto = 0x21,
  kConst8 = 0x22,
  kConst16 = 0x23,
  kConst32 = 0x24,
  kConst64 = 0x25,
  kReg = 0x26,
  kEnd = 0x27,
  kDup = 0x28,
  kPop = 0x29,
  kZeroExt = 0x2a,
  kSwap = 0x2b,
  kPick = 0x32,
  kRot = 0x33,
};

absl::StatusOr<uint64_t> Divide(uint8_t opcode, uint64_t a, uint64_t b) {
  if (b == 0) return absl::InvalidArgumentError("division by zero in a condition");
  // The one signed quotient that does not fit wraps, as everything else here does.
  const bool overflow = static_cast<int64_t>(a) == std::numeric_limits<int64_t>::min() &&
                        static_cast<int64_t>(b) == -1;
  switch (opcode) {
    case kDivSigned:
      return overflow ? a : static_cast<uint64_t>(int64_t(a) / int64_t(b));
    case kRemSigned:
      return overflow ? 0 : static_cast<uint64_t>(int64_t(a) % int64_t(b));
    case kDivUnsigned:
      return a / b;
    default:
      return a % b;
  }
}

// All with two operands except divisions; false if `opcode` is not one of them.
bool Binary(uint8_t opcode, uint64_t a, uint64_t b, uint64_t* result) {
  const auto signed_a = static_cast<int64_t>(a);
  switch (opcode) {
    case kAdd:
      *result = a + b;
      return true;
    case kSub:
      *result = a - b;
      return true;
    case kMul:
      *result = a * b;
      return true;
    case kLsh:
      *result = b < 64 ? a << b : 0;
      return true;
    case kRshSigned:
      *result = static_cast<uint64_t>(signed_a >> (b < 64 ? b : 63));
      return true;
    case kRshUnsigned:
      *result = b < 64 ? a >> b : 0;
      return true;
    case kBitAnd:
      *result = a & b;
      return true;
    case kBitOr:
      *result = a | b;
      return true;
    case kBitXor:
      *result = a ^ b;
      return true;
    case kEqual:
      *result = a == b;
      return true;
    case kLessSigned:
      *result = signed_a < static_cast<int64_t>(b);
      return true;
    case kLessUnsigned:
      *result = a < b;
      return true;
    default:
      return false;
  }
}

class Evaluator {
 public:
  Evaluator(absl::string_view code, ExpressionContext* context) : code_(code), context_(context) {}

  absl::StatusOr<int64_t> Run() {
    for (int step = 0; step < kMaxSteps; ++step) {
      ASSIGN_OR_RETURN(const uint64_t opcode, Operand(1));
      if (opcode == kEnd) {
        ASSIGN_OR_RETURN(const uint64_t value, Pop());
        return static_cast<int64_t>(value);
      }
      RETURN_IF_ERROR(Execute(static_cast<uint8_t>(opcode)));
    }
    return absl::ResourceExhaustedError("a condition does not end");
  }

 private:
  absl::Status Execute(uint8_t opcode) {
    switch (opcode) {
      case kLogNot:
      case kBitNot:
        return Unary(opcode);
      case kExt:
      case kZeroExt:
        return Extend(opcode);
      case kRef8:
      case kRef16:
      case kRef32:
      case kRef64:
        return Dereference(size_t{1} << (opcode - kRef8));
      case kConst8:
      case kConst16:
      case kConst32:
      case kConst64: {
        ASSIGN_OR_RETURN(const uint64_t value, Operand(size_t{1} << (opcode - kConst8)));
        return Push(value);
      }
      case kReg: {
        ASSIGN_OR_RETURN(const uint64_t number, Operand(2));
        ASSIGN_OR_RETURN(const uint64_t value, context_->Register(static_cast<int>(number)));
        return Push(value);
      }
      case kIfGoto:
      case kGoto:
        return Jump(opcode);
      case kDup:
      case kPop:
      case kSwap:
      case kPick:
      case kRot:
        return Shuffle(opcode);
      default:
        return TwoOperands(opcode);
    }
  }

  absl::Status Unary(uint8_t opcode) {
    ASSIGN_OR_RETURN(const uint64_t value, Pop());
    return Push(opcode == kLogNot ? value == 0 : ~value);
  }

  absl::Status Extend(uint8_t opcode) {
    ASSIGN_OR_RETURN(const uint64_t bits, Operand(1));
    ASSIGN_OR_RETURN(const uint64_t value, Pop());
    if (bits == 0) return absl::InvalidArgumentError("extension from no bits in a condition");
    if (bits >= 64) return Push(value);
    const uint64_t shift = 64 - bits;
    if (opcode == kZeroExt) return Push(value << shift >> shift);
    return Push(static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift));
  }

  absl::Status Dereference(size_t size) {
    ASSIGN_OR_RETURN(const uint64_t address, Pop());
    std::array<uint8_t, 8> bytes{};
    RETURN_IF_ERROR(context_->Memory(address, absl::MakeSpan(bytes).first(size)));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));  // amd64 memory is little-endian, as are we
    return Push(value);
  }

  absl::Status Jump(uint8_t opcode) {
    ASSIGN_OR_RETURN(const uint64_t offset, Operand(2));
    if (opcode == kIfGoto) {
      ASSIGN_OR_RETURN(const uint64_t condition, Pop());
      if (condition == 0) return absl::OkStatus();
    }
    next_ = offset;
    return absl::OkStatus();
  }

  absl::Status Shuffle(uint8_t opcode) {
    uint64_t depth = opcode == kSwap ? 2 : opcode == kRot ? 3 : 1;
    if (opcode == kPick) {
      ASSIGN_OR_RETURN(depth, Operand(1));
      ++depth;
    }
    if (stack_.size() < depth) return Underflow();
    const size_t top = stack_.size() - 1;
    switch (opcode) {
      case kDup:
        return Push(stack_[top]);
      case kPick:
        return Push(stack_[top + 1 - depth]);
      case kPop:
        stack_.pop_back();
        break;
      case kSwap:
        std::swap(stack_[top], stack_[top - 1]);
        break;
      default:  // kRot: a b c => c a b
        std::swap(stack_[top], stack_[top - 1]);
        std::swap(stack_[top - 1], stack_[top - 2]);
    }
    return absl::OkStatus();
  }

  absl::Status TwoOperands(uint8_t opcode) {
    ASSIGN_OR_RETURN(const uint64_t b, Pop());
    ASSIGN_OR_RETURN(const uint64_t a, Pop());
    if (opcode >= kDivSigned && opcode <= kRemUnsigned) {
      ASSIGN_OR_RETURN(const uint64_t quotient, Divide(opcode, a, b));
      return Push(quotient);
    }
    uint64_t result = 0;
    if (Binary(opcode, a, b, &result)) return Push(result);
    return absl::InvalidArgumentError(
        absl::StrCat("unknown operation 0x", absl::Hex(opcode), " in a condition"));
  }

  absl::Status Push(uint64_t value) {
    if (stack_.size() == kMaxStack)
      return absl::InvalidArgumentError("a condition's stack is full");
    stack_.push_back(value);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Pop() {
    if (stack_.empty()) return Underflow();
    const uint64_t value = stack_.back();
    stack_.pop_back();
    return value;
  }

  // The big-endian operand of `size` bytes that comes next in the code.
  absl::StatusOr<uint64_t> Operand(size_t size) {
    if (next_ > code_.size() || size > code_.size() - next_) {
      return absl::InvalidArgumentError("a condition runs past its end");
    }
    uint64_t value = 0;
    for (; size > 0; --size) value = value << 8 | static_cast<uint8_t>(code_[next_++]);
    return value;
  }

  static absl::Status Underflow() {
    return absl::InvalidArgumentError("a condition takes more from the stack than is there");
  }

  absl::string_view code_;
  ExpressionContext* context_;
  size_t next_ = 0;
  std::vector<uint64_t> stack_;
};

}  // namespace

absl::StatusOr<int64_t> EvaluateExpression(absl::string_view bytecode, ExpressionContext* context) {
  return Evaluator(bytecode, context).Run();
}

}  // namespace hindsight
