#include <string.h>

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

/// Of one byte and 32.
static inline void convstore_sha256_33(uint8_t prefix, const uint8_t *hash, uint8_t *digest) {
    struct sha256_ctx context;
    uint8_t bytes[33];
    bytes[0] = prefix;
    memcpy(bytes + 1, hash, 32);
    sha256_init(&context);
    sha256_update(&context, sizeof bytes, bytes);
    convstore_sha256_digest(&context, digest);
}

/// Of one byte, 32 and 32.
static inline void convstore_sha256_65(uint8_t prefix, const uint8_t *left, const uint8_t *right, uint8_t *digest) {
    struct sha256_ctx context;
    uint8_t bytes[65];
    bytes[0] = prefix;
    memcpy(bytes + 1, left, 32);
    memcpy(bytes + 33, right, 32);
    sha256_init(&context);
    sha256_update(&context, sizeof bytes, bytes);
    convstore_sha256_digest(&context, digest);
}

/// Of one byte, if it is not negative, and what lies in two places. What is short goes to Nettle at once: each of its calls may copy.
static inline void convstore_sha256_of(
    int prefix, const uint8_t *first, size_t first_count, const uint8_t *second, size_t second_count, uint8_t *digest
) {
    struct sha256_ctx context;
    uint8_t bytes[320];
    size_t count = 0;
    sha256_init(&context);
    if (prefix >= 0) bytes[count++] = (uint8_t)prefix;
    if (first_count < sizeof bytes && second_count < sizeof bytes - first_count) {
        if (first_count) memcpy(bytes + count, first, first_count);
        count += first_count;
        if (second_count) memcpy(bytes + count, second, second_count);
        sha256_update(&context, count + second_count, bytes);
    } else {
        sha256_update(&context, count, bytes);
        if (first_count) sha256_update(&context, first_count, first);
        if (second_count) sha256_update(&context, second_count, second);
    }
    convstore_sha256_digest(&context, digest);
}
