/// Has the processor fetch the cache line of an address that is about to be used. Any address will do; nothing is read.
static inline void convstore_prefetch(const void *address) { __builtin_prefetch(address); }
