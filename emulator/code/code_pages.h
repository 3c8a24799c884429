// Code that the program writes: which bytes the translations of a page were made of.
//
// A page with translations is unwritable on the host, so that a write to it is noticed. Such a page
// is *settled*. Once written to, it is *written*: writable, and a copy of the bytes that its
// translations were made of is kept. Before code on it is executed again, Settle() compares: what
// was made of bytes that changed is dropped, and the page is settled again.
//
//                 write                        code executed
//     settled ------------> written ------------------------------> settled
//        ^                     |  (too often without a change)
//        |                     v
//        +------------------ mixed <---- written by code on the page itself
//        (too much stepping)
//
// Each turn from writing to executing costs some microseconds. Pages that turn often, such as a
// stack with trampolines, or code with its data beside it, become *mixed*: they stay writable, and
// the Cpu compares before each execution. It must step through blocks that write to memory, which
// could be their own; when there is too much of that, the page is settled again, as a trial.
//
// None of this changes what is executed, only how fast.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CODE_CODE_PAGES_H_
#define HINDSIGHT_EMULATOR_CODE_CODE_PAGES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tracefmt/records.h"

namespace hindsight {

class CodePages {
 public:
  enum class State : uint8_t { kSettled, kWritten, kMixed };
  struct Range {
    uint64_t begin = 0, end = 0;  // addresses
    bool operator==(const Range&) const = default;
  };

  CodePages() = default;
  CodePages(const CodePages&) = delete;
  CodePages& operator=(const CodePages&) = delete;

  State state(uint64_t page) const;

  // `work`, here and below: instructions executed so far, a clock for what is "often".

  // The program is about to write to `page`, which is settled and holds `bytes`. `own`: code on the
  // page itself does.
  void NoteWrite(uint64_t page, const uint8_t* bytes, uint64_t work, bool own);

  // What changed, in rising order, since the translations on `page` were made, if it holds `bytes`.
  std::vector<Range> Changes(uint64_t page, const uint8_t* bytes) const;

  // Code on `page` is about to be executed; translations are made of `bytes` from now on.
  // `changed`: code changed, and had to be dropped. What happens to the page:
  //
  //   settled        nothing
  //   written        settled; but after a quick turn heat + 1, or - 1 if code changed, and mixed
  //                  once that reaches `hot`. After a slow one heat / 2
  //   mixed          stays so, compared with `bytes` from now on; but settled, with heat 0 and
  //                  twice as `hot`, once more was stepped than the `budget`
  void Settle(uint64_t page, const uint8_t* bytes, uint64_t work, bool changed);

  // Whether `size` bytes at `address`, all on one page, are those the translations were made of.
  // `bytes`: that page's.
  bool Unchanged(uint64_t address, uint64_t size, const uint8_t* bytes) const;

  // An instruction on `page` was stepped. Counts only while the page is mixed.
  void NoteStep(uint64_t page);

  // All translations of `page`, which holds `bytes`, have been dropped.
  void NoteDropped(uint64_t page, const uint8_t* bytes);
  // The page is gone; it has no translations.
  void Forget(uint64_t page) { pages_.erase(page); }
  void ForgetRange(uint64_t address, uint64_t size) {
    absl::erase_if(pages_, [=](const auto& entry) { return entry.first - address < size; });
  }

 private:
  using Bytes = std::array<uint8_t, kPageBytes>;
  struct Page {
    State state = State::kSettled;
    std::unique_ptr<Bytes> translated;  // null while settled
    uint64_t settled_at = 0;            // work
    uint32_t heat = 0;     // quick turns without a change, less those with one; see Settle
    uint32_t hot;          // heat that makes the page mixed
    uint32_t stepped = 0;  // since it is mixed
    uint32_t budget;       // of such steps
  };
  void Mix(Page* page, const uint8_t* bytes);

  absl::flat_hash_map<uint64_t, Page> pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_CODE_PAGES_H_
