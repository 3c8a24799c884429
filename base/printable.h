// Text of a program or a trace made fit for a terminal, a log or XML.
//
// Names of threads and programs, and paths, are whatever bytes a program chose: escape sequences
// that a terminal obeys, bytes that are no UTF-8, characters that turn the direction of writing.

#ifndef HINDSIGHT_BASE_PRINTABLE_H_
#define HINDSIGHT_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight {

// Length of the well-formed UTF-8 sequence at the start of `text`, which is not empty; 0 if it is
// not one.
size_t Utf8Length(absl::string_view text);

// `text` with every byte that is no printable UTF-8 as \xNN: control characters, line ends among
// them, formatting characters, and what is malformed. The rest is as it was, backslashes included.
std::string Printable(absl::string_view text);

// The same, but lines stay lines, and tabs tabs.
std::string PrintableLines(absl::string_view text);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_PRINTABLE_H_
