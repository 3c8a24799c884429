// What the file of a program says about it before it runs.

#ifndef HINDSIGHT_RECORDER_CHOICE_EXECUTABLE_FACTS_H_
#define HINDSIGHT_RECORDER_CHOICE_EXECUTABLE_FACTS_H_

#include <set>
#include <string>

namespace hindsight {

struct ExecutableFacts {
  // Of the names that were looked for, those that its dynamic symbols have, or, if it has none, its
  // others: what it defines or wants from libraries.
  std::set<std::string> symbols;
  // It was built for processors that have AVX, and says so (GNU_PROPERTY_X86_ISA_1_NEEDED).
  bool needs_avx = false;
};

// Nothing is known of what is no 64-bit ELF file, or cannot be read.
ExecutableFacts ReadExecutableFacts(const std::string& path, const std::set<std::string>& names);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_CHOICE_EXECUTABLE_FACTS_H_
