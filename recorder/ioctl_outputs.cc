#include "recorder/ioctl_outputs.h"

#include <asm/ioctls.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/sockios.h>

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

struct IoctlSize {
  uint32_t request;
  uint32_t bytes;
};

// Requests older than the scheme that tells sizes, which store through their argument.
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

// Kinds of requests (letters) of the newer scheme whose structs hold no pointers, as far as they
// are not named below.
constexpr uint32_t kPlainKinds[] = {kTerminal, kBlock,         'f', 'v',
                                    'X',       '$' /* perf */, 0xb7 /* namespaces */};

constexpr uint32_t kIfreqBytes = 40;

uint32_t Kind(uint32_t request) { return request >> 8 & 0xff; }
uint32_t Size(uint32_t request) { return request >> 16 & 0x3fff; }
bool Reads(uint32_t request) { return (request >> 30 & 2) != 0; }
bool Old(uint32_t request) { return request >> 16 == 0; }

void SocketOutputs(uint32_t request, const CallFrame& call, SyscallOutputs* out) {
  const uint64_t at = call.arguments[2];
  if (request == SIOCGIFCONF) {  // int length; a pointer to as many bytes
    out->written.push_back({at, 16});
    out->written.push_back(
        {ReadWord(call.read, at + 8, 8).value_or(0), ReadWord(call.read, at, 4).value_or(0)});
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
        ReadWord(call.read, at + offsetof(fiemap, fm_mapped_extents), 4).value_or(0);
    out->written.push_back({at, sizeof(fiemap) + extents * sizeof(fiemap_extent)});
  } else if (std::find(std::begin(kPlainKinds), std::end(kPlainKinds), Kind(request)) !=
                 std::end(kPlainKinds) &&
             !Old(request)) {
    if (Reads(request)) out->written.push_back({at, Size(request)});
  } else {
    out->known = false;
  }
}

}  // namespace hindsight
