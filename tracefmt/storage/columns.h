// The columns of a message, read one element at a time: every Take is false, and takes nothing,
// where the column is too short.
//
// For tracefmt's own sources. Borrow the message. Copyable. One thread at a time.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_COLUMNS_H_
#define HINDSIGHT_TRACEFMT_STORAGE_COLUMNS_H_

#include <capnp/blob.h>
#include <capnp/list.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

template <typename List>
class Column {
 public:
  explicit Column(List list) : list_(list) {}

  template <typename T>
  bool Take(T* out) {
    if (next_ >= list_.size()) return false;
    *out = list_[next_++];
    return true;
  }

 private:
  List list_;
  uint32_t next_ = 0;
};

// Bytes taken in runs, without copying.
class ByteColumn {
 public:
  explicit ByteColumn(capnp::Data::Reader data) : rest_(data.begin(), data.size()) {}

  size_t size() const { return rest_.size(); }  // of what is left
  bool Take(size_t size, absl::Span<const uint8_t>* out) {
    if (size > rest_.size()) return false;
    *out = rest_.first(size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Take(uint8_t* out) {
    absl::Span<const uint8_t> one;
    if (!Take(1, &one)) return false;
    *out = one[0];
    return true;
  }
  // 7 bits a byte, the lowest first; all but the last byte have bit 7 set. False also for what does
  // not fit 64 bits; what was read of it is taken then.
  bool TakeVarint(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = 0;
      if (!Take(&byte) || (shift == 63 && byte > 1)) return false;
      *out |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

 private:
  absl::Span<const uint8_t> rest_;
};

using WordColumn = Column<capnp::List<uint64_t>::Reader>;
using HalfColumn = Column<capnp::List<uint32_t>::Reader>;
using QuarterColumn = Column<capnp::List<uint16_t>::Reader>;
using IntegerColumn = Column<capnp::List<int32_t>::Reader>;
using BlobColumn = Column<capnp::List<capnp::Data>::Reader>;

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_COLUMNS_H_
