/* Token merging: the most similar tokens, and their weighted means (Bolya et al. 2023). */
#include "engine.h"

typedef struct {
    float similarity;
    int from, to;
} Pair;

/* Descending similarity; ties in the order of the tokens. */
static int by_similarity(const void *one, const void *two) {
    const Pair *a = one, *b = two;
    return a->similarity != b->similarity ? (a->similarity < b->similarity ? 1 : -1) : a->from - b->from;
}

/* Tokens at even positions of a sequence are compared with those at odd positions. */
int match_tokens(const float *keys, const int32_t *offsets, int sequences, int size, const int64_t *counts, int neighbors_only,
                int first_stays, int64_t *into) {
    int most = longest_sequence(offsets, sequences), wide = padded(most / 2 + 1), status = SUCCESS;
    int64_t squares = checked_mul(most / 2 + 1, wide), floats = checked_add(checked_mul((int64_t)most + wide, size), squares);
    int64_t *before = allocate(sequences, sizeof(int64_t), &status);
    if (status) return status;
    for (int64_t s = 0, gone = 0; s < sequences; gone += counts[s++]) before[s] = offsets[s] - gone;
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *unit = allocate(floats, sizeof(float), &failed);
        Pair *pairs = allocate(most / 2 + 1, sizeof(Pair), &failed);
        int *target = allocate(most, sizeof(int), &failed);
        float *transposed = failed ? NULL : unit + (size_t)most * size, *similarity = failed ? NULL : transposed + (size_t)size * wide;
        report_status(&status, failed);
#pragma omp for schedule(dynamic, 4)
        for (int s = 0; s < sequences; s++) {
            if (failed) continue;
            int n = offsets[s + 1] - offsets[s], sources = (n + 1) / 2, targets = n / 2, count = 0;
            int columns = padded(targets);
            for (int i = 0; i < n; i++) target[i] = -1;
            if (counts[s]) {
                for (int i = 0; i < n; i++) {
                    const float *key = keys + (int64_t)(offsets[s] + i) * size;
                    float square = 0;
                    for (int c = 0; c < size; c++) square += key[c] * key[c];
                    float scale = 1.0f / fmaxf(sqrtf(square), 1e-12f);
                    for (int c = 0; c < size; c++) unit[(int64_t)i * size + c] = key[c] * scale;
                }
                transpose_padded(unit + size, 2 * size, targets, size, transposed);
                small_gemm(unit, 2 * size, 1, transposed, columns, similarity, columns, sources, size, columns);
                for (int i = first_stays; i < sources; i++) {
                    int from = neighbors_only && i > 0 ? i - 1 : 0, to = neighbors_only && i + 1 < targets ? i + 1 : targets, best = from;
                    const float *row = similarity + (int64_t)i * columns;
                    for (int j = from; j < to; j++) best = row[j] > row[best] ? j : best;
                    pairs[count++] = (Pair){row[best], i, best};
                }
                qsort(pairs, count, sizeof(Pair), by_similarity);
                for (int p = 0; p < counts[s] && p < count; p++) target[2 * pairs[p].from] = 2 * pairs[p].to + 1;
            }
            int64_t *there = into + offsets[s], index = before[s];
            for (int i = 0; i < n; i++)
                if (target[i] < 0) there[i] = index++;
            for (int i = 0; i < n; i++)
                if (target[i] >= 0) there[i] = there[target[i]];
        }
        free(unit);
        free(pairs);
        free(target);
    }
    free(before);
    return status;
}

void sum_rows(const float *x, const float *weight, const int64_t *into, const int32_t *offsets, int sequences, int64_t width,
               float *out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int s = 0; s < sequences; s++)
        for (int64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            float *to = out + into[i] * width;
            for (int64_t c = 0; c < width; c++) to[c] += weight[i] * x[i * width + c];
        }
}
