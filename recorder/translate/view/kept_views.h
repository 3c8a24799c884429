// The views of threads that have ended, of which some are still there: others who find what such a
// thread has stored can see that it was a thread of theirs (known_lines.h).
//
//   free --Keep--> kept --Keep of another, GiveBack--> being released --> free
//
// Those that have been kept for longest make room for others. Runs inside the program: no library,
// no allocation. Zero at first. Any thread, but Forget, where there is only one.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_KEPT_VIEWS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_KEPT_VIEWS_H_

#include <stdint.h>

namespace hindsight {

class KeptViews {
 public:
  // Views, and pages of all of them: what ended threads take is bounded.
  static constexpr uint64_t kMostViews = 8, kMostPages = 65536;

  // Unmaps the view of a thread.
  using Release = void (*)(uint64_t number);

  // Keeps the view of thread `number`, not 0, which has `pages`, or releases it if it is too large.
  void Keep(uint64_t number, uint64_t pages, Release release);
  // The number is going to be another thread's: its view, if it is kept, has been released after
  // this.
  void GiveBack(uint64_t number, Release release);
  bool Has(uint64_t number) const;
  // There are none any more (a child of fork).
  void Forget();

 private:
  enum State : uint64_t { kFree, kKept, kBeingReleased };
  static uint64_t Word(uint64_t number, State state) { return number << 2 | state; }

  uint64_t Pages() const;
  bool ReleaseAt(uint64_t place, uint64_t word, Release release);

  uint64_t words_[kMostViews];  // Word; 0: kFree
  uint64_t pages_[kMostViews];
  uint64_t next_;  // place, modulo kMostViews, of the one to be kept next
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_KEPT_VIEWS_H_
