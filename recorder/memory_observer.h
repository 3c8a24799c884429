// Looks at the memory of a process that is being recorded, from outside and through the kernel
// only: the truth that recordings are compared with.
//
// The process asks to be looked at (testdata/memory_truth.h) and waits. Everything that is mapped
// is looked at then, without touching what the process has not touched. Not copyable. Observe runs
// in one thread; the rest is for after it.

#ifndef HINDSIGHT_RECORDER_MEMORY_OBSERVER_H_
#define HINDSIGHT_RECORDER_MEMORY_OBSERVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recorder/process/memory_map.h"
#include "recorder/testdata/memory_truth.h"
#include "tracefmt/records.h"

namespace hindsight {

class MemoryObserver {
 public:
  using Bytes = std::array<uint8_t, kPageBytes>;
  // What one look showed.
  struct Look {
    Request request = {};
    uint64_t ordinal = 0;  // among the process's requests
    MemoryMap map;
    std::map<uint64_t, const Bytes*> pages;  // by address
    // Mapped, but cannot be read: beyond the end of a file.
    std::set<uint64_t> faulting;
  };

  // `requests` and `answers` are FIFOs, which are made.
  MemoryObserver(const std::string& requests, const std::string& answers);
  ~MemoryObserver();
  MemoryObserver(const MemoryObserver&) = delete;
  MemoryObserver& operator=(const MemoryObserver&) = delete;

  // Answers requests until Stop.
  void Observe();
  void Stop() { stop_ = true; }

  const std::vector<Look>& looks() const { return looks_; }

 private:
  void AwaitQuiet(const Request& request) const;
  void LookAt(const Request& request);
  void LookAtRegion(const MapRegion& region, int memory, int pagemap, Look* look);
  const Bytes* Keep(const Bytes& bytes) { return &*contents_.insert(bytes).first; }

  int requests_ = -1, answers_ = -1;
  std::atomic<bool> stop_ = false;
  std::set<Bytes> contents_;
  std::map<int32_t, uint64_t> ordinals_;
  std::vector<Look> looks_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_MEMORY_OBSERVER_H_
