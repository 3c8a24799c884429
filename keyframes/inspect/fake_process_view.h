// A process at rest for tests: registers and pages as set, no files or events.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_FAKE_PROCESS_VIEW_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_FAKE_PROCESS_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "keyframes/inspect/process_view.h"

namespace hindsight {

class FakeProcessView final : public ProcessView {
 public:
  std::map<int32_t, RegisterFile> registers;  // by thread
  std::map<int32_t, int64_t> syscall_numbers;
  std::map<uint64_t, std::vector<uint8_t>> pages;  // whole ones, by address
  std::set<uint64_t> untouched;                    // pages
  std::vector<MapRegion> regions;
  std::string missing;

  int32_t pid() const override { return registers.begin()->first; }
  std::vector<int32_t> threads() const override {
    std::vector<int32_t> ids;
    for (const auto& [thread, file] : registers) ids.push_back(thread);
    return ids;
  }
  bool IsAlive(int32_t thread) const override { return registers.contains(thread); }
  std::string Missing() const override { return missing; }
  std::string ThreadName(int32_t) const override { return "fake"; }
  std::optional<int> ThreadProcessor(int32_t) override { return std::nullopt; }

  absl::StatusOr<RegisterFile> Registers(int32_t thread) override {
    if (!IsAlive(thread)) return absl::NotFoundError("no such thread");
    return registers.at(thread);
  }
  int64_t SyscallNumber(int32_t thread) const override {
    const auto known = syscall_numbers.find(thread);
    return known == syscall_numbers.end() ? -1 : known->second;
  }
  absl::StatusOr<std::string> SigInfo(int32_t) const override {
    return absl::NotFoundError("no signal");
  }

  absl::StatusOr<size_t> ReadMemory(int32_t, uint64_t address, absl::Span<uint8_t> out) override {
    const auto page = pages.find(address - address % kPageBytes);
    if (page == pages.end()) return absl::NotFoundError("no such page");
    const size_t size = std::min<size_t>(out.size(), kPageBytes - address % kPageBytes);
    std::copy_n(page->second.begin() + address % kPageBytes, size, out.begin());
    return size;
  }
  bool IsUntouched(int32_t, uint64_t address) override {
    return untouched.contains(address - address % kPageBytes);
  }
  std::vector<MapRegion> Regions() const override { return regions; }

  absl::StatusOr<std::string> Auxv() const override { return absl::NotFoundError("no auxv"); }
  std::string ExecutablePath() const override { return "/fake"; }
  LinkMap Libraries(MemoryReader) const override { return {}; }
  absl::StatusOr<uint64_t> TlsAddress(uint64_t, uint64_t, uint64_t, MemoryReader) override {
    return absl::NotFoundError("no thread-local storage");
  }
  absl::StatusOr<std::string> ReadLink(const std::string&, MemoryReader) override {
    return absl::NotFoundError("no such file");
  }
  absl::StatusOr<std::string> FileContents(const std::string&, MemoryReader) override {
    return absl::NotFoundError("no such file");
  }
  absl::StatusOr<std::string> ListEvents(const EventFilter&, const std::atomic<bool>*) override {
    return std::string("no events\n");
  }
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_FAKE_PROCESS_VIEW_H_
