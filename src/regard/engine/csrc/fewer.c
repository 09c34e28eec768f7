/* ---- Fewer tokens. ---- */

typedef struct {
    float fit;
    int seeker, other;
} Pair;

/* The better fit first, of equal ones the earlier seeker. */
static int more_alike(const void *one, const void *two) {
    const Pair *a = one, *b = two;
    return a->fit != b->fit ? (a->fit < b->fit ? 1 : -1) : a->seeker - b->seeker;
}

/* Where each token goes, counted through all that are left: every other token of a sentence looks for the one among
   the rest whose key (tokens, size) is most like its own, and the `many` best pairs are merged. */
int match_apart(const float *keys, const int32_t *start, int sentences, int size, const int64_t *many, int near,
                int first_stays, int64_t *into) {
    int most = longest(start, sentences), wide = padded(most / 2 + 1), status = SUCCESS;
    int64_t squares = checked_mul(most / 2 + 1, wide), floats = checked_add(checked_mul((int64_t)most + wide, size), squares);
    int64_t *before = allocate(sentences, sizeof(int64_t), &status);
    if (status) return status;
    for (int64_t s = 0, gone = 0; s < sentences; gone += many[s++]) before[s] = start[s] - gone;
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *unit = allocate(floats, sizeof(float), &failed);
        Pair *pairs = allocate(most / 2 + 1, sizeof(Pair), &failed);
        int *target = allocate(most, sizeof(int), &failed);
        float *turn = failed ? NULL : unit + (size_t)most * size, *fit = failed ? NULL : turn + (size_t)size * wide;
        report(&status, failed);
#pragma omp for schedule(dynamic, 4)
        for (int s = 0; s < sentences; s++) {
            if (failed) continue;
            int n = start[s + 1] - start[s], seekers = (n + 1) / 2, others = n / 2, count = 0;
            int columns = padded(others);
            for (int i = 0; i < n; i++) target[i] = -1;
            if (many[s]) {
                for (int i = 0; i < n; i++) {
                    const float *key = keys + (int64_t)(start[s] + i) * size;
                    float square = 0;
                    for (int c = 0; c < size; c++) square += key[c] * key[c];
                    float scale = 1.0f / fmaxf(sqrtf(square), 1e-12f);
                    for (int c = 0; c < size; c++) unit[(int64_t)i * size + c] = key[c] * scale;
                }
                turned(unit + size, 2 * size, others, size, turn);
                product(unit, 2 * size, 1, turn, columns, fit, columns, seekers, size, columns);
                for (int i = first_stays; i < seekers; i++) {
                    int from = near && i > 0 ? i - 1 : 0, to = near && i + 1 < others ? i + 1 : others, best = from;
                    const float *row = fit + (int64_t)i * columns;
                    for (int j = from; j < to; j++) best = row[j] > row[best] ? j : best;
                    pairs[count++] = (Pair){row[best], i, best};
                }
                qsort(pairs, count, sizeof(Pair), more_alike);
                for (int p = 0; p < many[s] && p < count; p++) target[2 * pairs[p].seeker] = 2 * pairs[p].other + 1;
            }
            int64_t *there = into + start[s], place = before[s];
            for (int i = 0; i < n; i++)
                if (target[i] < 0) there[i] = place++;
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

/* Rows (tokens, width), each times its share, added up where they go; `out` is zeros at first. */
void join_rows(const float *x, const float *share, const int64_t *into, const int32_t *start, int sentences, int64_t width,
               float *out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int s = 0; s < sentences; s++)
        for (int64_t i = start[s]; i < start[s + 1]; i++) {
            float *to = out + into[i] * width;
            for (int64_t c = 0; c < width; c++) to[c] += share[i] * x[i * width + c];
        }
}
