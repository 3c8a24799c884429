// Memory: m, M, x, X, qMemoryRegionInfo.

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/diversion.h"
#include "server/session/packet_table.h"

namespace hindsight {
namespace {

struct MemoryRange {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
};

struct MemoryWrite {
  uint64_t address = 0;
  std::string bytes;
};

absl::StatusOr<MemoryRange> ScanRange(rsp::Scanner* scanner) {
  const std::optional<uint64_t> address = scanner->Hex();
  if (!address.has_value() || !scanner->Consume(',')) {
    return absl::InvalidArgumentError("expected ADDRESS,LENGTH");
  }
  const std::optional<uint64_t> size_bytes = scanner->Hex();
  if (!size_bytes.has_value()) return absl::InvalidArgumentError("expected ADDRESS,LENGTH");
  return MemoryRange{*address, *size_bytes};
}

absl::StatusOr<MemoryRange> ParseRange(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  ASSIGN_OR_RETURN(const MemoryRange range, ScanRange(&scanner));
  if (!scanner.empty()) return absl::InvalidArgumentError("more than ADDRESS,LENGTH");
  return range;
}

absl::StatusOr<MemoryWrite> ParseWrite(absl::string_view arguments,
                                       std::optional<std::string> (*decode)(absl::string_view)) {
  rsp::Scanner scanner(arguments);
  ASSIGN_OR_RETURN(const MemoryRange range, ScanRange(&scanner));
  if (!scanner.Consume(':')) return absl::InvalidArgumentError("expected ADDRESS,LENGTH:BYTES");
  std::optional<std::string> bytes = decode(scanner.rest());
  if (!bytes.has_value() || bytes->size() != range.size_bytes) {
    return absl::InvalidArgumentError("the bytes to write are not as many as said");
  }
  return MemoryWrite{range.address, *std::move(bytes)};
}

absl::StatusOr<MemoryWrite> ParseHexWrite(absl::string_view arguments) {
  return ParseWrite(arguments, rsp::HexDecode);
}

absl::StatusOr<MemoryWrite> ParseBinaryWrite(absl::string_view arguments) {
  return ParseWrite(arguments, rsp::Unescape);
}

absl::StatusOr<uint64_t> ParseAddress(absl::string_view arguments) {
  const std::optional<uint64_t> address = rsp::ParseHex(arguments);
  if (!address.has_value()) return absl::InvalidArgumentError("expected an address");
  return *address;
}

// As much of `range` as is known and fits into one reply. Fewer bytes than requested are a valid
// reply; none at all are an error unless none were requested.
absl::StatusOr<std::string> Read(SessionState& state, const MemoryRange& range) {
  constexpr uint64_t kMaxBytes = rsp::Link::kMaxPacketBytes / 2 - 16;  // as hex or all escaped
  std::string bytes(std::min(range.size_bytes, kMaxBytes), '\0');
  if (bytes.empty()) return bytes;
  if (state.forks.child_selected) return absl::NotFoundError("a process recorded on its own");
  ASSIGN_OR_RETURN(const size_t known,
                   state.target->ReadMemory(
                       state.SelectedThread(), range.address,
                       absl::MakeSpan(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size())));
  if (known == 0) return absl::NotFoundError("memory that is not in the trace");
  bytes.resize(known);
  return bytes;
}

Reply ReadHex(SessionState& state, const MemoryRange& range) {
  ASSIGN_OR_RETURN(const std::string bytes, Read(state, range));
  // Without any bytes the reply would be that of a packet not supported.
  if (bytes.empty()) return absl::InvalidArgumentError("nothing to read");
  return rsp::HexEncode(bytes);
}

Reply ReadBinary(SessionState& state, const MemoryRange& range) {
  // LLDB sends `x` too, but understands another reply; it does not offer the feature.
  if (!state.client.binary_upload) return absl::UnimplementedError("");
  ASSIGN_OR_RETURN(const std::string bytes, Read(state, range));
  std::string reply = "b";
  rsp::AppendEscaped(bytes, rsp::Link::kMaxPacketBytes - 1, &reply);
  return reply;
}

Reply Write(SessionState& state, const MemoryWrite& write) {
  // gdb finds out with an empty write whether `X` is supported: no reason to begin a diversion.
  if (write.bytes.empty()) return "OK";
  Diversion diversion(&state);
  RETURN_IF_ERROR(diversion.WriteMemory(write.address, write.bytes));
  return "OK";
}

// LLDB asks before it unwinds or allocates. For an address in no region: how far the gap goes.
Reply DescribeRegion(SessionState& state, uint64_t address) {
  uint64_t gap_start = 0;
  uint64_t gap_end = ~uint64_t{0};
  for (const MemoryRegion& region : state.target->Regions()) {
    if (address < region.start) {
      gap_end = std::min(gap_end, region.start);
    } else if (address >= region.end) {
      gap_start = std::max(gap_start, region.end);
    } else {
      std::string permissions;
      if (region.protection & PROT_READ) permissions += 'r';
      if (region.protection & PROT_WRITE) permissions += 'w';
      if (region.protection & PROT_EXEC) permissions += 'x';
      return absl::StrFormat("start:%x;size:%x;permissions:%s;name:%s;", region.start,
                             region.end - region.start, permissions, rsp::HexEncode(region.name));
    }
  }
  return absl::StrFormat("start:%x;size:%x;", gap_start, gap_end - gap_start);
}

constexpr PacketSpec kPackets[] = {
    {"m", Match::kPrefix, Bound<ParseRange, ReadHex>},
    {"M", Match::kPrefix, Bound<ParseHexWrite, Write>},
    {"x", Match::kPrefix, Bound<ParseRange, ReadBinary>, "binary-upload+", true},
    {"X", Match::kPrefix, Bound<ParseBinaryWrite, Write>},
    {"qMemoryRegionInfo:", Match::kPrefix, Bound<ParseAddress, DescribeRegion>},
};

}  // namespace

absl::Span<const PacketSpec> MemoryPackets() { return kPackets; }

}  // namespace hindsight
