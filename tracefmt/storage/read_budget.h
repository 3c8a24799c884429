// How much memory reading a trace may take: a constant, and a multiple of what its files hold.
//
// A trace may be anybody's. zstd makes a byte of a file up to 32,768 bytes, and a message can say
// that it has millions of elements of no size, so a file of a kilobyte could take gigabytes. What a
// recorder writes does not come near these limits (docs/trace-format.md, "What reading costs").
//
// Any number of threads may use it at once.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_READ_BUDGET_H_
#define HINDSIGHT_TRACEFMT_STORAGE_READ_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace hindsight {

class ReadBudget {
 public:
  ReadBudget(uint64_t constant, uint64_t multiple) : left_(constant), multiple_(multiple) {}
  ReadBudget(const ReadBudget&) = delete;
  ReadBudget& operator=(const ReadBudget&) = delete;

  // This much of a file has been read. Not the sizes of files: a hole costs nothing.
  void AddStored(uint64_t bytes) { left_ += bytes * multiple_; }

  // Takes memory for what is kept. False if that is more than is left; then nothing more is given,
  // however little.
  bool Take(uint64_t bytes) {
    uint64_t left = left_;
    while (!left_.compare_exchange_weak(left, bytes > left ? 0 : left - bytes)) {
    }
    taken_ += std::min(bytes, left);
    return bytes <= left;
  }
  uint64_t taken() const { return taken_; }

 private:
  std::atomic<uint64_t> left_;
  std::atomic<uint64_t> taken_ = 0;
  const uint64_t multiple_;
};

// Elements of a list that says it has `size`, written with `words_each` words or more: whether a
// message of `message_words` can hold them. A list may say that its elements have no size.
inline bool ListFits(uint64_t size, uint64_t words_each, uint64_t message_words) {
  return size <= message_words / words_each;
}

// What an open trace keeps: modules, events, keyframes' maps and page tables. The most that a
// recorder's file becomes is about 200 times its size, in traces without map parts, where a program
// of hundreds of regions maps memory all the time: each such event holds the whole map, and
// compresses to some 50 bytes.
inline constexpr uint64_t kTraceBudgetBytes = uint64_t{64} << 20;
inline constexpr uint64_t kTraceBudgetMultiple = 256;

// What one loaded segment keeps. A segment of the usual 25 M instructions that spins on a lock has
// up to 200 MB of orderable states in a few kilobytes; a page of equal bytes that a system call
// wrote takes 5 bytes of 4096.
inline constexpr uint64_t kSegmentBudgetBytes = uint64_t{256} << 20;
inline constexpr uint64_t kSegmentBudgetMultiple = 1024;

// The manifests of all processes of a recording.
inline constexpr uint64_t kManifestsBudgetBytes = uint64_t{64} << 20;
inline constexpr uint64_t kManifestsBudgetMultiple = 64;

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_READ_BUDGET_H_
