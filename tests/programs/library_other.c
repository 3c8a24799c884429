// The second of two libraries that dlopen_reuse loads: the same size, other code.

const char* name = "other";
static int calls;

int answer(int question);

int answer(int question) { return question - 5 - ++calls; }
