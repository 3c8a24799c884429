#include "recorder/process/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// How many the kernel takes at once (IOV_MAX).
constexpr size_t kMaxPieces = 1024;

// Adjacent pieces are one to the kernel, which takes its locks for each.
void Append(void* address, size_t length, std::vector<iovec>* vectors) {
  if (!vectors->empty()) {
    iovec& last = vectors->back();
    if (static_cast<uint8_t*>(last.iov_base) + last.iov_len == address) {
      last.iov_len += length;
      return;
    }
  }
  vectors->push_back({address, length});
}

template <typename Transfer>
size_t MovePieces(pid_t thread, absl::Span<const MemoryPiece> pieces, Transfer transfer) {
  size_t done = 0;
  std::vector<iovec> local, remote;
  while (done < pieces.size()) {
    const size_t batch = std::min(kMaxPieces, pieces.size() - done);
    local.clear();
    remote.clear();
    for (const MemoryPiece& piece : pieces.subspan(done, batch)) {
      Append(piece.bytes, piece.length, &local);
      Append(reinterpret_cast<void*>(piece.address), piece.length, &remote);
    }
    // If not all can be copied, the kernel returns the bytes up to the page that cannot.
    ssize_t moved = transfer(thread, local.data(), local.size(), remote.data(), remote.size(), 0);
    size_t whole = 0;
    while (whole < batch && moved >= static_cast<ssize_t>(pieces[done + whole].length)) {
      moved -= pieces[done + whole++].length;
    }
    done += whole;
    if (whole < batch) break;
  }
  return done;
}

}  // namespace

bool ProcessMemory::Read(uint64_t address, absl::Span<uint8_t> out) const {
  const MemoryPiece piece = {address, out.data(), out.size()};
  return ReadPieces({&piece, 1}) == 1;
}

bool ProcessMemory::Write(uint64_t address, absl::Span<const uint8_t> bytes) {
  const MemoryPiece piece = {address, const_cast<uint8_t*>(bytes.data()), bytes.size()};
  return WritePieces({&piece, 1}) == 1;
}

size_t ProcessVmMemory::ReadPieces(absl::Span<const MemoryPiece> pieces) const {
  errno = 0;
  const size_t done = MovePieces(thread_, pieces, process_vm_readv);
  if (done == pieces.size() || errno != ENOSYS) return done;
  return ProcMemFile(thread_).ReadPieces(pieces);
}

size_t ProcessVmMemory::WritePieces(absl::Span<const MemoryPiece> pieces) {
  return MovePieces(thread_, pieces, process_vm_writev);
}

// To be read at least, where writing is forbidden.
ProcMemFile::ProcMemFile(pid_t thread) {
  const std::string path = absl::StrCat("/proc/", thread, "/mem");
  file_ = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_.valid()) file_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

size_t ProcMemFile::ReadPieces(absl::Span<const MemoryPiece> pieces) const {
  const auto unread = std::find_if(pieces.begin(), pieces.end(), [&](const MemoryPiece& piece) {
    return pread(file_.get(), piece.bytes, piece.length, static_cast<off_t>(piece.address)) !=
           static_cast<ssize_t>(piece.length);
  });
  return unread - pieces.begin();
}

size_t ProcMemFile::WritePieces(absl::Span<const MemoryPiece> pieces) {
  const auto unwritten = std::find_if(pieces.begin(), pieces.end(), [&](const MemoryPiece& piece) {
    return pwrite(file_.get(), piece.bytes, piece.length, static_cast<off_t>(piece.address)) !=
           static_cast<ssize_t>(piece.length);
  });
  return unwritten - pieces.begin();
}

}  // namespace hindsight
