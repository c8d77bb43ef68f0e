#include <endian.h>
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

/// Writes the 32 bytes of the digest of whole blocks, padding and all: Nettle compresses them where they lie, where `sha256_digest` copies what is left of a
/// message and writes the state byte by byte.
static inline void convstore_sha256_blocks(const uint8_t *blocks, size_t count, uint8_t *digest) {
    struct sha256_ctx context;
    uint32_t words[8];
    sha256_init(&context);
    sha256_update(&context, count, blocks);
    for (int index = 0; index < 8; index++) words[index] = htobe32(context.state[index]);
    memcpy(digest, words, sizeof words);
}

/// Pads a message in place: behind it are 72 bytes more.
static inline void convstore_sha256_padded(uint8_t *bytes, size_t count, uint8_t *digest) {
    size_t end = (count + 9 + (SHA256_BLOCK_SIZE - 1)) & ~(size_t)(SHA256_BLOCK_SIZE - 1);
    uint64_t bits = htobe64((uint64_t)count * 8);
    memset(bytes + count, 0, SHA256_BLOCK_SIZE);
    bytes[count] = 0x80;
    memcpy(bytes + end - 8, &bits, 8);
    convstore_sha256_blocks(bytes, end, digest);
}

/// Sixteen bytes of a message that begins one byte before the hashes in it. Whole registers are stored: loads of what lies across two stores would wait.
typedef uint8_t convstore_bytes16 __attribute__((vector_size(16)));

static inline convstore_bytes16 convstore_load16(const uint8_t *bytes) {
    convstore_bytes16 result;
    memcpy(&result, bytes, sizeof result);
    return result;
}

static inline convstore_bytes16 convstore_behind(convstore_bytes16 left, convstore_bytes16 right) {
    return __builtin_shufflevector(left, right, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30);
}

/// Of one byte and 32.
static inline void convstore_sha256_33(uint8_t prefix, const uint8_t *hash, uint8_t *digest) {
    convstore_bytes16 bytes[4] = {{0}};
    convstore_bytes16 first = convstore_load16(hash), second = convstore_load16(hash + 16);
    convstore_bytes16 begin = {0}, end = {0x80};
    begin[15] = prefix;
    bytes[0] = convstore_behind(begin, first);
    bytes[1] = convstore_behind(first, second);
    bytes[2] = convstore_behind(second, end);
    bytes[3][14] = 33 * 8 >> 8;
    bytes[3][15] = 33 * 8 & 0xff;
    convstore_sha256_blocks((const uint8_t *)bytes, sizeof bytes, digest);
}

/// Of one byte, 32 and 32.
static inline void convstore_sha256_65(uint8_t prefix, const uint8_t *left, const uint8_t *right, uint8_t *digest) {
    convstore_bytes16 bytes[8] = {{0}};
    convstore_bytes16 hashes[4] = {convstore_load16(left), convstore_load16(left + 16), convstore_load16(right), convstore_load16(right + 16)};
    convstore_bytes16 begin = {0}, end = {0x80};
    begin[15] = prefix;
    bytes[0] = convstore_behind(begin, hashes[0]);
    for (int index = 1; index < 4; index++) bytes[index] = convstore_behind(hashes[index - 1], hashes[index]);
    bytes[4] = convstore_behind(hashes[3], end);
    bytes[7][14] = 65 * 8 >> 8;
    bytes[7][15] = 65 * 8 & 0xff;
    convstore_sha256_blocks((const uint8_t *)bytes, sizeof bytes, digest);
}

/// Of one byte, if it is not negative, and what lies in two places. What is short goes to Nettle at once: each of its calls may copy.
static inline void convstore_sha256_of(
    int prefix, const uint8_t *first, size_t first_count, const uint8_t *second, size_t second_count, uint8_t *digest
) {
    struct sha256_ctx context;
    uint8_t bytes[320 + 72] __attribute__((aligned(64)));
    size_t count = 0;
    if (prefix >= 0) bytes[count++] = (uint8_t)prefix;
    if (first_count < 320 && second_count < 320 - first_count) {
        if (first_count) memcpy(bytes + count, first, first_count);
        count += first_count;
        if (second_count) memcpy(bytes + count, second, second_count);
        return convstore_sha256_padded(bytes, count + second_count, digest);
    }
    sha256_init(&context);
    sha256_update(&context, count, bytes);
    if (first_count) sha256_update(&context, first_count, first);
    if (second_count) sha256_update(&context, second_count, second);
    convstore_sha256_digest(&context, digest);
}
