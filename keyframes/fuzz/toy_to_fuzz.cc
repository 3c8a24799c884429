#include "keyframes/fuzz/toy_to_fuzz.h"

#include <filesystem>

#include "keyframes/toys/toy_threads.h"

namespace hindsight {

void WriteToyTrace(const std::string& directory) {
  const ToyThreads toy(
      {.iterations = 30, .longest_turn = 60, .segment_states = 250, .keyframe_turns = 12});
  std::filesystem::copy(toy.trace()->directory(), directory,
                        std::filesystem::copy_options::recursive);
}

}  // namespace hindsight
