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

 private:
  std::vector<futex_waitv> words_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_ATTENTION_H_
