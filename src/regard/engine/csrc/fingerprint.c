/* Checksums of weights, to detect any change. */
#include "engine.h"

typedef uint32_t u8 __attribute__((vector_size(32), aligned(4)));
#define CHAINS 8                /* independent chains, to hide the latency of the multiplication */
#define FINGERPRINT_BLOCK 65536 /* bytes per task */

/* Every step is a bijection of a lane's state, so that a changed word always changes the state of its lane. */
static uint64_t fingerprint_block(const uint8_t *bytes, int64_t size, uint64_t seed) {
    u8 lanes[CHAINS];
    uint64_t result = seed ^ (uint64_t)size;
    for (int c = 0; c < CHAINS; c++)
        for (int l = 0; l < 8; l++) lanes[c][l] = 0x9e3779b9u * (8 * c + l + 1) ^ (uint32_t)seed;
    int64_t at = 0;
    for (; at + 32 * CHAINS <= size; at += 32 * CHAINS)
        UNROLL(c, CHAINS) lanes[c] = (lanes[c] ^ *(const u8 *)(bytes + at + 32 * c)) * 0x85ebca6bu;
    for (int c = 0; c < CHAINS; c++)
        for (int l = 0; l < 8; l++) {
            result = (result ^ lanes[c][l]) * 0xff51afd7ed558ccdu;
            result ^= result >> 32;
        }
    for (; at < size; at++) result = (result ^ bytes[at]) * 0x100000001b3u;
    return result ^ (result >> 29);
}

/* result: two sums over the blocks of all tensors, of values that depend on the position of a block. */
void fingerprint(const void *const *tensors, const int64_t *sizes, int64_t count, uint64_t *result) {
    uint64_t first = 0, second = 0;
#pragma omp parallel reduction(+ : first, second)
    {
        int64_t number = 0;
        for (int64_t t = 0; t < count; t++)
            for (int64_t at = 0; at < sizes[t]; at += FINGERPRINT_BLOCK, number++) {
                if (number % omp_get_num_threads() != omp_get_thread_num()) continue;
                int64_t size = sizes[t] - at < FINGERPRINT_BLOCK ? sizes[t] - at : FINGERPRINT_BLOCK;
                uint64_t value = fingerprint_block((const uint8_t *)tensors[t] + at, size, t * 0x9e3779b97f4a7c15u + at);
                first += value;
                second += (value >> 31) * (value | 1);
            }
    }
    result[0] = first, result[1] = second;
}
