// The first of two libraries that dlopen_reuse loads.

const char* name = "one";
static int calls;

int answer(int question);

int answer(int question) { return question * 2 + ++calls; }
