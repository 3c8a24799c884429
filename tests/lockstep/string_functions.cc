// libc's string functions over lengths and alignments that reach all their paths.

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <initializer_list>

namespace {

char first[2048], second[2048];

uint64_t Once(size_t length, size_t offset) {
  char* a = first + offset;
  char* b = second + (offset * 7) % 16;
  for (size_t i = 0; i < length; ++i) a[i] = static_cast<char>('a' + i % 23);
  a[length] = 0;
  std::memcpy(b, a, length + 1);
  uint64_t sum = std::strlen(a) + strnlen(b, length / 2 + 1);
  sum += static_cast<uint64_t>(std::strcmp(a, b) + std::strncmp(a, b, length));
  sum += static_cast<uint64_t>(std::memcmp(a, b, length) + strcasecmp(a, b));
  if (char* found = std::strchr(a, 'q')) sum += static_cast<uint64_t>(found - a);
  if (char* found = std::strrchr(a, 'c')) sum += static_cast<uint64_t>(found - a);
  if (void* found = std::memchr(a, 'w', length))
    sum += static_cast<uint64_t>(static_cast<char*>(found) - a);
  if (void* found = memrchr(a, 'b', length))
    sum += static_cast<uint64_t>(static_cast<char*>(found) - a);
  sum += std::strspn(a, "abcdefghijk") + std::strcspn(a, "xwv");
  if (char* found = std::strpbrk(a, "ut")) sum += static_cast<uint64_t>(found - a);
  if (char* found = std::strstr(a, "qrstuv")) sum += static_cast<uint64_t>(found - a);
  if (void* found = memmem(a, length, "wab", 3))
    sum += static_cast<uint64_t>(static_cast<char*>(found) - a);
  std::memmove(b + 3, b, length);
  std::memset(b, 'z', length / 3);
  std::strcpy(b, a);
  std::strncat(b, "tail", 3);
  if (length > 2) b[length / 2] ^= 1;
  sum += static_cast<uint64_t>(std::strcmp(a, b) > 0) + (std::memcmp(a, b, length) > 0);
  return sum;
}

}  // namespace

int main() {
  uint64_t sum = 0;
  for (size_t length :
       {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 128, 200, 257, 511, 1000}) {
    for (size_t offset : {0, 9}) sum += Once(length, offset);
  }
  char words[] = "the quick,brown;fox jumps 42 over -17 lazy 0x1f dogs";
  char* rest = nullptr;
  for (char* word = strtok_r(words, " ,;", &rest); word; word = strtok_r(nullptr, " ,;", &rest)) {
    sum += static_cast<uint64_t>(std::strtol(word, nullptr, 0)) + std::toupper(word[0]);
  }
  int a = 0, b = 0;
  char name[32];
  sum += static_cast<uint64_t>(
      std::sscanf("12 abc 0x1f", "%d %31s %x", &a, name, reinterpret_cast<unsigned*>(&b)));
  wchar_t wide[64];
  sum += std::mbstowcs(wide, "wide enough", 64) + std::wcslen(wide);
  std::printf("%llu %d %d\n", static_cast<unsigned long long>(sum), a, b);
  return 0;
}
