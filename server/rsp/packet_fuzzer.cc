// Feeds arbitrary bytes to everything that parses input from the connection.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/rsp/hex.h"
#include "server/rsp/packet.h"
#include "server/rsp/scanner.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void TryDecoders(absl::string_view payload) {
  using namespace hindsight::rsp;
  if (const auto expanded = ExpandRuns(payload, 1 << 16)) Require(expanded->size() <= 1 << 16);
  if (const auto bytes = HexDecode(payload)) Require(HexEncode(*bytes).size() == payload.size());
  if (const auto bytes = Unescape(payload)) {
    std::string escaped;
    Require(AppendEscaped(*bytes, 2 * bytes->size(), &escaped) == bytes->size());
    Require(Unescape(escaped) == bytes);
  }
  Scanner scanner(payload);
  while (!scanner.empty()) {
    if (!scanner.Hex().has_value()) scanner.Until(',');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hindsight::rsp;
  if (size == 0) return 0;
  const size_t piece_size = 1 + data[0] % 32;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  TryDecoders(bytes);
  PacketReader reader(256);
  for (size_t at = 0; at < bytes.size(); at += piece_size) {
    reader.Append(bytes.substr(at, piece_size));
    while (const auto event = reader.Next()) {
      Require(event->payload.size() <= 256);
      if (event->kind == EventKind::kPacket) TryDecoders(event->payload);
    }
  }
  return 0;
}
