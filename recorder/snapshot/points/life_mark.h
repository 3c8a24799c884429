// Tells everyone who maps a shared word, without a system call of theirs, whether this process
// lives: while a LifeMark exists the word holds a thread's id; if the process ends in any way, the
// kernel sets FUTEX_OWNER_DIED in the word.
//
// Owns a thread that does nothing, with every signal blocked; the word is the one entry of its list
// of robust futexes, and the list lies where the processes that map the word cannot write. Neither
// copyable nor movable.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_LIFE_MARK_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_LIFE_MARK_H_

#include <cstdint>
#include <latch>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"

namespace hindsight {

class LifeMark {
 public:
  // Borrows `word`, which must stay mapped as long as the mark exists.
  static absl::StatusOr<std::unique_ptr<LifeMark>> Set(uint32_t* word);
  // The word is 0 afterwards.
  ~LifeMark();

  LifeMark(const LifeMark&) = delete;
  LifeMark& operator=(const LifeMark&) = delete;

 private:
  struct List;

  LifeMark(uint32_t* word, List* list) : word_(word), list_(list) {}
  void Live();

  uint32_t* const word_;
  List* const list_;  // a page of its own
  bool is_set_ = false;
  std::latch begun_{1};
  std::latch ending_{1};
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_LIFE_MARK_H_
