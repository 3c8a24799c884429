#include "recorder/syscalls/ioctl_outputs.h"

#include <asm/ioctls.h>
#include <linux/blkzoned.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

struct IoctlSize {
  uint32_t request;
  uint32_t bytes;
};

// Requests older than the scheme that encodes sizes, which store through their argument.
constexpr IoctlSize kOldRequests[] = {
    {0x0301, 24},                                       // HDIO_GETGEO
    {FIBMAP, 4},    {FIGETBSZ, 4},        {0x1260, 8},  // BLKGETSIZE
    {0x1268, 4},                                        // BLKSSZGET
    {TCGETS, 36},   {TCGETA, 18},         {TIOCGPGRP, 4},    {TIOCOUTQ, 4},     {TIOCGWINSZ, 8},
    {TIOCMGET, 4},  {TIOCGSOFTCAR, 4},    {FIONREAD, 4},     {TIOCGSERIAL, 72}, {TIOCGETD, 4},
    {TIOCGSID, 4},  {TIOCGLCKTRMIOS, 36}, {TIOCGICOUNT, 80}, {FIOQSIZE, 8},     {SIOCGPGRP, 4},
    {FIOGETOWN, 4}, {SIOCATMARK, 4},
};

constexpr uint32_t kTerminal = 0x54, kSocket = 0x89, kBlock = 0x12, kExtents = 0x94;

// Kinds of requests (letters) of the newer scheme whose structs hold no pointers, except those
// listed below.
constexpr uint32_t kPlainKinds[] = {kTerminal, kBlock,         'f',
                                    'v',       '$' /* perf */, 0xb7 /* namespaces */};
// Of these kinds those that store more than their size says: after the struct, or through a pointer
// in it.
constexpr uint32_t kLargerThanSize[] = {FS_IOC_GET_ENCRYPTION_POLICY_EX, FS_IOC_MEASURE_VERITY,
                                        FS_IOC_READ_VERITY_METADATA, BLKREPORTZONE,
                                        PERF_EVENT_IOC_QUERY_BPF};
// Plain structs of a kind that also has others (XFS).
constexpr uint32_t kPlainRequests[] = {FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FIFREEZE, FITHAW,
                                       FITRIM};

constexpr uint32_t kIfreqBytes = 40;

uint32_t Kind(uint32_t request) { return request >> 8 & 0xff; }
uint32_t Size(uint32_t request) { return request >> 16 & 0x3fff; }
bool Reads(uint32_t request) { return (request >> 30 & 2) != 0; }
bool Old(uint32_t request) { return request >> 16 == 0; }

template <typename Range>
bool Contains(const Range& range, uint32_t value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

bool IsPlain(uint32_t request) {
  if (Contains(kPlainRequests, request)) return true;
  return !Old(request) && Contains(kPlainKinds, Kind(request)) &&
         !Contains(kLargerThanSize, request);
}

void SocketOutputs(uint32_t request, const CallFrame& call, SyscallOutputs* out) {
  const uint64_t at = call.arguments[2];
  if (request == SIOCGIFCONF) {  // int length; a pointer to as many bytes
    out->written.push_back({at, 16});
    AddBuffer(call, call.before.Word(at + 8, 8), call.before.Word(at, 4), out);
  } else if (request == SIOCETHTOOL || request >= SIOCDEVPRIVATE) {
    out->known = false;
  } else {
    out->written.push_back({at, kIfreqBytes});
  }
}

}  // namespace

void IoctlOutputs(const CallFrame& call, SyscallOutputs* out) {
  const auto request = static_cast<uint32_t>(call.arguments[1]);
  const uint64_t at = call.arguments[2];
  const auto old =
      std::find_if(std::begin(kOldRequests), std::end(kOldRequests),
                   [request](const IoctlSize& entry) { return entry.request == request; });
  if (old != std::end(kOldRequests)) {
    out->written.push_back({at, old->bytes});
  } else if (Old(request) && Kind(request) == kSocket) {
    SocketOutputs(request, call, out);
  } else if (Old(request) && Kind(request) == kTerminal) {
    out->known = request != TIOCLINUX;
  } else if (request == FICLONE || request == FICLONERANGE) {
    out->writes_files = true;
  } else if (request == FS_IOC_FIEMAP) {
    const uint64_t extents =
        std::min(call.before.Word(at + offsetof(fiemap, fm_extent_count), 4),
                 ReadWord(call.read, at + offsetof(fiemap, fm_mapped_extents), 4).value_or(0));
    out->written.push_back({at, sizeof(fiemap) + extents * sizeof(fiemap_extent)});
  } else if (IsPlain(request)) {
    if (Reads(request)) out->written.push_back({at, Size(request)});
  } else {
    out->known = false;
  }
}

}  // namespace hindsight
