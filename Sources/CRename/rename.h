#ifdef __linux__
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <stdio.h>
#endif

/// Exchanges the names of two files or directories in one step (rename(2), RENAME_EXCHANGE). 0, or -1 with errno: not every file system can.
static inline int convstore_exchange(const char *one, const char *other) {
#ifdef __linux__
    return (int)syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2u);
#else
    return renamex_np(one, other, RENAME_SWAP);
#endif
}
