// Reads the arguments of a packet from left to right. Never looks past the end.
//
// Borrows the text. Copyable. One thread at a time.

#ifndef HINDSIGHT_SERVER_RSP_SCANNER_H_
#define HINDSIGHT_SERVER_RSP_SCANNER_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace hindsight::rsp {

class Scanner {
 public:
  explicit Scanner(absl::string_view text) : rest_(text) {}

  absl::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

  // Skips `c` or `prefix` if it comes next.
  bool Consume(char c);
  bool Consume(absl::string_view prefix);
  // The hexadecimal number that comes next. nullopt, and nothing skipped, if there is none or it
  // does not fit into 64 bits.
  std::optional<uint64_t> Hex();
  // Everything before the next `delimiter`, which is skipped too, or else all the rest.
  absl::string_view Until(char delimiter);
  // The next `size` characters; nullopt, and nothing skipped, if there are fewer.
  std::optional<absl::string_view> Take(uint64_t size);

 private:
  absl::string_view rest_;
};

}  // namespace hindsight::rsp

#endif  // HINDSIGHT_SERVER_RSP_SCANNER_H_
