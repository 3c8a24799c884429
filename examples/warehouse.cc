// A small warehouse: goods come in, goods go out, and at the end of the month a report is printed.
//
// It dies while printing the report. No compiler warns of the cause, and at the place where it dies
// the guilty statement is long over. `./demo` records one run and walks back to it.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

struct Product {
  std::string name;
  int64_t price_cents = 0;
};

// One shelf holds one product and remembers its latest movements, in a ring.
struct Shelf {
  static constexpr int kRemembered = 8;

  int64_t quantity = 0;
  int next = 0;  // where the ring is written next
  int64_t movements[kRemembered] = {};
  const Product* product = nullptr;
};

static void Remember(Shelf& shelf, int64_t change) {
  shelf.movements[shelf.next] = change;
  shelf.next = shelf.next < Shelf::kRemembered ? shelf.next + 1 : 0;
}

static void Move(Shelf& shelf, int64_t change) {
  shelf.quantity += change;
  Remember(shelf, change);
}

// The same month every time.
class Customers {
 public:
  int64_t NextOrder(int64_t at_most) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state_ >> 33) % at_most + 1;
  }

 private:
  uint64_t state_ = 2024;
};

static void RunMonth(std::vector<Shelf>& shelves) {
  Customers customers;
  for (int day = 1; day <= 30; ++day) {
    for (size_t i = 0; i < shelves.size(); ++i) {
      // The shelves are visited on different days of the week.
      if ((day + i) % 7 >= 2) continue;
      const int64_t order = customers.NextOrder(9);
      if (shelves[i].quantity < order) Move(shelves[i], 40);
      Move(shelves[i], -order);
    }
  }
}

static void PrintReport(const std::vector<Shelf>& shelves) {
  int64_t total_cents = 0;
  for (const Shelf& shelf : shelves) {
    const Product& product = *shelf.product;
    const int64_t value_cents = shelf.quantity * product.price_cents;
    std::printf("%-12s %4ld pieces %8ld.%02ld\n", product.name.c_str(), shelf.quantity,
                value_cents / 100, value_cents % 100);
    total_cents += value_cents;
  }
  std::printf("%-12s %20ld.%02ld\n", "total", total_cents / 100, total_cents % 100);
}

int main() {
  const std::vector<Product> products = {
      {"anvil", 4999}, {"bolt", 12}, {"chain", 850}, {"drill", 7900}, {"engine", 125000}};
  std::vector<Shelf> shelves(products.size());
  for (size_t i = 0; i < products.size(); ++i) {
    shelves[i].product = &products[i];
    shelves[i].quantity = 20;
  }
  RunMonth(shelves);
  PrintReport(shelves);
  return 0;
}
