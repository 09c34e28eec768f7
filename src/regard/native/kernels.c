/* What PyTorch does in many passes over memory, in one: see the plain twins in the Python files that call these.
 *
 * Float32, rows next to each other unless a stride is given. Work is shared over OpenMP's threads, the same ones
 * that PyTorch uses; whatever is added up is added up in an order that depends on the number of threads alone.
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 32    /* elements whose chance comes from eight words */
#define SMALL 16384 /* elements that are not worth a second thread */

typedef float v8 __attribute__((vector_size(32), aligned(4)));

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

/* out = x + y where y stays, scaled up; x may be missing. Its own backward pass, with the gradient as y. */
void add_dropped(const float *x, const float *y, float *out, int64_t n, int dropped, uint64_t seed) {
    float scale = 256.0f / (256 - dropped);
#pragma omp parallel for schedule(static) if (n > SMALL)
    for (int64_t block = 0; block < (n + BLOCK - 1) / BLOCK; block++) {
        uint8_t bytes[BLOCK];
        bytes_of(seed, block, bytes);
        int64_t first = block * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
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

/* x = max(0, x + bias) where it stays, scaled up; x is (rows, columns) and changed in place. */
void relu_dropped(float *x, const float *bias, int64_t rows, int64_t columns, int dropped, uint64_t seed) {
    float scale = 256.0f / (256 - dropped);
    int64_t blocks = (columns + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(static) if (rows * columns > SMALL)
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t block = 0; block < blocks; block++) {
            int64_t first = block * BLOCK, size = columns - first < BLOCK ? columns - first : BLOCK;
            float *xb = x + row * columns + first;
            const float *bb = bias + first;
            float kept[BLOCK];
            if (dropped) {
                uint8_t bytes[BLOCK];
                bytes_of(seed, row * blocks + block, bytes);
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

/* What came out of relu_dropped says what went through: gx = scale * g there; gbias is its sum over the rows. */
void relu_dropped_backward(const float *g, const float *out, float *gx, float *gbias, int64_t rows,
                           int64_t columns, int dropped) {
    float scale = 256.0f / (256 - dropped);
    int threads = rows * columns > SMALL ? omp_get_max_threads() : 1;
    float *sums = calloc((size_t)threads * columns, sizeof(float));
#pragma omp parallel num_threads(threads)
    {
        float *sum = sums + (size_t)omp_get_thread_num() * columns;
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
    for (int t = 0; t < threads; t++)
        for (int64_t i = 0; i < columns; i++) gbias[i] += sums[(size_t)t * columns + i];
    free(sums);
}

/* ---- exp for arguments that are not positive; the compiler makes vectors of it. ---- */

static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    float whole = rintf(x * 1.44269504f);
    float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    union {
        int32_t bits;
        float value;
    } power = {((int32_t)whole + 127) << 23};
    return y * power.value;
}

/* ---- The loss: scores (rows, words) without bias become their own gradient. ---- */

/* Divergence from targets that give `sure` to the gold word and `spread` to every other but padding. losses has
 * one place a row. With gbias, scores are replaced by the gradient and gbias receives its sum over rows. */
void smoothed_rows(float *scores, const float *bias, const int64_t *gold, int64_t rows, int64_t words,
                   int64_t padding, float sure, float spread, double *losses, float *gbias) {
    int threads = rows * words > SMALL ? omp_get_max_threads() : 1;
    float *sums = gbias ? calloc((size_t)threads * words, sizeof(float)) : NULL;
#pragma omp parallel num_threads(threads)
    {
        float *sum = gbias ? sums + (size_t)omp_get_thread_num() * words : NULL;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            float *s = scores + row * words;
            int64_t g = gold[row];
            float most = -INFINITY, all = 0, powers = 0;
#pragma omp simd reduction(max : most) reduction(+ : all)
            for (int64_t i = 0; i < words; i++) {
                float each = s[i] + bias[i];
                s[i] = each;
                most = each > most ? each : most;
                all += each;
            }
            float at_gold = s[g], at_padding = s[padding];
#pragma omp simd reduction(+ : powers)
            for (int64_t i = 0; i < words; i++) {
                float each = exponential(s[i] - most);
                s[i] = each;
                powers += each;
            }
            double norm = (double)most + log((double)powers);
            losses[row] = -((double)(sure - spread) * (at_gold - norm) +
                            (double)spread * ((double)all - at_padding - (double)(words - 1) * norm));
            if (!sum) continue;
            float share = 1.0f / powers;
#pragma omp simd
            for (int64_t i = 0; i < words; i++) {
                float each = s[i] * share - spread;
                s[i] = each;
                sum[i] += each;
            }
            s[padding] += spread;
            sum[padding] += spread;
            s[g] -= sure - spread;
            sum[g] -= sure - spread;
        }
    }
    if (!gbias) return;
    for (int t = 0; t < threads; t++)
        for (int64_t i = 0; i < words; i++) gbias[i] += sums[(size_t)t * words + i];
    free(sums);
}

/* ---- Attention of sentences that lie end to end: each looks at its own keys, and there is no padding. ---- */

/* C = A B for small matrices; A(m, k) lies at a[m * arow + k * acol], n is a multiple of 8. */
static void product(const float *a, int64_t arow, int64_t acol, const float *b, int64_t brow, float *c,
                    int64_t crow, int m, int k, int n) {
    for (int j = 0; j < n;) {
        int wide = n - j >= 16;
        for (int i = 0; i < m;) {
            if (wide && m - i >= 4) {
                v8 c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
                const float *a0 = a + i * arow, *b0 = b + j;
                for (int p = 0; p < k; p++, a0 += acol, b0 += brow) {
                    v8 left = *(const v8 *)b0, right = *(const v8 *)(b0 + 8);
                    float x0 = a0[0], x1 = a0[arow], x2 = a0[2 * arow], x3 = a0[3 * arow];
                    c00 += x0 * left, c01 += x0 * right;
                    c10 += x1 * left, c11 += x1 * right;
                    c20 += x2 * left, c21 += x2 * right;
                    c30 += x3 * left, c31 += x3 * right;
                }
                float *to = c + i * crow + j;
                *(v8 *)to = c00, *(v8 *)(to + 8) = c01;
                to += crow;
                *(v8 *)to = c10, *(v8 *)(to + 8) = c11;
                to += crow;
                *(v8 *)to = c20, *(v8 *)(to + 8) = c21;
                to += crow;
                *(v8 *)to = c30, *(v8 *)(to + 8) = c31;
                i += 4;
            } else if (m - i >= 4) {
                v8 c0 = {0}, c1 = {0}, c2 = {0}, c3 = {0};
                const float *a0 = a + i * arow, *b0 = b + j;
                for (int p = 0; p < k; p++, a0 += acol, b0 += brow) {
                    v8 left = *(const v8 *)b0;
                    c0 += a0[0] * left, c1 += a0[arow] * left;
                    c2 += a0[2 * arow] * left, c3 += a0[3 * arow] * left;
                }
                float *to = c + i * crow + j;
                *(v8 *)to = c0, *(v8 *)(to + crow) = c1;
                *(v8 *)(to + 2 * crow) = c2, *(v8 *)(to + 3 * crow) = c3;
                i += 4;
            } else {
                v8 c0 = {0}, c1 = {0};
                const float *a0 = a + i * arow, *b0 = b + j;
                if (wide) {
                    for (int p = 0; p < k; p++, a0 += acol, b0 += brow)
                        c0 += a0[0] * *(const v8 *)b0, c1 += a0[0] * *(const v8 *)(b0 + 8);
                    *(v8 *)(c + i * crow + j + 8) = c1;
                } else {
                    for (int p = 0; p < k; p++, a0 += acol, b0 += brow) c0 += a0[0] * *(const v8 *)b0;
                }
                *(v8 *)(c + i * crow + j) = c0;
                i += 1;
            }
        }
        j += wide ? 16 : 8;
    }
}

typedef struct {
    const float *q, *k, *v;        /* (tokens, heads, size); a token's row begins a stride after the last */
    int64_t qrow, krow, vrow;      /* strides */
    const int32_t *qstart, *kstart; /* where each sentence begins, and at the end where the last one ends */
    int sentences, heads, size, causal, dropped;
    float scale;
    uint64_t seed;
} Asked;

static inline int padded(int n) { return (n + 7) & ~7; }

static int longest(const int32_t *start, int sentences) {
    int most = 0;
    for (int s = 0; s < sentences; s++) most = start[s + 1] - start[s] > most ? start[s + 1] - start[s] : most;
    return most;
}

/* (keys, size) rows -> (size, keys), filled up with zeros. */
static void turned(const float *from, int64_t row, int keys, int size, float *to) {
    int wide = padded(keys);
    for (int c = 0; c < size; c++) {
        for (int j = 0; j < keys; j++) to[(int64_t)c * wide + j] = from[j * row + c];
        for (int j = keys; j < wide; j++) to[(int64_t)c * wide + j] = 0;
    }
}

/* The bytes that decide which weights of one query and head stay. */
static inline void keep_weights(const Asked *asked, int64_t token, int head, int keys, float *kept) {
    float scale = 256.0f / (256 - asked->dropped);
    for (int first = 0; first < keys; first += BLOCK) {
        uint8_t bytes[BLOCK];
        bytes_of(asked->seed, ((uint64_t)(token * asked->heads + head) << 12) + first / BLOCK, bytes);
        for (int i = 0; i < BLOCK && first + i < keys; i++) kept[first + i] = bytes[i] >= asked->dropped ? scale : 0.0f;
    }
}

/* Weights (queries, padded keys) of one sentence and head; `norms` are taken as known if `again`. */
static void weigh(const Asked *asked, int sentence, int head, float *kt, float *w, float *norms, int again) {
    int q0 = asked->qstart[sentence], queries = asked->qstart[sentence + 1] - q0;
    int k0 = asked->kstart[sentence], keys = asked->kstart[sentence + 1] - k0, wide = padded(keys);
    turned(asked->k + k0 * asked->krow + head * asked->size, asked->krow, keys, asked->size, kt);
    product(asked->q + q0 * asked->qrow + head * asked->size, asked->qrow, 1, kt, wide, w, wide, queries,
            asked->size, wide);
    for (int i = 0; i < queries; i++) {
        float *row = w + (int64_t)i * wide, *norm = norms + (int64_t)(q0 + i) * asked->heads + head;
        int seen = asked->causal ? i + 1 : keys;
        for (int j = seen; j < wide; j++) row[j] = -1e30f;
        float known = *norm;
        if (!again) {
            float high[8], sum[8] = {0};
            for (int l = 0; l < 8; l++) high[l] = row[l];
            for (int j = 8; j < wide; j += 8)
                for (int l = 0; l < 8; l++) high[l] = row[j + l] > high[l] ? row[j + l] : high[l];
            float most = high[0], powers = 0;
            for (int l = 1; l < 8; l++) most = high[l] > most ? high[l] : most;
            for (int j = 0; j < wide; j += 8)
                for (int l = 0; l < 8; l++) {
                    float each = exponential((row[j + l] - most) * asked->scale);
                    row[j + l] = each;
                    sum[l] += each;
                }
            for (int l = 0; l < 8; l++) powers += sum[l];
            *norm = most * asked->scale + logf(powers);
            float share = 1.0f / powers;
            for (int j = 0; j < wide; j += 8)
                for (int l = 0; l < 8; l++) row[j + l] *= share;
        } else {
            for (int j = 0; j < wide; j += 8)
                for (int l = 0; l < 8; l++) {
                    float each = row[j + l] * asked->scale - known;
                    row[j + l] = exponential(each < 0 ? each : 0);
                }
        }
        for (int j = seen; j < wide; j++) row[j] = 0;
    }
}

/* out (tokens, heads * size); norms (tokens, heads) for the way back. */
void attend_apart(const Asked *asked, float *out, float *norms) {
    int q = longest(asked->qstart, asked->sentences), k = padded(longest(asked->kstart, asked->sentences));
    int64_t orow = (int64_t)asked->heads * asked->size;
#pragma omp parallel
    {
        float *kt = malloc(sizeof(float) * ((size_t)asked->size * k + (size_t)q * k + k));
        float *w = kt + (size_t)asked->size * k, *kept = w + (size_t)q * k;
#pragma omp for schedule(dynamic, 4)
        for (int s = 0; s < asked->sentences; s++) {
            int q0 = asked->qstart[s], queries = asked->qstart[s + 1] - q0;
            int k0 = asked->kstart[s], keys = asked->kstart[s + 1] - k0, wide = padded(keys);
            for (int h = 0; h < asked->heads; h++) {
                weigh(asked, s, h, kt, w, norms, 0);
                for (int i = 0; asked->dropped && i < queries; i++) {
                    keep_weights(asked, q0 + i, h, keys, kept);
                    for (int j = 0; j < keys; j++) w[(int64_t)i * wide + j] *= kept[j];
                }
                product(w, wide, 1, asked->v + k0 * asked->vrow + h * asked->size, asked->vrow,
                        out + q0 * orow + h * asked->size, orow, queries, keys, asked->size);
            }
        }
        free(kt);
    }
}

/* Gradients of queries, keys and values, each (tokens, heads * size), from the one of `out`. */
void attend_apart_backward(const Asked *asked, const float *out, float *norms, const float *g, float *gq,
                           float *gk, float *gv) {
    int q = longest(asked->qstart, asked->sentences), k = padded(longest(asked->kstart, asked->sentences));
    int64_t row = (int64_t)asked->heads * asked->size;
#pragma omp parallel
    {
        float *kt = malloc(sizeof(float) * ((size_t)asked->size * k + 2 * (size_t)q * k + k));
        float *w = kt + (size_t)asked->size * k, *d = w + (size_t)q * k, *kept = d + (size_t)q * k;
#pragma omp for schedule(dynamic, 4)
        for (int s = 0; s < asked->sentences; s++) {
            int q0 = asked->qstart[s], queries = asked->qstart[s + 1] - q0;
            int k0 = asked->kstart[s], keys = asked->kstart[s + 1] - k0, wide = padded(keys);
            for (int h = 0; h < asked->heads; h++) {
                int64_t at = h * asked->size;
                const float *gh = g + q0 * row + at, *oh = out + q0 * row + at;
                weigh(asked, s, h, kt, w, norms, 1);
                turned(asked->v + k0 * asked->vrow + at, asked->vrow, keys, asked->size, kt);
                product(gh, row, 1, kt, wide, d, wide, queries, asked->size, wide);
                for (int i = 0; i < queries; i++) {
                    float *wi = w + (int64_t)i * wide, *di = d + (int64_t)i * wide, mean = 0;
#pragma omp simd reduction(+ : mean)
                    for (int c = 0; c < asked->size; c++) mean += gh[i * row + c] * oh[i * row + c];
                    if (asked->dropped) {
                        keep_weights(asked, q0 + i, h, keys, kept);
                        for (int j = 0; j < keys; j++) di[j] = wi[j] * (di[j] * kept[j] - mean) * asked->scale;
                        for (int j = 0; j < keys; j++) wi[j] *= kept[j];
                    } else {
                        for (int j = 0; j < wide; j += 8)
                            for (int l = 0; l < 8; l++) di[j + l] = wi[j + l] * (di[j + l] - mean) * asked->scale;
                    }
                }
                product(d, wide, 1, asked->k + k0 * asked->krow + at, asked->krow, gq + q0 * row + at, row, queries,
                        keys, asked->size);
                product(d, 1, wide, asked->q + q0 * asked->qrow + at, asked->qrow, gk + k0 * row + at, row, keys,
                        queries, asked->size);
                product(w, 1, wide, gh, row, gv + k0 * row + at, row, keys, queries, asked->size);
            }
        }
        free(kt);
    }
}

/* For a child process to run once after compiling: whether this machine can execute what was built for it. */
int works(void) {
    float x[64], y[64], out[64];
    double total = 0;
    for (int i = 0; i < 64; i++) x[i] = 1.0f, y[i] = (float)i;
    add_dropped(x, y, out, 64, 26, 7);
    for (int i = 0; i < 64; i++) total += out[i] + exponential(-(float)i);
    product(x, 8, 1, y, 8, out, 8, 8, 8, 8);
    return total > 64 && out[0] == 0.0f + 8 + 16 + 24 + 32 + 40 + 48 + 56;
}
