// Transfers between two accounts lock the one they take from first: two in opposite directions wait
// for each other. The alarm ends that.
#include <pthread.h>
#include <unistd.h>

#include "tests/programs/races/work.h"

struct account {
  pthread_mutex_t lock;
  long balance;
};

static struct account accounts[2] = {{PTHREAD_MUTEX_INITIALIZER, 100},
                                     {PTHREAD_MUTEX_INITIALIZER, 100}};

static void transfer(struct account* from, struct account* to, long amount) {
  pthread_mutex_lock(&from->lock);
  pthread_mutex_lock(&to->lock);
  from->balance -= amount;
  to->balance += amount;
  pthread_mutex_unlock(&to->lock);
  pthread_mutex_unlock(&from->lock);
}

static void* teller(void* argument) {
  const int from = (int)(long)argument;
  uint64_t state = from + 1;
  for (int i = 0; i < 3; i++) {
    state = work(state, 3000);
    transfer(&accounts[from], &accounts[1 - from], (long)(state % 10));
  }
  return NULL;
}

int main(void) {
  alarm(5);
  pthread_t one, other;
  pthread_create(&one, NULL, teller, (void*)0);
  pthread_create(&other, NULL, teller, (void*)1);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  return accounts[0].balance + accounts[1].balance == 200 ? 0 : 1;
}
