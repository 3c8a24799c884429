// The memory of a view: which of its pages can be accessed.
//
//   by rights:    pages that cannot have none. Their first use is a SIGSEGV. Each run of pages that
//                 can costs the process two mappings, of which the kernel allows some 65,000.
//   by presence:  all have rights, and a userfaultfd: the first use of one that is missing is a
//                 SIGBUS. Costs nothing but a descriptor of the process.
//
// A view begins by rights. When the views of a process have many runs, those that contribute go
// over to presence; if there is no userfaultfd, Put fails where the kernel does.
//
// Runs inside the program: no library, no allocation. The thread whose view it is alone, but for
// Shared.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_VIEW_MEMORY_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_VIEW_MEMORY_H_

#include <stdint.h>

namespace hindsight {

// A range of guest memory, of whole pages, that a view can be of.
struct ViewWindow {
  uint64_t start, end;
};

class ViewMemory {
 public:
  // Of all views of a process; zero at first.
  struct Shared {
    uint64_t runs;  // of those by rights
    int32_t file;   // descriptor of the userfaultfd; 0: none yet, -1: there is none
    uint32_t reserved;
  };
  // Runs of all views, and of one, from which on that goes over to presence.
  static constexpr uint64_t kManyRuns = 8192, kSomeRuns = 16;

  // The memory at `distance` from each window is reserved, with no rights.
  void Init(uint64_t distance, const ViewWindow* windows, int count, Shared* shared);

  // Makes a page that could not be accessed accessible, with `bytes`. `neighbours`: how many of the
  // two beside it are. False: the kernel does not have what that takes.
  bool Put(uint64_t page, const uint8_t* bytes, int neighbours);
  // [start, end), of whole pages, cannot be accessed any more, and takes no memory. `change`: in
  // the number of runs.
  void Remove(uint64_t start, uint64_t end, int64_t change);
  // The view is given up.
  void GiveUp();

 private:
  bool IsCrowded() const;
  bool ChangeToPresence();
  int32_t File() const;
  void AddRuns(int64_t change);

  uint64_t distance_ = 0;
  const ViewWindow* windows_ = nullptr;
  int window_count_ = 0;
  Shared* shared_ = nullptr;
  uint64_t runs_ = 0;
  bool by_presence_ = false;
  bool broken_ = false;  // it went half of the way
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_VIEW_MEMORY_H_
