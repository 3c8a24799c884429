// Allocation, sorting, searching, hashing and printing: the code of ordinary programs.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

int Compare(const void* a, const void* b) {
  const int x = *static_cast<const int*>(a), y = *static_cast<const int*>(b);
  return (x > y) - (x < y);
}

}  // namespace

int main() {
  std::vector<int> numbers;
  uint32_t seed = 12345;
  for (int i = 0; i < 100; ++i) numbers.push_back(static_cast<int>((seed = seed * 69069 + 1) >> 8));
  std::vector<int> copy = numbers;
  std::qsort(copy.data(), copy.size(), sizeof(int), Compare);
  std::sort(numbers.begin(), numbers.end());
  if (copy != numbers) return 1;

  std::map<std::string, int> ordered;
  std::unordered_map<std::string, int> hashed;
  char text[128];
  for (int i = 0; i < 25; ++i) {
    std::snprintf(text, sizeof(text), "%08x %-12d %+5i %s %c %lu", numbers[i], numbers[i], i,
                  "word", 'a' + i % 26, static_cast<unsigned long>(numbers[i]) * 1000003);
    ordered[text] = i;
    hashed[text] += i;
  }
  int64_t sum = 0;
  for (const auto& [key, value] : ordered) sum += hashed.at(key) * value + std::atoi(key.c_str());
  std::vector<void*> blocks;
  for (size_t size = 1; size < 300000; size = size * 3 / 2 + 1) blocks.push_back(std::malloc(size));
  for (void*& block : blocks) block = std::realloc(block, 100);
  for (void* block : blocks) std::free(block);
  std::printf("%lld\n", static_cast<long long>(sum));
  return 0;
}
