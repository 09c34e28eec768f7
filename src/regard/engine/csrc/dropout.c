/* Dropout from a counter-based random generator: a byte per element, which depends on the seed and the element's number only.
 * An element is kept if its byte is at least the threshold (of 256). */
#include "engine.h"

static inline uint32_t hash32(uint32_t h) {
    h ^= h >> 16;
    h *= 0x21f0aaadu;
    h ^= h >> 15;
    h *= 0x735a2d97u;
    h ^= h >> 15;
    return h;
}

static inline void block_bytes(uint64_t seed, uint64_t block, uint8_t *bytes) {
    uint32_t words[DROPOUT_BLOCK / 4];
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32) ^ (uint32_t)(block >> 29);
    uint32_t first = (uint32_t)(block * (DROPOUT_BLOCK / 4));
    for (int i = 0; i < DROPOUT_BLOCK / 4; i++) words[i] = hash32(hash32(first + i + low) ^ high);
    memcpy(bytes, words, DROPOUT_BLOCK);
}

void dropout_bytes(uint64_t seed, uint64_t block, uint8_t *bytes) { block_bytes(seed, block, bytes); }

/* 0 where an element is dropped, the scale of the others elsewhere. */
static inline void block_mask(uint64_t seed, uint64_t block, int threshold, float scale, float *mask) {
    uint8_t bytes[DROPOUT_BLOCK];
    block_bytes(seed, block, bytes);
    for (int i = 0; i < DROPOUT_BLOCK; i++) mask[i] = bytes[i] >= threshold ? scale : 0.0f;
}

static void add_floats(const float *x, const float *y, float *out, int64_t n) {
    if (x)
        for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
    else if (out != y)
        memcpy(out, y, sizeof(float) * n);
}

void dropout_add(const float *x, const float *y, float *out, int64_t first_row, int64_t rows, int64_t columns, int threshold,
                 uint64_t seed) {
    if (!threshold) {
        add_floats(x, y, out, rows * columns);
        return;
    }
    float scale = 256.0f / (256 - threshold);
    int64_t blocks = (columns + DROPOUT_BLOCK - 1) / DROPOUT_BLOCK;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t block = 0; block < blocks; block++) {
            int64_t first = row * columns + block * DROPOUT_BLOCK, size = min64(DROPOUT_BLOCK, columns - block * DROPOUT_BLOCK);
            float mask[DROPOUT_BLOCK];
            block_mask(seed, (first_row + row) * blocks + block, threshold, scale, mask);
            const float *xb = x ? x + first : NULL, *yb = y + first;
            float *ob = out + first;
            if (size == DROPOUT_BLOCK && x)
                for (int i = 0; i < DROPOUT_BLOCK; i++) ob[i] = xb[i] + mask[i] * yb[i];
            else if (size == DROPOUT_BLOCK)
                for (int i = 0; i < DROPOUT_BLOCK; i++) ob[i] = mask[i] * yb[i];
            else
                for (int i = 0; i < size; i++) ob[i] = (x ? xb[i] : 0.0f) + mask[i] * yb[i];
        }
}

void dropout_row(float *x, int64_t row, int64_t columns, int threshold, uint64_t seed) {
    if (threshold) dropout_add(NULL, x, x, row, 1, columns, threshold, seed);
}
