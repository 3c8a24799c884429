// Hears of the program's points on a thread of its own, and hands them over one at a time.
//
//   Wait --> the descriptor becomes readable --> Take --> (a snapshot) --> Done --> Wait
//
// Not copyable. Its methods: one host thread.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_THREAD_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_THREAD_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "recorder/snapshot/points/point_listener.h"

namespace hindsight {

class PointThread {
 public:
  // `listener` is borrowed, and nobody else's meanwhile.
  explicit PointThread(PointListener* listener);
  ~PointThread();
  PointThread(const PointThread&) = delete;
  PointThread& operator=(const PointThread&) = delete;

  // Readable while there is something to Take.
  int descriptor() const { return ready_.get(); }
  std::optional<Point> Take();
  // Its thread goes on. Requires: Take has returned a point.
  void Done();

 private:
  void Loop();

  PointListener* const listener_;
  const UniqueFd ready_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Point> point_;  // guarded by mutex_, as the rest is
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_POINT_THREAD_H_
