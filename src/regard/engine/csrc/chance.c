/* ---- Chance: byte number e of an endless row that the seed alone decides. ---- */

static inline uint32_t stir(uint32_t h) {
    h ^= h >> 16;
    h *= 0x21f0aaadu;
    h ^= h >> 15;
    h *= 0x735a2d97u;
    h ^= h >> 15;
    return h;
}

static inline void bytes_of(uint64_t seed, uint64_t block, uint8_t *bytes) {
    uint32_t words[BLOCK / 4];
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32) ^ (uint32_t)(block >> 29);
    uint32_t first = (uint32_t)(block * (BLOCK / 4));
    for (int i = 0; i < BLOCK / 4; i++) words[i] = stir(stir(first + i + low) ^ high);
    memcpy(bytes, words, BLOCK);
}

/* ---- Dropout with its neighbours. An element stays where its byte is at least `dropped` (of 256). ---- */

/* out = x + y where y stays, scaled up, for n elements; the first of them begins dropout block `first_block`. x may be
 * NULL. */
static void add_some(const float *x, const float *y, float *out, int64_t first_block, int64_t n, int dropped,
                     uint64_t seed) {
    float scale = 256.0f / (256 - dropped);
    for (int64_t first = 0; first < n; first += BLOCK) {
        uint8_t bytes[BLOCK] = {0};
        if (dropped) bytes_of(seed, first_block + first / BLOCK, bytes);
        int64_t size = n - first < BLOCK ? n - first : BLOCK;
        const float *yb = y + first;
        float *ob = out + first;
        float kept[BLOCK];
        for (int i = 0; i < BLOCK; i++) kept[i] = bytes[i] >= dropped ? scale : 0.0f;
        if (size == BLOCK && x) {
            const float *xb = x + first;
            for (int i = 0; i < BLOCK; i++) ob[i] = xb[i] + kept[i] * yb[i];
        } else if (size == BLOCK) {
            for (int i = 0; i < BLOCK; i++) ob[i] = kept[i] * yb[i];
        } else {
            for (int i = 0; i < size; i++) ob[i] = (x ? x[first + i] : 0.0f) + kept[i] * yb[i];
        }
    }
}

/* The same for all n elements. Its own backward pass, with the gradient as y. */
void add_dropped(const float *x, const float *y, float *out, int64_t n, int dropped, uint64_t seed) {
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
#pragma omp parallel if (n > SMALL)
    {
        int64_t share = (blocks + omp_get_num_threads() - 1) / omp_get_num_threads();
        int64_t first = share * omp_get_thread_num(), at = first * BLOCK;
        int64_t some = n - at < share * BLOCK ? n - at : share * BLOCK;
        if (some > 0) add_some(x ? x + at : NULL, y + at, out + at, first, some, dropped, seed);
    }
}

/* x = max(0, x + bias) where it stays, scaled up, in place; x is (rows, columns), and its first row is number `first_row`
 * for dropout. */
static void relu_some(float *x, const float *bias, int64_t rows, int64_t columns, int64_t first_row, int dropped,
                      uint64_t seed) {
    float scale = 256.0f / (256 - dropped);
    int64_t blocks = (columns + BLOCK - 1) / BLOCK;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t block = 0; block < blocks; block++) {
            int64_t first = block * BLOCK, size = columns - first < BLOCK ? columns - first : BLOCK;
            float *xb = x + row * columns + first;
            const float *bb = bias + first;
            float kept[BLOCK];
            if (dropped) {
                uint8_t bytes[BLOCK];
                bytes_of(seed, (first_row + row) * blocks + block, bytes);
                for (int i = 0; i < BLOCK; i++) kept[i] = bytes[i] >= dropped ? scale : 0.0f;
            } else {
                for (int i = 0; i < BLOCK; i++) kept[i] = 1.0f;
            }
            if (size == BLOCK) {
                for (int i = 0; i < BLOCK; i++) xb[i] = (xb[i] + bb[i] > 0 ? xb[i] + bb[i] : 0.0f) * kept[i];
            } else {
                for (int i = 0; i < size; i++) xb[i] = (xb[i] + bb[i] > 0 ? xb[i] + bb[i] : 0.0f) * kept[i];
            }
        }
    }
}

/* The same for all rows. */
void relu_dropped(float *x, const float *bias, int64_t rows, int64_t columns, int dropped, uint64_t seed) {
#pragma omp parallel for schedule(static) if (rows * columns > SMALL)
    for (int64_t row = 0; row < rows; row++) relu_some(x + row * columns, bias, 1, columns, row, dropped, seed);
}

/* What came out of relu_dropped says what went through: gx = scale * g there; gbias is its sum over the rows. */
int relu_dropped_backward(const float *g, const float *out, float *gx, float *gbias, int64_t rows,
                          int64_t columns, int dropped) {
    float scale = 256.0f / (256 - dropped);
    int threads = rows * columns > SMALL ? omp_get_max_threads() : 1, ran = 1, status = SUCCESS;
    float *sums = allocate_zeros(checked_mul(threads, columns), sizeof(float), &status);
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        float *sum = sums + (size_t)omp_get_thread_num() * columns;
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            const float *gr = g + row * columns, *outr = out + row * columns;
            float *gxr = gx + row * columns;
            for (int64_t i = 0; i < columns; i++) {
                float each = outr[i] > 0 ? gr[i] * scale : 0.0f;
                gxr[i] = each;
                sum[i] += each;
            }
        }
    }
    memset(gbias, 0, columns * sizeof(float));
    for (int t = 0; t < ran; t++)
        for (int64_t i = 0; i < columns; i++) gbias[i] += sums[(size_t)t * columns + i];
    free(sums);
    return SUCCESS;
}
