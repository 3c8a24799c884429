#include "server/session/packet_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace hindsight {

std::string ErrorReply(const absl::Status& status) {
  // errno values, since gdb's documentation leaves the numbers open. gdb shows none of them but in
  // `set debug remote`.
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return "";
    case absl::StatusCode::kPermissionDenied:
      return "E01";  // EPERM
    case absl::StatusCode::kNotFound:
      return "E0e";  // EFAULT: cannot access memory
    case absl::StatusCode::kInvalidArgument:
      return "E16";  // EINVAL
    case absl::StatusCode::kOutOfRange:
      return "E22";  // ERANGE
    case absl::StatusCode::kFailedPrecondition:
      return "E10";  // EBUSY
    case absl::StatusCode::kResourceExhausted:
      return "E0c";  // ENOMEM
    default:
      return "E05";  // EIO
  }
}

PacketTable::PacketTable(std::vector<absl::Span<const PacketSpec>> families) {
  for (const absl::Span<const PacketSpec> family : families) {
    for (const PacketSpec& spec : family) {
      if (!spec.feature.empty()) features_.push_back(spec);
      if (spec.name.empty()) continue;
      by_first_byte_[static_cast<uint8_t>(spec.name.front())].push_back(spec);
    }
  }
  for (std::vector<PacketSpec>& specs : by_first_byte_) {
    std::stable_sort(specs.begin(), specs.end(), [](const PacketSpec& a, const PacketSpec& b) {
      return a.name.size() > b.name.size();
    });
  }
}

const PacketSpec* PacketTable::Find(absl::string_view packet, absl::string_view* arguments) const {
  if (packet.empty()) return nullptr;
  for (const PacketSpec& spec : by_first_byte_[static_cast<uint8_t>(packet.front())]) {
    if (spec.match == Match::kWhole ? packet != spec.name : !absl::StartsWith(packet, spec.name)) {
      continue;
    }
    *arguments = packet.substr(spec.name.size());
    return &spec;
  }
  return nullptr;
}

std::string PacketTable::Features(const absl::flat_hash_set<absl::string_view>& offered) const {
  std::string reply = absl::StrFormat("PacketSize=%x", rsp::Link::kMaxPacketBytes);
  for (const PacketSpec& spec : features_) {
    if (spec.only_if_offered && !offered.contains(spec.feature)) continue;
    absl::StrAppend(&reply, ";", spec.feature);
  }
  return reply;
}

}  // namespace hindsight
