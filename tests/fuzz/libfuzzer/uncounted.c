// Programs that are no fuzzers do not count which blocks of the library ran: gcc calls this in each (-fsanitize-coverage=trace-pc).
void __sanitizer_cov_trace_pc(void) {}
