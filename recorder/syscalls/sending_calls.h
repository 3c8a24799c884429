// Which system calls send memory of the program's - write() and its relatives - and where they say
// what.
//
// Stateless; also for code without a library.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SENDING_CALLS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SENDING_CALLS_H_

#include <stdint.h>
#include <sys/syscall.h>

namespace hindsight {

enum class SentAs : uint8_t {
  kBytes,     // address and size in two arguments
  kVectors,   // iovecs and their number
  kMessage,   // a msghdr
  kMessages,  // mmsghdrs and their number
  kQueued,    // a msgbuf: a long, then as many bytes as the next argument says
};

struct SendingCall {
  int64_t number;
  SentAs as;
  int argument;  // the first one that describes the memory
};

inline constexpr SendingCall kSendingCalls[] = {
    {SYS_write, SentAs::kBytes, 1},      {SYS_pwrite64, SentAs::kBytes, 1},
    {SYS_sendto, SentAs::kBytes, 1},     {SYS_mq_timedsend, SentAs::kBytes, 1},
    {SYS_setsockopt, SentAs::kBytes, 3}, {SYS_writev, SentAs::kVectors, 1},
    {SYS_pwritev, SentAs::kVectors, 1},  {SYS_pwritev2, SentAs::kVectors, 1},
    {SYS_vmsplice, SentAs::kVectors, 1}, {SYS_process_vm_writev, SentAs::kVectors, 1},
    {SYS_sendmsg, SentAs::kMessage, 1},  {SYS_sendmmsg, SentAs::kMessages, 1},
    {SYS_msgsnd, SentAs::kQueued, 1},
};

// Null: it sends nothing.
constexpr const SendingCall* FindSendingCall(int64_t number) {
  for (const SendingCall& call : kSendingCalls) {
    if (call.number == number) return &call;
  }
  return nullptr;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SENDING_CALLS_H_
