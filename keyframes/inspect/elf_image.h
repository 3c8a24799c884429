// Looks up symbols in an ELF file of a trace.
//
// Copyable; borrows the file's bytes. The file may be damaged or hostile: everything read from it
// is checked against its size.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_ELF_IMAGE_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_ELF_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hindsight {

class ElfImage {
 public:
  // kInvalidArgument unless `bytes` begin like a 64-bit little-endian ELF file.
  static absl::StatusOr<ElfImage> Parse(absl::Span<const uint8_t> bytes);

  // A variable: its address as linked.
  struct Object {
    std::string name;
    uint64_t address = 0;
    uint64_t size_bytes = 0;
  };
  // All variables that have a name and a size, by address, each address once. Not thread-local
  // ones.
  std::vector<Object> Objects() const;
  // The address as linked of the first byte of the page that holds the file's first byte; nullopt:
  // none does.
  std::optional<uint64_t> FirstAddress() const;

  // The address of `symbol` as linked, looked for in .dynsym and .symtab.
  std::optional<uint64_t> SymbolAddress(absl::string_view symbol) const;

  // The first `size` bytes of the object `symbol` as the file has them, looked for in .dynsym and
  // .symtab. nullopt: no such symbol, or its bytes are not in the file.
  std::optional<absl::Span<const uint8_t>> SymbolBytes(absl::string_view symbol,
                                                       uint64_t size) const;

 private:
  explicit ElfImage(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  absl::Span<const uint8_t> bytes_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_ELF_IMAGE_H_
