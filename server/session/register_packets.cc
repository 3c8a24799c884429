// Registers: g, G, p, P. Writes go to a throw-away copy of the program (see diversion.h).

#include <string>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/diversion.h"
#include "server/session/packet_table.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

struct RegisterWrite {
  int number = 0;
  std::string bytes;
};

absl::Span<const RegisterInfo> Described(SessionState& state) {
  return Registers(state.target->register_set());
}

absl::Status CheckNumber(SessionState& state, int number) {
  if (static_cast<size_t>(number) < Described(state).size()) return absl::OkStatus();
  return absl::InvalidArgumentError("no such register");
}

absl::StatusOr<int> ParseRegister(absl::string_view arguments) {
  const std::optional<uint64_t> number = rsp::ParseHex(arguments);
  if (!number.has_value() || *number >= kRegisterCount) {
    return absl::InvalidArgumentError("no such register");
  }
  return static_cast<int>(*number);
}

absl::StatusOr<RegisterWrite> ParseRegisterWrite(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  ASSIGN_OR_RETURN(const int number, ParseRegister(scanner.Until('=')));
  std::optional<std::string> bytes = rsp::HexDecode(scanner.rest());
  if (!bytes.has_value() || bytes->size() * 8 != static_cast<size_t>(Registers()[number].bits)) {
    return absl::InvalidArgumentError("wrong size of a register's value");
  }
  return RegisterWrite{number, *std::move(bytes)};
}

absl::StatusOr<std::string> ParseAllRegisters(absl::string_view arguments) {
  std::optional<std::string> bytes = rsp::HexDecode(arguments);
  if (!bytes.has_value()) return absl::InvalidArgumentError("registers are not hexadecimal");
  return *std::move(bytes);
}

absl::StatusOr<std::string> Read(SessionState& state, ThreadRef thread, int number) {
  if (state.forks.child_selected) return absl::NotFoundError("a process recorded on its own");
  return state.target->ReadRegister(thread, number);
}

Reply ReadAll(SessionState& state, absl::string_view) {
  const ThreadRef thread = state.SelectedThread();
  std::string reply;
  int number = 0;
  for (const RegisterInfo& info : Described(state)) {
    const absl::StatusOr<std::string> bytes = Read(state, thread, number++);
    if (bytes.ok()) {
      rsp::AppendHex(*bytes, &reply);
    } else if (absl::IsNotFound(bytes.status())) {
      reply.append(info.bits / 4, 'x');
    } else {
      return bytes.status();
    }
  }
  return reply;
}

Reply ReadOne(SessionState& state, int number) {
  RETURN_IF_ERROR(CheckNumber(state, number));
  const absl::StatusOr<std::string> bytes = Read(state, state.SelectedThread(), number);
  if (absl::IsNotFound(bytes.status())) return std::string(Registers()[number].bits / 4, 'x');
  RETURN_IF_ERROR(bytes.status());
  return rsp::HexEncode(*bytes);
}

// An error reply would make gdb give up the connection; "not supported" it shows to the user.
Reply AnswerWrite(const absl::Status& status) { return status.ok() ? "OK" : ""; }

Reply WriteOne(SessionState& state, const RegisterWrite& write) {
  RETURN_IF_ERROR(CheckNumber(state, write.number));
  Diversion diversion(&state);
  return AnswerWrite(diversion.WriteRegister(write.number, write.bytes));
}

Reply WriteAll(SessionState& state, const std::string& bytes) {
  size_t expected = 0;
  for (const RegisterInfo& info : Described(state)) expected += info.bits / 8;
  if (bytes.size() != expected) return absl::InvalidArgumentError("wrong number of registers");
  Diversion diversion(&state);
  size_t offset = 0;
  int next = 0;
  for (const RegisterInfo& info : Described(state)) {
    const int number = next++;
    const std::string value = bytes.substr(offset, info.bits / 8);
    offset += value.size();
    // Writing the present value must not begin a diversion.
    const absl::StatusOr<std::string> present =
        state.target->ReadRegister(state.SelectedThread(), number);
    if (present.ok() && *present == value) continue;
    // gdb comes here after `P` was not supported, and takes a second such answer for success.
    RETURN_IF_ERROR(diversion.WriteRegister(number, value));
  }
  return "OK";
}

constexpr PacketSpec kPackets[] = {
    {"g", Match::kWhole, ReadAll},
    {"G", Match::kPrefix, Bound<ParseAllRegisters, WriteAll>},
    {"p", Match::kPrefix, Bound<ParseRegister, ReadOne>},
    {"P", Match::kPrefix, Bound<ParseRegisterWrite, WriteOne>},
};

}  // namespace

absl::Span<const PacketSpec> RegisterPackets() { return kPackets; }

}  // namespace hindsight
