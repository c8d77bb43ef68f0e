#include <lmdb.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif
