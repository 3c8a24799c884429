// Cap'n Proto messages in blocks. The only place where kj's exceptions are caught.
//
// For tracefmt's own sources.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_MESSAGE_H_
#define HINDSIGHT_TRACEFMT_STORAGE_MESSAGE_H_

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/block.h"

namespace hindsight {

// Calls visit(Root::Reader), which returns absl::Status, on the message in `block`. What visit
// reads is checked against the block's bounds; a message that points outside itself, or so often
// at the same place that reading it would take longer than its size warrants, is kDataLoss.
template <typename Root, typename Visit>
absl::Status VisitMessage(const std::string& path, const RawBlock& block, Visit visit) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * block.word_count + 64;
  options.nestingLimit = 16;
  try {
    capnp::FlatArrayMessageReader reader(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(block.words.get()), block.word_count),
        options);
    return visit(reader.getRoot<Root>());
  } catch (const kj::Exception& e) {
    return BlockError(absl::StatusCode::kDataLoss, path, block.offset,
                      absl::StrCat("malformed message: ", e.getDescription().cStr()));
  }
}

inline absl::Status AppendMessage(AppendFile* file, BlockKind kind, BlockEncoder* encoder,
                                  capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return file->Append(kind, encoder, absl::MakeConstSpan(bytes.begin(), bytes.size()));
}

// The same in two steps: see BlockEncoder::Compress.
inline absl::StatusOr<std::vector<uint8_t>> CompressMessage(BlockKind kind, BlockEncoder* encoder,
                                                            capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return encoder->Compress(kind, absl::MakeConstSpan(bytes.begin(), bytes.size()));
}

inline capnp::Data::Reader AsData(const std::string& s) {
  return capnp::Data::Reader(reinterpret_cast<const kj::byte*>(s.data()), s.size());
}

inline std::string AsString(capnp::Data::Reader data) {
  return std::string(reinterpret_cast<const char*>(data.begin()), data.size());
}

// Copies a vector into a list of the same size.
template <typename ListBuilder, typename Vector>
void FillList(ListBuilder list, const Vector& values) {
  for (size_t i = 0; i < values.size(); ++i) list.set(static_cast<uint32_t>(i), values[i]);
}

template <typename ListReader>
std::vector<uint64_t> AsWords(ListReader list) {
  std::vector<uint64_t> words;
  words.reserve(list.size());
  for (const uint64_t word : list) words.push_back(word);
  return words;
}

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_MESSAGE_H_
