// Code that the process could write to, but has not written to for a while: stores to its pages are
// watched, so that its blocks need not check whether it is what they were translated from
// (code_check.h).
//
//   NoteCode --a while--> Due --Protect, Guard--> (guarded) --a store--> (checked) --longer--> Due
//
// Before a store to a guarded page is done its blocks check again. Who is past the check executes
// the block as it was, as processors do with code that others change.
//
// Writes through /proc/PID/mem and by ptrace fail where a guard is. When a recorded process may do
// so all guards of the recording end, and no other begins.
//
// Borrows the control block. Not copyable. One host thread, but for End, and for what StoreWatch's
// does.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_GUARD_H_
#define HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_GUARD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "recorder/translate/base/control.h"
#include "recorder/translate/guard/store_watch.h"
#include "tracefmt/records.h"

namespace hindsight {

class CodeGuard;

// Those of all processes of a recording. Any host thread.
class CodeGuards {
 public:
  // False: they have ended.
  bool Add(CodeGuard* guard);
  void Remove(CodeGuard* guard);
  void EndAll();

 private:
  std::mutex mutex_;
  std::set<CodeGuard*> all_;
  bool ended_ = false;
};

class CodeGuard {
 public:
  using Clock = std::chrono::steady_clock;
  // Where code of that host address can be written.
  using CodeAt = std::function<uint8_t*(uint64_t host)>;

  CodeGuard(std::shared_ptr<CodeGuards> all, ControlBlock* control, CodeAt code_at);
  ~CodeGuard();
  CodeGuard(const CodeGuard&) = delete;
  CodeGuard& operator=(const CodeGuard&) = delete;

  // With a userfaultfd of the process, which agents make when control->guard asks for it. False:
  // it cannot be used.
  bool Open(UniqueFd file);

  // There is a block in `page` that checks its code.
  void NoteCode(uint64_t page);
  // A page that has not been stored to for long enough, as far as is known, and is not guarded;
  // each once.
  std::optional<uint64_t> Due();
  // How long it takes until there may be one; nullopt: that depends on the process.
  std::optional<Clock::duration> UntilDue() const;

  // From now on stores to `page` of `region` end the guard. False: they cannot be watched.
  bool Protect(uint64_t page, const MapRegion& region);
  // The blocks at these host addresses need not check: they are what the protected page has, and
  // all of their code is in it. `view`: as of CodeCheck.
  void Guard(uint64_t page, absl::Span<const uint64_t> blocks, bool view);
  // The same of one more block, if the page is still guarded. Requires: what it was made from was
  // read after the page had been protected, or the page is not guarded.
  void Add(uint64_t page, uint64_t block, bool view);

  // [start, end) may be other memory now.
  void Forget(uint64_t start, uint64_t end);
  // Nothing is guarded any more. Any host thread.
  void End();

 private:
  struct Guarded {
    uint32_t number = 0;  // of the threads' bytes
    std::vector<uint64_t> direct, viewed;
  };
  struct Candidate {
    Clock::duration to_settle;  // before it is guarded the next time
    bool waits = true;          // it is in queue_
  };

  void OnStore(uint64_t page);
  void SkipCheck(Guarded* guarded, uint64_t block, bool view);
  void CheckAgain(const Guarded& guarded);
  void Queue(uint64_t page, Candidate* candidate, Clock::time_point now);
  void TakeStores();

  const std::shared_ptr<CodeGuards> all_;
  ControlBlock* const control_;
  const CodeAt code_at_;
  absl::flat_hash_map<uint64_t, Candidate> candidates_;  // by page
  std::priority_queue<std::pair<Clock::time_point, uint64_t>,
                      std::vector<std::pair<Clock::time_point, uint64_t>>, std::greater<>>
      queue_;
  std::set<std::pair<uint64_t, uint64_t>> registered_;  // mappings
  uint32_t next_number_ = 0;

  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, Guarded> guarded_;  // by page; guarded by mutex_
  // Pages whose guard a store has ended, and when; guarded by mutex_.
  std::vector<std::pair<uint64_t, Clock::time_point>> stored_;
  bool ended_ = false;                 // guarded by mutex_
  std::unique_ptr<StoreWatch> watch_;  // ends first
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_GUARD_CODE_GUARD_H_
