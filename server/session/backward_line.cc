#include "server/session/backward_line.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

struct Place {
  uint64_t pc = 0, sp = 0;
};

std::optional<uint64_t> ReadWord(Target* target, ThreadRef thread, int number) {
  const absl::StatusOr<std::string> bytes = target->ReadRegister(thread, number);
  uint64_t value = 0;
  if (!bytes.ok() || bytes->size() != sizeof(value)) return std::nullopt;
  std::memcpy(&value, bytes->data(), sizeof(value));
  return value;
}

std::optional<Place> PlaceOf(Target* target, ThreadRef thread) {
  const std::optional<uint64_t> pc = ReadWord(target, thread, kRegisterRip);
  const std::optional<uint64_t> sp = ReadWord(target, thread, kRegisterRsp);
  if (!pc.has_value() || !sp.has_value()) return std::nullopt;
  return Place{*pc, *sp};
}

const BackwardLine* LineAt(const std::vector<BackwardLine>& lines, uint64_t pc) {
  const auto line = std::find_if(lines.begin(), lines.end(), [pc](const BackwardLine& candidate) {
    return candidate.start <= pc && pc < candidate.end;
  });
  return line == lines.end() ? nullptr : &*line;
}

// Whether a step back from `from` to `to` has led into a function that the line had called.
bool IsReturn(const Place& from, const Place& to) { return to.sp == from.sp - sizeof(uint64_t); }

// To the last state in which control entered `line`, of this frame: frames of functions called
// since, which may be this one again, lie at lower addresses.
absl::StatusOr<RunStop> RunToEntry(Target* target, const RunRequest& step, const BackwardLine& line,
                                   uint64_t sp) {
  RunRequest run = step;
  run.step = false;
  const StopCondition in_frame = [target, wanted = step.thread, sp](int32_t thread) {
    return thread == wanted &&
           ReadWord(target, target->ThreadOf(thread), kRegisterRsp).value_or(sp) >= sp;
  };
  const auto add = [&](uint64_t address) {
    run.breakpoints.push_back({.address = address, .condition = in_frame});
  };
  add(line.start);
  for (const uint64_t entry : line.entries) add(entry);
  return target->Resume(std::move(run));
}

}  // namespace

absl::StatusOr<std::vector<BackwardLine>> ParseBackwardLines(absl::string_view text) {
  std::vector<BackwardLine> lines;
  for (const absl::string_view part : absl::StrSplit(text, ';', absl::SkipEmpty())) {
    std::vector<uint64_t> numbers;
    for (const absl::string_view digits : absl::StrSplit(part, ',')) {
      const std::optional<uint64_t> number = rsp::ParseHex(digits);
      if (!number.has_value()) return absl::InvalidArgumentError("not a hexadecimal number");
      numbers.push_back(*number);
    }
    if (numbers.size() < 2 || numbers[0] >= numbers[1]) {
      return absl::InvalidArgumentError("expected START,END");
    }
    lines.push_back({numbers[0], numbers[1], {numbers.begin() + 2, numbers.end()}});
  }
  return lines;
}

absl::StatusOr<RunStop> StepBackward(Target* target, const RunRequest& request,
                                     const std::vector<BackwardLine>& lines) {
  const std::optional<Place> from = PlaceOf(target, target->ThreadOf(request.thread));
  ASSIGN_OR_RETURN(RunStop event, target->Resume(request));
  if (event.kind != StopKind::kStep || event.thread != request.thread || !from.has_value()) {
    return event;
  }
  const BackwardLine* line = LineAt(lines, from->pc);
  const std::optional<Place> to = PlaceOf(target, target->ThreadOf(request.thread));
  if (line == nullptr || !to.has_value() || to->pc == line->start) return event;
  // The first state of the line was left backward: gdb continues from where control came from.
  const bool inside = LineAt(lines, to->pc) == line;
  const bool called = !inside && from->pc != line->start && IsReturn(*from, *to);
  if (!inside && !called) return event;
  return RunToEntry(target, request, *line, called ? from->sp : std::min(from->sp, to->sp));
}

}  // namespace hindsight
