#include "recorder/snapshot/points/life_mark.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/memory/memory.h"
#include "absl/status/status.h"

namespace hindsight {

// What set_robust_list(2) is given: a head, and one entry that is linked with it. The kernel looks
// for the futex of an entry at the entry's address plus the head's offset.
struct LifeMark::List {
  robust_list_head head;
  robust_list entry;
};

absl::StatusOr<std::unique_ptr<LifeMark>> LifeMark::Set(uint32_t* word) {
  // A shared mapping: where memory runs out, the kernel may take private pages from a process that
  // it has killed before the process's threads have ended.
  void* page =
      mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return absl::ErrnoToStatus(errno, "the list of robust futexes");
  auto mark = absl::WrapUnique(new LifeMark(word, static_cast<List*>(page)));
  List& list = *mark->list_;
  list.head.list.next = &list.entry;
  list.head.futex_offset =
      reinterpret_cast<intptr_t>(word) - reinterpret_cast<intptr_t>(&list.entry);
  list.entry.next = &list.head.list;

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  mark->thread_ = std::thread([m = mark.get()] { m->Live(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  mark->begun_.wait();
  if (!mark->is_set_) return absl::InternalError("set_robust_list failed");
  return mark;
}

LifeMark::~LifeMark() {
  ending_.count_down();
  if (thread_.joinable()) thread_.join();
  munmap(list_, sizeof(List));
}

// libc's own list of this thread, which is replaced here, stays empty: the thread locks nothing.
void LifeMark::Live() {
  is_set_ = syscall(SYS_set_robust_list, &list_->head, sizeof(list_->head)) == 0;
  if (is_set_) {
    __atomic_store_n(word_, static_cast<uint32_t>(syscall(SYS_gettid)), __ATOMIC_RELEASE);
  }
  begun_.count_down();
  ending_.wait();
  __atomic_store_n(word_, 0, __ATOMIC_RELEASE);
  syscall(SYS_set_robust_list, nullptr, sizeof(list_->head));
}

}  // namespace hindsight
