// LU decomposition of a 512 x 512 matrix, the rows divided among threads that wait for each
// other after each column. The argument is the number of threads, by default two.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSize = 512, kMostThreads = 16 };

static double matrix[kSize][kSize];
static pthread_barrier_t column_done;
static int threads = 2;

// Eliminates column `column` from this thread's rows below it.
static void eliminate(int column, int first_row) {
  for (int row = first_row; row < kSize; row += threads) {
    const double factor = matrix[row][column] /= matrix[column][column];
    for (int i = column + 1; i < kSize; i++) matrix[row][i] -= factor * matrix[column][i];
  }
}

static void* decompose(void* number) {
  for (int column = 0; column < kSize - 1; column++) {
    eliminate(column, column + 1 + *(const int*)number);
    pthread_barrier_wait(&column_done);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  if (threads < 1 || threads > kMostThreads) {
    fprintf(stderr, "usage: lu [THREADS], at most %d\n", kMostThreads);
    return 1;
  }
  srand(1);
  for (int row = 0; row < kSize; row++) {
    // Large on the diagonal, so that no rows need exchanging.
    for (int i = 0; i < kSize; i++) matrix[row][i] = rand() % 100 + (row == i) * 1000;
  }
  pthread_barrier_init(&column_done, NULL, (unsigned)threads);
  pthread_t ids[kMostThreads];
  int numbers[kMostThreads];
  for (int i = 0; i < threads; i++) {
    numbers[i] = i;
    if (pthread_create(&ids[i], NULL, decompose, &numbers[i]) != 0) return 1;
  }
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  double trace = 0;
  for (int i = 0; i < kSize; i++) trace += matrix[i][i];
  printf("%.17g\n", trace);
  return 0;
}
