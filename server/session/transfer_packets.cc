// qXfer: whole objects, fetched in pieces.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/session/packet_table.h"
#include "server/session/thread_id.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

// Makes the whole object from its annex.
using Producer = absl::StatusOr<std::string> (*)(SessionState& state, absl::string_view annex);

struct Piece {
  std::string annex;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

absl::StatusOr<Piece> ParsePiece(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  Piece piece;
  piece.annex = std::string(scanner.Until(':'));
  const std::optional<uint64_t> offset = scanner.Hex();
  if (!offset.has_value() || !scanner.Consume(',')) {
    return absl::InvalidArgumentError("expected ANNEX:OFFSET,LENGTH");
  }
  const std::optional<uint64_t> size_bytes = scanner.Hex();
  if (!size_bytes.has_value() || !scanner.empty()) {
    return absl::InvalidArgumentError("expected ANNEX:OFFSET,LENGTH");
  }
  piece.offset = *offset;
  piece.size_bytes = *size_bytes;
  return piece;
}

std::string XmlEscape(absl::string_view text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&apos;"}});
}

absl::StatusOr<std::string> Features(SessionState& state, absl::string_view annex) {
  if (annex != "target.xml") return absl::NotFoundError("no such description");
  return TargetXml(state.target->register_set());
}

absl::StatusOr<std::string> Auxv(SessionState& state, absl::string_view) {
  return state.target->Auxv();
}

absl::StatusOr<std::string> SigInfo(SessionState& state, absl::string_view) {
  return state.target->SigInfo(state.SelectedThread());
}

// The annex is a process id in hexadecimal, or empty for the only one.
absl::StatusOr<std::string> ExecFile(SessionState& state, absl::string_view) {
  // gdb prints it, and opens it by what it was given.
  return Printable(state.target->ExecutablePath());
}

absl::StatusOr<std::string> Threads(SessionState& state, absl::string_view) {
  std::string xml = "<?xml version=\"1.0\"?>\n<threads>\n";
  for (const ThreadRef& thread : state.target->threads()) {
    absl::StrAppendFormat(&xml, "<thread id=\"%s\" name=\"%s\"",
                          ThreadId(thread, state.client.multiprocess),
                          XmlEscape(state.target->ThreadName(thread)));
    if (const std::optional<int> core = state.target->ThreadProcessor(thread)) {
      absl::StrAppendFormat(&xml, " core=\"%d\"", *core);
    }
    absl::StrAppend(&xml, "/>\n");
  }
  absl::StrAppend(&xml, "</threads>\n");
  return xml;
}

absl::StatusOr<std::string> Libraries(SessionState& state, absl::string_view) {
  uint64_t main_link_map = 0;
  ASSIGN_OR_RETURN(const std::vector<Library> libraries, state.target->Libraries(&main_link_map));
  std::string xml = "<library-list-svr4 version=\"1.0\"";
  if (main_link_map != 0) absl::StrAppendFormat(&xml, " main-lm=\"0x%x\"", main_link_map);
  absl::StrAppend(&xml, ">\n");
  for (const Library& library : libraries) {
    absl::StrAppendFormat(
        &xml, "<library name=\"%s\" lm=\"0x%x\" l_addr=\"0x%x\" l_ld=\"0x%x\" lmid=\"0x0\"/>\n",
        XmlEscape(library.path), library.link_map, library.load_address, library.dynamic);
  }
  absl::StrAppend(&xml, "</library-list-svr4>\n");
  return xml;
}

Reply Transfer(SessionState& state, absl::string_view object, Producer produce,
               const Piece& piece) {
  const std::string key = absl::StrCat(object, ":", piece.annex);
  // The first piece makes the object anew, since the position may have changed; the later ones must
  // belong to the same one.
  if (piece.offset == 0 || state.transfer.key != key) {
    state.transfer = {};
    ASSIGN_OR_RETURN(std::string contents, produce(state, piece.annex));
    state.transfer = {key, std::move(contents)};
  }
  const absl::string_view contents = state.transfer.contents;
  if (piece.offset >= contents.size()) return "l";
  const absl::string_view rest = contents.substr(piece.offset);
  const absl::string_view wanted = rest.substr(0, piece.size_bytes);
  std::string reply = "m";
  const size_t taken = rsp::AppendEscaped(wanted, rsp::Link::kMaxPacketBytes - 1, &reply);
  if (taken == rest.size()) reply[0] = 'l';
  return reply;
}

// Literals as template arguments need a name with linkage.
constexpr char kFeatures[] = "features";
constexpr char kAuxv[] = "auxv";
constexpr char kSigInfo[] = "siginfo";
constexpr char kExecFile[] = "exec-file";
constexpr char kThreads[] = "threads";
constexpr char kLibraries[] = "libraries-svr4";

template <const char* object, Producer produce>
Reply TransferOf(SessionState& state, const Piece& piece) {
  return Transfer(state, object, produce, piece);
}

constexpr PacketSpec kPackets[] = {
    {"qXfer:features:read:", Match::kPrefix, Bound<ParsePiece, TransferOf<kFeatures, Features>>,
     "qXfer:features:read+"},
    {"qXfer:auxv:read:", Match::kPrefix, Bound<ParsePiece, TransferOf<kAuxv, Auxv>>,
     "qXfer:auxv:read+"},
    {"qXfer:siginfo:read:", Match::kPrefix, Bound<ParsePiece, TransferOf<kSigInfo, SigInfo>>,
     "qXfer:siginfo:read+"},
    {"qXfer:exec-file:read:", Match::kPrefix, Bound<ParsePiece, TransferOf<kExecFile, ExecFile>>,
     "qXfer:exec-file:read+"},
    {"qXfer:threads:read:", Match::kPrefix, Bound<ParsePiece, TransferOf<kThreads, Threads>>,
     "qXfer:threads:read+"},
    {"qXfer:libraries-svr4:read:", Match::kPrefix,
     Bound<ParsePiece, TransferOf<kLibraries, Libraries>>, "qXfer:libraries-svr4:read+"},
};

}  // namespace

absl::Span<const PacketSpec> TransferPackets() { return kPackets; }

}  // namespace hindsight
