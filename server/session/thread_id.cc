#include "server/session/thread_id.h"

#include <limits>

#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

std::optional<int32_t> ParseId(rsp::Scanner* scanner) {
  if (scanner->Consume(absl::string_view("-1"))) return kAllThreads;
  const std::optional<uint64_t> id = scanner->Hex();
  if (!id.has_value() || *id > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(*id);
}

}  // namespace

std::optional<ThreadRef> ParseThreadId(rsp::Scanner* scanner) {
  ThreadRef thread;
  if (scanner->Consume('p')) {
    const std::optional<int32_t> pid = ParseId(scanner);
    if (!pid.has_value()) return std::nullopt;
    thread.pid = *pid;
    thread.tid = kAllThreads;  // "p<pid>" alone means all its threads
    if (!scanner->Consume('.')) return thread;
  }
  const std::optional<int32_t> tid = ParseId(scanner);
  if (!tid.has_value()) return std::nullopt;
  thread.tid = *tid;
  return thread;
}

std::string ThreadId(ThreadRef thread, bool multiprocess) {
  return multiprocess ? absl::StrFormat("p%x.%x", thread.pid, thread.tid)
                      : absl::StrFormat("%x", thread.tid);
}

std::optional<ThreadRef> FindThread(const std::vector<ThreadRef>& threads, ThreadRef id) {
  for (const ThreadRef& thread : threads) {
    if (thread.tid == id.tid && (id.pid <= 0 || thread.pid == id.pid)) return thread;
  }
  return std::nullopt;
}

}  // namespace hindsight
