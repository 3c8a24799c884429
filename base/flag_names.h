// Names of the numbers that system calls take: flags, and values of which one is meant.
//
// They come from the headers of the system this is built on.

#ifndef HINDSIGHT_BASE_FLAG_NAMES_H_
#define HINDSIGHT_BASE_FLAG_NAMES_H_

#include <cstdint>
#include <string>

namespace hindsight {

enum class FlagKind : uint8_t {
  kOpen,
  kProtection,
  kMap,
  kRemap,
  kAdvice,
  kFutex,
  kClone,
  kSeek,
  kAccess,
  kAt,
  kSignalMask,  // the first argument of rt_sigprocmask
  kSignal,
  kFcntl,
  kAddressFamily,
  kSocketType,
  kMessage,
  kSocketLevel,
  kEpollOperation,
  kEpollCreate,
  kEventFd,
  kPipe,
  kClock,
  kResource,
  kWait,
  kPrctl,
  kArchPrctl,
  kRandom,
  kMemfd,
  kSync,
  kMembarrier,
};

// "O_RDWR|O_CREAT", "SEEK_SET", with what has no name in hexadecimal ("O_RDWR|0x10000000", "0x77").
std::string FlagText(FlagKind kind, uint64_t value);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_FLAG_NAMES_H_
