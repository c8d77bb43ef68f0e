#include <nettle/sha2.h>
#include <nettle/version.h>

/// Writes the 32 bytes of the digest. Nettle 4 took the length out of the call.
static inline void convstore_sha256_digest(struct sha256_ctx *context, uint8_t *digest) {
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(context, digest);
#else
    sha256_digest(context, SHA256_DIGEST_SIZE, digest);
#endif
}
