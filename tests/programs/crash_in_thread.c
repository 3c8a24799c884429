// One thread stores a bad pointer in a list that threads share; another thread crashes on it later.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Item {
  struct Item* next;
  int value;
} Item;

enum { kItems = 20, kBad = 13 };

static Item* items[kItems];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int reading, stored, read_so_far;

// The culprit.
static void store(int index) {
  Item* item = malloc(sizeof(*item));
  item->value = index;
  item->next = NULL;
  pthread_mutex_lock(&mutex);
  items[index] = item;
  if (index == kBad) items[index] = (Item*)0x30;  // the bad write
  stored = index + 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static void* writer(void* argument) {
  pthread_setname_np(pthread_self(), "writer");
  pthread_mutex_lock(&mutex);
  while (!reading) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < kItems; i++) store(i);
  return argument;
}

// The victim.
static int load(int index) {
  Item* item = items[index];
  return item->value;  // the crash
}

static void* reader(void* argument) {
  int sum = 0;
  pthread_setname_np(pthread_self(), "reader");
  pthread_mutex_lock(&mutex);
  reading = 1;
  pthread_cond_broadcast(&changed);
  while (stored < kItems) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < kItems; i++) {
    sum += load(i);
    read_so_far = i + 1;
  }
  printf("sum %d\n", sum);
  return argument;
}

int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, reader, NULL);
  pthread_create(&threads[1], NULL, writer, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
