// The shared libraries of a recorded process, from the dynamic linker's own list in its memory, and
// where thread-local variables of them are.
//
// Stateless. The memory may hold anything: lists are bounded, addresses are not trusted.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_LINK_MAP_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_LINK_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hindsight {

// Copies out.size() bytes at `address`; false if they are not all known.
using MemoryReader = absl::FunctionRef<bool(uint64_t address, absl::Span<uint8_t> out)>;

std::optional<uint64_t> ReadWord(MemoryReader memory, uint64_t address);
// Up to the terminating zero, or as far as is known, or 4096 bytes.
std::string ReadString(MemoryReader memory, uint64_t address);

// The value of entry `type` in an auxiliary vector (type, value, ...).
std::optional<uint64_t> AuxvValue(absl::Span<const uint64_t> auxv, uint64_t type);

struct Library {
  std::string path;
  uint64_t link_map = 0, load_address = 0, dynamic = 0;
};

struct LinkMap {
  uint64_t main = 0;  // the program's own entry; 0 while the dynamic linker has not made it
  std::vector<Library> libraries;  // without the program
};

// Follows auxv's AT_PHDR to the program's DT_DEBUG, r_debug and the list it points to. Empty for a
// static program and before the dynamic linker got that far.
LinkMap ReadLinkMap(absl::Span<const uint64_t> auxv, MemoryReader memory);

// Offsets in glibc's struct link_map of what concerns thread-local storage. They differ between
// versions; the library exports them for thread debuggers.
struct GlibcTlsLayout {
  uint32_t module_id_offset = 0;
  std::optional<uint32_t> static_offset_offset;  // l_tls_offset
};

// The layout exported by `library`, the bytes of a libc (or, before glibc 2.34, libpthread) file.
// nullopt if that file does not export it.
std::optional<GlibcTlsLayout> ReadGlibcTlsLayout(absl::Span<const uint8_t> library);

// The address of the byte `offset` of the thread-local storage of the module at `link_map` (0: the
// program itself, when static) for the thread whose fs_base is given.
absl::StatusOr<uint64_t> GlibcTlsAddress(const std::optional<GlibcTlsLayout>& layout,
                                         uint64_t fs_base, uint64_t link_map, uint64_t offset,
                                         MemoryReader memory);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_LINK_MAP_H_
