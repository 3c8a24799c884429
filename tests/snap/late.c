// A library that is loaded when the program has run for a while.

int late(int number) { return number + 1; }
