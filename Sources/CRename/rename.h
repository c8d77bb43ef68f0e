#ifdef __linux__
// Not <fcntl.h>, for AT_FDCWD and RENAME_EXCHANGE: it declares `struct stat`, which Swift would then take for this module's where it is read before Glibc,
// and a file that imports Glibc alone could not be compiled along with one that imports this.
#include <sys/syscall.h>
long syscall(long number, ...);
#else
#include <stdio.h>
#endif

/// Exchanges the names of two files or directories in one step (rename(2), RENAME_EXCHANGE). 0, or -1 with errno: not every file system can.
static inline int convstore_exchange(const char *one, const char *other) {
#ifdef __linux__
    enum { here = -100, exchange = 2 };
    return (int)syscall(SYS_renameat2, here, one, here, other, exchange);
#else
    return renamex_np(one, other, RENAME_SWAP);
#endif
}
