// Containers of the standard library, for pretty printers and for functions called from gdb.

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

// Called by the program now and then, and by gdb.
__attribute__((noinline)) int Twice(int value) { return 2 * value; }

__attribute__((noinline)) size_t Look(const std::string& name,
                                      const std::map<std::string, int>& ages,
                                      const std::vector<int>& numbers, const char* text) {
  size_t sum = name.size() + std::strlen(text);
  for (const auto& [who, age] : ages) sum += who.size() + age;
  for (const int number : numbers) sum += Twice(number);
  return sum;  // everything is in place
}

int main() {
  const std::string name = "a string longer than fits into its object";
  const std::map<std::string, int> ages = {{"one", 1}, {"three", 3}, {"two", 2}};
  const std::vector<int> numbers = {10, 20, 30};
  const char* text = "nine char";
  std::printf("%zu\n", Look(name, ages, numbers, text));
  return 0;
}
