/* Nothing: the compiler reads a header in front of it. */
typedef int nothing;
