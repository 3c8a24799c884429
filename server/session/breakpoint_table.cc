#include "server/session/breakpoint_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/session/agent_expression.h"

namespace hindsight {
namespace {

// The program as a condition reads it: in the thread that reached the breakpoint.
class ThreadContext final : public ExpressionContext {
 public:
  ThreadContext(Target* target, ThreadRef thread) : target_(target), thread_(thread) {}

  absl::StatusOr<uint64_t> Register(int number) override {
    ASSIGN_OR_RETURN(const std::string bytes, target_->ReadRegister(thread_, number));
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return value;
  }

  absl::Status Memory(uint64_t address, absl::Span<uint8_t> out) override {
    ASSIGN_OR_RETURN(const size_t size, target_->ReadMemory(thread_, address, out));
    return size == out.size() ? absl::OkStatus()
                              : absl::NotFoundError("memory that is not in the trace");
  }

 private:
  Target* target_;
  ThreadRef thread_;
};

WatchKind ToWatchKind(BreakpointType type) {
  switch (type) {
    case BreakpointType::kRead:
      return WatchKind::kRead;
    case BreakpointType::kAccess:
      return WatchKind::kAccess;
    default:
      return WatchKind::kWrite;
  }
}

}  // namespace

void BreakpointTable::Insert(BreakpointRequest request) {
  entries_[Key(request.type, request.address, request.kind)] = std::move(request.conditions);
  stale_ = true;
}

void BreakpointTable::Remove(const BreakpointRequest& request) {
  if (entries_.erase(Key(request.type, request.address, request.kind)) > 0) stale_ = true;
}

void BreakpointTable::RemoveAt(uint64_t address) {
  const size_t removed = std::erase_if(entries_, [address](const auto& entry) {
    const auto& [type, at, kind] = entry.first;
    return at == address &&
           (type == BreakpointType::kSoftware || type == BreakpointType::kHardware);
  });
  if (removed > 0) stale_ = true;
}

void BreakpointTable::RemoveAll() {
  entries_.clear();
  stale_ = true;
}

bool BreakpointTable::Contains(BreakpointType type, uint64_t address) const {
  const auto entry = entries_.lower_bound(Key(type, address, 0));
  return entry != entries_.end() && std::get<0>(entry->first) == type &&
         std::get<1>(entry->first) == address;
}

const std::vector<BreakpointSpec>& BreakpointTable::breakpoints() {
  if (stale_) Rebuild();
  return breakpoints_;
}

const std::vector<WatchpointSpec>& BreakpointTable::watchpoints() {
  if (stale_) Rebuild();
  return watchpoints_;
}

void BreakpointTable::Rebuild() {
  struct Conditions {
    bool always = false;
    std::vector<std::string> any;
  };
  std::map<uint64_t, Conditions> by_address;
  watchpoints_.clear();
  for (const auto& [key, conditions] : entries_) {
    const auto& [type, address, kind] = key;
    if (type != BreakpointType::kSoftware && type != BreakpointType::kHardware) {
      watchpoints_.push_back({.address = address,
                              .length = kind,
                              .kind = ToWatchKind(type),
                              .condition = Condition(conditions)});
      continue;
    }
    Conditions& here = by_address[address];
    here.always |= conditions.empty();
    here.any.insert(here.any.end(), conditions.begin(), conditions.end());
  }
  breakpoints_.clear();
  for (auto& [address, conditions] : by_address) {
    if (conditions.always) conditions.any.clear();
    breakpoints_.push_back({.address = address, .condition = Condition(std::move(conditions.any))});
  }
  stale_ = false;
}

bool BreakpointTable::AnyHolds(const std::vector<std::string>& conditions, ThreadRef thread) {
  ThreadContext context(target_, thread);
  return std::any_of(conditions.begin(), conditions.end(), [&](const std::string& bytecode) {
    const absl::StatusOr<int64_t> value = EvaluateExpression(bytecode, &context);
    // gdb evaluates the condition again and shows the user what is wrong with it.
    return !value.ok() || *value != 0;
  });
}

StopCondition BreakpointTable::Condition(std::vector<std::string> conditions) {
  if (conditions.empty()) return nullptr;
  // Shared: each run copies the breakpoints.
  auto shared = std::make_shared<const std::vector<std::string>>(std::move(conditions));
  return [this, shared = std::move(shared)](int32_t thread) {
    return AnyHolds(*shared, target_->ThreadOf(thread));
  };
}

}  // namespace hindsight
