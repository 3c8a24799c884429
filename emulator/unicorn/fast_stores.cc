#include "emulator/unicorn/fast_stores.h"

#include <atomic>

#include "emulator/unicorn/unicorn_library.h"

namespace {

std::atomic<uint64_t> pages{0};

// MemTxAttrs, a struct of bit fields in one register, is passed on as the integer it looks like.
using SetPage = void (*)(void* cpu, uint64_t virtual_address, uint64_t physical_address,
                         unsigned attributes, int protection, int mmu_index, uint64_t size);
using SetDirty = void (*)(void* cpu, uint64_t virtual_address);

}  // namespace

// Unicorn's name. What marks the page may be missing in another version.
extern "C" __attribute__((visibility("default"))) void tlb_set_page_with_attrs_x86_64(
    void* cpu, uint64_t virtual_address, uint64_t physical_address, unsigned attributes,
    int protection, int mmu_index, uint64_t size) {
  static const auto original =
      reinterpret_cast<SetPage>(hindsight::NeedInUnicorn("tlb_set_page_with_attrs_x86_64"));
  static const auto set_dirty =
      reinterpret_cast<SetDirty>(hindsight::FindInUnicorn("tlb_set_dirty_x86_64"));
  original(cpu, virtual_address, physical_address, attributes, protection, mmu_index, size);
  if (set_dirty == nullptr) return;
  set_dirty(cpu, virtual_address);
  pages.fetch_add(1, std::memory_order_relaxed);
}

namespace hindsight {

uint64_t PagesWithFastStores() { return pages.load(std::memory_order_relaxed); }

}  // namespace hindsight
