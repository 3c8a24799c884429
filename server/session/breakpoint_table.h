// The breakpoints and watchpoints a client has set, in the form the target takes.
//
// Borrows `target`, whose registers and memory the conditions read. Neither copyable nor movable
// (conditions point back). One thread at a time.

#ifndef HINDSIGHT_SERVER_SESSION_BREAKPOINT_TABLE_H_
#define HINDSIGHT_SERVER_SESSION_BREAKPOINT_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "server/target/target.h"

namespace hindsight {

// The digit after Z and z.
enum class BreakpointType : uint8_t { kSoftware, kHardware, kWrite, kRead, kAccess };

struct BreakpointRequest {
  BreakpointType type = BreakpointType::kSoftware;
  uint64_t address = 0;
  // Length in bytes of a watched location. For breakpoints what gdb says, without meaning here.
  uint64_t kind = 0;
  // Agent-expression bytecode. Any that is true (or cannot be evaluated) stops; none: always stop.
  std::vector<std::string> conditions;
};

class BreakpointTable {
 public:
  explicit BreakpointTable(Target* target) : target_(target) {}
  BreakpointTable(const BreakpointTable&) = delete;
  BreakpointTable& operator=(const BreakpointTable&) = delete;

  // Both may be repeated: a second insertion replaces the conditions, a second removal does
  // nothing.
  void Insert(BreakpointRequest request);
  void Remove(const BreakpointRequest& request);
  // Breakpoints, not watchpoints.
  void RemoveAt(uint64_t address);
  void RemoveAll();

  bool Contains(BreakpointType type, uint64_t address) const;

  // One per address, with the conditions of all breakpoints there. Valid until the next change.
  const std::vector<BreakpointSpec>& breakpoints();
  const std::vector<WatchpointSpec>& watchpoints();

 private:
  using Key = std::tuple<BreakpointType, uint64_t, uint64_t>;  // type, address, kind

  void Rebuild();
  bool AnyHolds(const std::vector<std::string>& conditions, ThreadRef thread);
  StopCondition Condition(std::vector<std::string> conditions);

  Target* target_;
  std::map<Key, std::vector<std::string>> entries_;
  bool stale_ = false;  // the two vectors do not reflect entries_
  std::vector<BreakpointSpec> breakpoints_;
  std::vector<WatchpointSpec> watchpoints_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_BREAKPOINT_TABLE_H_
