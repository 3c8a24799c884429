// Sleeps until a recorded process waits for the recorder.
//
//   Clear, Note...   before the recorder looks whether there is anything to do
//   Await            if there was nothing: what has asked since it was noted ends it at once
//
// Borrows the words. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_ATTENTION_H_
#define HINDSIGHT_RECORDER_TRANSLATE_ATTENTION_H_

#include <linux/futex.h>

#include <cstdint>
#include <vector>

namespace hindsight {

class Attention {
 public:
  Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  void Clear() { words_.clear(); }
  // A futex, in memory that other processes share, which changes when one waits. There may be so
  // many that some are not listened to.
  void Note(const uint32_t* word);
  // Returns after `nanoseconds` at the latest, less than a second.
  void Await(int64_t nanoseconds);
  // Whether all that were noted end it.
  bool HearsAll() const;

 private:
  std::vector<futex_waitv> words_;
  bool can_hear_ = true;  // the kernel can
};

// How long to pause while nothing comes: a sixteenth of how long nothing has, so that what comes
// then has to wait for that little longer.
class IdlePause {
 public:
  IdlePause(int64_t least_ns, int64_t most_ns) : least_ns_(least_ns), most_ns_(most_ns) {}

  // The next pause, of several with nothing in between.
  int64_t Next();
  void Reset() { idle_ns_ = 0; }

 private:
  const int64_t least_ns_, most_ns_;
  int64_t idle_ns_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_ATTENTION_H_
