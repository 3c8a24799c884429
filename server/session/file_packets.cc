// vFile: the files of the trace, read-only. The host's file system is not reachable from here.

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/packet_table.h"

namespace hindsight {
namespace {

// Error numbers of gdb's File-I/O protocol.
enum class FileError : int {
  kNoEntry = 2,
  kBadDescriptor = 9,
  kInvalid = 22,
  kTooManyOpen = 24,
  kReadOnly = 30,
  kUnknown = 9999,
};

constexpr size_t kMaxOpenFiles = 64;

std::string Failure(FileError error) { return absl::StrFormat("F-1,%x", static_cast<int>(error)); }

std::string Failure(const absl::Status& status) {
  return Failure(absl::IsNotFound(status)          ? FileError::kNoEntry
                 : absl::IsInvalidArgument(status) ? FileError::kInvalid
                                                   : FileError::kUnknown);
}

struct OpenRequest {
  std::string path;
  uint64_t flags = 0;  // File-I/O's: 0 is read-only
};

absl::StatusOr<std::string> ParsePath(absl::string_view arguments) {
  std::optional<std::string> path = rsp::HexDecode(arguments);
  if (!path.has_value() || path->empty()) return absl::InvalidArgumentError("malformed path");
  return *std::move(path);
}

absl::StatusOr<OpenRequest> ParseOpen(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  OpenRequest request;
  ASSIGN_OR_RETURN(request.path, ParsePath(scanner.Until(',')));
  const std::optional<uint64_t> flags = scanner.Hex();
  if (!flags.has_value() || !scanner.Consume(',') || !scanner.Hex().has_value()) {
    return absl::InvalidArgumentError("expected PATH,FLAGS,MODE");
  }
  request.flags = *flags;
  return request;
}

struct ReadRequest {
  int descriptor = -1;
  uint64_t size_bytes = 0;
  uint64_t offset = 0;
};

absl::StatusOr<int> ParseDescriptor(absl::string_view arguments) {
  const std::optional<uint64_t> descriptor = rsp::ParseHex(arguments);
  // One too large to exist will not be found among the open ones.
  if (!descriptor.has_value()) return absl::InvalidArgumentError("malformed descriptor");
  return static_cast<int>(std::min<uint64_t>(*descriptor, 0x7fffffff));
}

absl::StatusOr<ReadRequest> ParseRead(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  ReadRequest request;
  ASSIGN_OR_RETURN(request.descriptor, ParseDescriptor(scanner.Until(',')));
  const std::optional<uint64_t> size_bytes = scanner.Hex();
  if (!size_bytes.has_value() || !scanner.Consume(',')) {
    return absl::InvalidArgumentError("expected DESCRIPTOR,COUNT,OFFSET");
  }
  const std::optional<uint64_t> offset = scanner.Hex();
  if (!offset.has_value() || !scanner.empty()) {
    return absl::InvalidArgumentError("expected DESCRIPTOR,COUNT,OFFSET");
  }
  request.size_bytes = *size_bytes;
  request.offset = *offset;
  return request;
}

// "F<size>;<bytes>", with as many bytes as fit.
std::string WithAttachment(absl::string_view bytes) {
  constexpr size_t kHeaderBytes = 32;
  std::string attachment;
  const size_t taken =
      rsp::AppendEscaped(bytes, rsp::Link::kMaxPacketBytes - kHeaderBytes, &attachment);
  return absl::StrFormat("F%x;", taken) + attachment;
}

// Which process' view of the file system to use: there is one recorded.
Reply SetFileSystem(SessionState&, absl::string_view) { return "F0"; }

Reply Open(SessionState& state, const OpenRequest& request) {
  // O_WRONLY, O_RDWR, O_APPEND, O_CREAT, O_TRUNC, O_EXCL; LLDB sets others, which are harmless.
  constexpr uint64_t kWriting = 0x1 | 0x2 | 0x8 | 0x200 | 0x400 | 0x800;
  if ((request.flags & kWriting) != 0) return Failure(FileError::kReadOnly);
  if (state.open_files.size() >= kMaxOpenFiles) return Failure(FileError::kTooManyOpen);
  absl::StatusOr<std::string> contents = state.target->FileContents(request.path);
  if (!contents.ok()) return Failure(contents.status());
  int descriptor = 3;  // as in a process; some clients take 0 for a failure
  while (state.open_files.contains(descriptor)) ++descriptor;
  state.open_files.emplace(descriptor, *std::move(contents));
  return absl::StrFormat("F%x", descriptor);
}

Reply Close(SessionState& state, int descriptor) {
  return state.open_files.erase(descriptor) > 0 ? "F0" : Failure(FileError::kBadDescriptor);
}

Reply Read(SessionState& state, const ReadRequest& request) {
  const auto file = state.open_files.find(request.descriptor);
  if (file == state.open_files.end()) return Failure(FileError::kBadDescriptor);
  const absl::string_view contents = file->second;
  if (request.offset >= contents.size()) return "F0;";
  return WithAttachment(contents.substr(request.offset, request.size_bytes));
}

void AppendBigEndian(uint64_t value, size_t size, std::string* out) {
  for (size_t shift = 8 * size; shift > 0;) {
    shift -= 8;
    out->push_back(static_cast<char>(value >> shift));
  }
}

// struct stat of the File-I/O protocol: seven 32-bit fields from st_dev to st_rdev, three 64-bit
// ones from st_size to st_blocks, three 32-bit times; all big-endian.
std::string EncodeStat(uint64_t size_bytes) {
  constexpr uint64_t kBlock = 512;
  std::string stat;
  AppendBigEndian(0, 4, &stat);
  AppendBigEndian(0, 4, &stat);
  AppendBigEndian(S_IFREG | 0444, 4, &stat);
  AppendBigEndian(1, 4, &stat);  // st_nlink
  for (int i = 0; i < 3; ++i) AppendBigEndian(0, 4, &stat);
  AppendBigEndian(size_bytes, 8, &stat);
  AppendBigEndian(kBlock, 8, &stat);
  AppendBigEndian((size_bytes + kBlock - 1) / kBlock, 8, &stat);
  for (int i = 0; i < 3; ++i) AppendBigEndian(0, 4, &stat);
  return stat;
}

Reply Fstat(SessionState& state, int descriptor) {
  const auto file = state.open_files.find(descriptor);
  if (file == state.open_files.end()) return Failure(FileError::kBadDescriptor);
  return WithAttachment(EncodeStat(file->second.size()));
}

Reply ReadLink(SessionState& state, const std::string& path) {
  const absl::StatusOr<std::string> target = state.target->ReadLink(path);
  return target.ok() ? WithAttachment(*target) : Failure(target.status());
}

Reply ReadOnly(SessionState&, absl::string_view) { return Failure(FileError::kReadOnly); }

constexpr PacketSpec kPackets[] = {
    {"vFile:setfs:", Match::kPrefix, SetFileSystem},
    {"vFile:open:", Match::kPrefix, Bound<ParseOpen, Open>},
    {"vFile:close:", Match::kPrefix, Bound<ParseDescriptor, Close>},
    {"vFile:pread:", Match::kPrefix, Bound<ParseRead, Read>},
    {"vFile:fstat:", Match::kPrefix, Bound<ParseDescriptor, Fstat>},
    {"vFile:readlink:", Match::kPrefix, Bound<ParsePath, ReadLink>},
    {"vFile:pwrite:", Match::kPrefix, ReadOnly},
    {"vFile:unlink:", Match::kPrefix, ReadOnly},
};

}  // namespace

absl::Span<const PacketSpec> FilePackets() { return kPackets; }

}  // namespace hindsight
