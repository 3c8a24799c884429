// A place in a program's code as a user names it.
//
//   FUNCTION          printf, std::sort, ns::Class::method (without parameters); also `method` or
//                     `Class::method`, where no function has just this name
//   FUNCTION+OFFSET   decimal, or 0x...
//   FILE:FUNCTION     only in the module of this base name (or path)
//   SOURCE:LINE       where the code of a line begins, once for each function that has it; the file
//                     by its name or the last parts of its path
//   0xADDRESS

#ifndef HINDSIGHT_RECORDER_SYMBOLS_CODE_PLACE_H_
#define HINDSIGHT_RECORDER_SYMBOLS_CODE_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hindsight {

// A value.
struct CodePlace {
  std::string text;      // as it was given
  std::string file;      // empty: any
  std::string function;  // empty: a line or an address
  std::string source;    // of a line
  uint32_t line = 0;     // 0: none
  uint64_t offset = 0;   // from the function; or the address

  bool is_address() const { return function.empty() && line == 0; }
};

// kInvalidArgument, with the reason in one line.
absl::StatusOr<CodePlace> ParseCodePlace(absl::string_view text);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYMBOLS_CODE_PLACE_H_
