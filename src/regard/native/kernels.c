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
typedef int32_t i8 __attribute__((vector_size(32), aligned(4)));

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

/* The same for eight at once, where the compiler would not see it. */
static inline v8 exponentials(v8 x) {
    i8 low = (i8)(x < -87.0f);
    v8 lowest = {-87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f};
    x = (v8)((low & (i8)lowest) | (~low & (i8)x));
    v8 shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f; /* 3 * 2^22: rounds to whole numbers */
    v8 r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    v8 y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * (v8)((__builtin_convertvector(whole, i8) + 127) << 23);
}

/* ---- GELU by the tanh that is close to it: x times a share, which is a logistic curve of x + 0.044715 x^3. ---- */

static inline float gelu_share(float x) {
    float u = 1.5957691216f * (x + 0.044715f * x * x * x);
    float e = exponential(u < 0 ? u : -u), all = 1.0f / (1.0f + e);
    return u < 0 ? e * all : all;
}

/* x (rows, columns) becomes x + bias, and out its GELU. */
void gelu(float *x, const float *bias, float *out, int64_t rows, int64_t columns) {
#pragma omp parallel for schedule(static) if (rows * columns > SMALL)
    for (int64_t row = 0; row < rows; row++) {
        float *xr = x + row * columns, *outr = out + row * columns;
#pragma omp simd
        for (int64_t i = 0; i < columns; i++) {
            float each = xr[i] + bias[i];
            xr[i] = each;
            outr[i] = each * gelu_share(each);
        }
    }
}

/* x is what `gelu` left there: gx = g times its slope; gbias is the sum of that over the rows. */
void gelu_backward(const float *g, const float *x, float *gx, float *gbias, int64_t rows, int64_t columns) {
    int threads = rows * columns > SMALL ? omp_get_max_threads() : 1;
    float *sums = calloc((size_t)threads * columns, sizeof(float));
#pragma omp parallel num_threads(threads)
    {
        float *sum = sums + (size_t)omp_get_thread_num() * columns;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            const float *gr = g + row * columns, *xr = x + row * columns;
            float *gxr = gx + row * columns;
#pragma omp simd
            for (int64_t i = 0; i < columns; i++) {
                float s = gelu_share(xr[i]), steep = 1.5957691216f * (1.0f + 3 * 0.044715f * xr[i] * xr[i]);
                float each = gr[i] * (s + xr[i] * s * (1.0f - s) * steep);
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

static inline float added_up(v8 x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
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

/* R-Drop: two passes over the same rows. What `smoothed_rows` does to each, by half, and `weight` times half of
 * KL(p, q) + KL(q, p) between them. With gbias, both become their gradients. */
void twin_rows(float *first, float *second, const float *bias, const int64_t *gold, int64_t rows, int64_t words,
               int64_t padding, float sure, float spread, float weight, double *losses, float *gbias) {
    int threads = rows * words > SMALL ? omp_get_max_threads() : 1;
    float *sums = gbias ? calloc((size_t)threads * words, sizeof(float)) : NULL;
#pragma omp parallel num_threads(threads)
    {
        float *sum = gbias ? sums + (size_t)omp_get_thread_num() * words : NULL;
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            float *both[2] = {first + row * words, second + row * words}, norms[2];
            int64_t g = gold[row];
            double loss = 0;
            for (int side = 0; side < 2; side++) {
                float *s = both[side], most = -INFINITY, all = 0, powers = 0;
#pragma omp simd reduction(max : most) reduction(+ : all)
                for (int64_t i = 0; i < words; i++) {
                    float each = s[i] + bias[i];
                    s[i] = each;
                    most = each > most ? each : most;
                    all += each;
                }
#pragma omp simd reduction(+ : powers)
                for (int64_t i = 0; i < words; i++) powers += exponential(s[i] - most);
                double norm = (double)most + log((double)powers);
                norms[side] = (float)norm;
                loss -= 0.5 * ((double)(sure - spread) * (s[g] - norm) +
                               (double)spread * ((double)all - s[padding] - (double)(words - 1) * norm));
            }
            float *s = both[0], *t = both[1], ahead = 0, back = 0;
#pragma omp simd reduction(+ : ahead, back)
            for (int64_t i = 0; i < words; i++) {
                float a = s[i] - norms[0], b = t[i] - norms[1];
                ahead += exponential(a < 0 ? a : 0) * (a - b);
                back += exponential(b < 0 ? b : 0) * (b - a);
            }
            losses[row] = loss + 0.5 * (double)weight * ((double)ahead + (double)back);
            if (!sum) continue;
#pragma omp simd
            for (int64_t i = 0; i < words; i++) {
                float a = s[i] - norms[0], b = t[i] - norms[1];
                float p = exponential(a < 0 ? a : 0), q = exponential(b < 0 ? b : 0), apart = a - b;
                float of_s = 0.5f * (p - spread + weight * (p * (apart - ahead) + p - q));
                float of_t = 0.5f * (q - spread + weight * (q * (-apart - back) + q - p));
                s[i] = of_s;
                t[i] = of_t;
                sum[i] += of_s + of_t;
            }
            for (int side = 0; side < 2; side++) {
                both[side][padding] += 0.5f * spread;
                both[side][g] -= 0.5f * (sure - spread);
            }
            sum[padding] += spread;
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
    const float *bias;             /* (tokens) added to the scores of each key, or none */
    float *received;               /* (tokens) what each key gets of all queries and heads, added up, or none */
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

/* Queries are taken some at a time, since those that come early see few keys where order is kept. */
#define ROWS 32

/* How many keys the queries before `end` see. */
static inline int reach(const Asked *asked, int end, int keys) { return asked->causal && end < keys ? end : keys; }

static inline int smaller(int a, int b) { return a < b ? a : b; }

/* Weights (queries, padded keys) of one sentence and head, each row as far as its fellows see; `norms` are taken as
   known if `again`. */
static void weigh(const Asked *asked, int sentence, int head, float *kt, float *w, float *norms, int again) {
    int q0 = asked->qstart[sentence], queries = asked->qstart[sentence + 1] - q0;
    int k0 = asked->kstart[sentence], keys = asked->kstart[sentence + 1] - k0, wide = padded(keys);
    const float *qh = asked->q + q0 * asked->qrow + head * asked->size;
    turned(asked->k + k0 * asked->krow + head * asked->size, asked->krow, keys, asked->size, kt);
    for (int first = 0; first < queries; first += ROWS) {
        int end = smaller(first + ROWS, queries), most_seen = padded(reach(asked, end, keys));
        product(qh + first * asked->qrow, asked->qrow, 1, kt, wide, w + (int64_t)first * wide, wide, end - first,
                asked->size, most_seen);
        for (int i = first; i < end; i++) {
            float *row = w + (int64_t)i * wide, *norm = norms + (int64_t)(q0 + i) * asked->heads + head;
            int seen = reach(asked, i + 1, keys), full = padded(seen);
            if (asked->bias)
                for (int j = 0; j < seen; j++) row[j] += asked->bias[k0 + j] / asked->scale;
            for (int j = seen; j < full; j++) row[j] = -1e30f;
            float known = *norm;
            if (!again) {
                float high[8];
                for (int l = 0; l < 8; l++) high[l] = row[l];
                for (int j = 8; j < full; j += 8)
                    for (int l = 0; l < 8; l++) high[l] = row[j + l] > high[l] ? row[j + l] : high[l];
                float most = high[0];
                for (int l = 1; l < 8; l++) most = high[l] > most ? high[l] : most;
                v8 sum = {0};
                for (int j = 0; j < full; j += 8) {
                    v8 each = exponentials((*(v8 *)(row + j) - most) * asked->scale);
                    *(v8 *)(row + j) = each;
                    sum += each;
                }
                float powers = added_up(sum), share = 1.0f / powers;
                *norm = most * asked->scale + logf(powers);
                for (int j = 0; j < full; j += 8) *(v8 *)(row + j) *= share;
            } else {
                for (int j = 0; j < full; j += 8)
                    *(v8 *)(row + j) = exponentials(*(v8 *)(row + j) * asked->scale - known);
            }
            for (int j = seen; j < most_seen; j++) row[j] = 0;
        }
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
#pragma omp for schedule(dynamic)
        for (int s = 0; s < asked->sentences; s++)
            for (int h = 0; h < asked->heads; h++) {
                int q0 = asked->qstart[s], queries = asked->qstart[s + 1] - q0;
                int k0 = asked->kstart[s], keys = asked->kstart[s + 1] - k0, wide = padded(keys);
                weigh(asked, s, h, kt, w, norms, 0);
                for (int i = 0; asked->received && i < queries; i++)
                    for (int j = 0; j < reach(asked, i + 1, keys); j++) asked->received[k0 + j] += w[(int64_t)i * wide + j];
                for (int i = 0; asked->dropped && i < queries; i++) {
                    int seen = reach(asked, i + 1, keys);
                    keep_weights(asked, q0 + i, h, seen, kept);
                    for (int j = 0; j < seen; j++) w[(int64_t)i * wide + j] *= kept[j];
                }
                for (int first = 0; first < queries; first += ROWS) {
                    int end = smaller(first + ROWS, queries);
                    product(w + (int64_t)first * wide, wide, 1, asked->v + k0 * asked->vrow + h * asked->size,
                            asked->vrow, out + (q0 + first) * orow + h * asked->size, orow, end - first,
                            reach(asked, end, keys), asked->size);
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
#pragma omp for schedule(dynamic)
        for (int s = 0; s < asked->sentences; s++)
            for (int h = 0; h < asked->heads; h++) {
                int q0 = asked->qstart[s], queries = asked->qstart[s + 1] - q0;
                int k0 = asked->kstart[s], keys = asked->kstart[s + 1] - k0, wide = padded(keys);
                int64_t at = h * asked->size;
                const float *gh = g + q0 * row + at, *oh = out + q0 * row + at;
                weigh(asked, s, h, kt, w, norms, 1);
                turned(asked->v + k0 * asked->vrow + at, asked->vrow, keys, asked->size, kt);
                for (int first = 0; first < queries; first += ROWS) {
                    int end = smaller(first + ROWS, queries), seen = reach(asked, end, keys), full = padded(seen);
                    product(gh + first * row, row, 1, kt, wide, d + (int64_t)first * wide, wide, end - first,
                            asked->size, full);
                    for (int i = first; i < end; i++) {
                        float *wi = w + (int64_t)i * wide, *di = d + (int64_t)i * wide, mean = 0;
#pragma omp simd reduction(+ : mean)
                        for (int c = 0; c < asked->size; c++) mean += gh[i * row + c] * oh[i * row + c];
                        if (asked->dropped) {
                            keep_weights(asked, q0 + i, h, seen, kept);
                            for (int j = 0; j < seen; j++) di[j] = wi[j] * (di[j] * kept[j] - mean) * asked->scale;
                            for (int j = 0; j < seen; j++) wi[j] *= kept[j];
                        } else {
                            for (int j = 0; j < full; j += 8)
                                for (int l = 0; l < 8; l++) di[j + l] = wi[j + l] * (di[j + l] - mean) * asked->scale;
                        }
                    }
                    product(d + (int64_t)first * wide, wide, 1, asked->k + k0 * asked->krow + at, asked->krow,
                            gq + (q0 + first) * row + at, row, end - first, seen, asked->size);
                }
                for (int first = 0; first < keys; first += ROWS) { /* keys are seen by queries from `begin` on */
                    int begin = asked->causal ? first : 0, many = smaller(ROWS, keys - first);
                    int64_t corner = (int64_t)begin * wide + first;
                    product(d + corner, 1, wide, asked->q + (q0 + begin) * asked->qrow + at, asked->qrow,
                            gk + (k0 + first) * row + at, row, many, queries - begin, asked->size);
                    product(w + corner, 1, wide, gh + begin * row, row, gv + (k0 + first) * row + at, row, many,
                            queries - begin, asked->size);
                }
            }
        free(kt);
    }
}


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
void match_apart(const float *keys, const int32_t *start, int sentences, int size, const int64_t *many, int near,
                 int first_stays, int64_t *into) {
    int most = longest(start, sentences), wide = padded(most / 2 + 1);
    int64_t *before = malloc(sizeof(int64_t) * sentences);
    for (int64_t s = 0, gone = 0; s < sentences; gone += many[s++]) before[s] = start[s] - gone;
#pragma omp parallel
    {
        float *unit = malloc(sizeof(float) * ((size_t)most * size + (size_t)size * wide + (size_t)(most / 2 + 1) * wide));
        float *turn = unit + (size_t)most * size, *fit = turn + (size_t)size * wide;
        Pair *pairs = malloc(sizeof(Pair) * (most / 2 + 1));
        int *target = malloc(sizeof(int) * most);
#pragma omp for schedule(dynamic, 4)
        for (int s = 0; s < sentences; s++) {
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


/* ---- Products for decoding: a row's result has the same bits whatever rows stand beside it. ---- */

#define PANEL 16

/* A matrix (out, in), or (in, out) if turned, -> panels of sixteen outputs, (panels, in, 16), filled up with zeros. */
void lay_out(const float *matrix, float *panels, int64_t out, int64_t in, int turned) {
#pragma omp parallel for schedule(static) if (out * in > SMALL)
    for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++) {
        float *to = panels + p * in * PANEL;
        int64_t o = p * PANEL, some = out - o < PANEL ? out - o : PANEL;
        if (some < PANEL) memset(to, 0, sizeof(float) * in * PANEL);
        if (turned && some == PANEL)
            for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * PANEL);
        else if (turned)
            for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * some);
        else
            for (int64_t first = 0; first < in; first += PANEL)
                for (int64_t j = 0; j < some; j++)
                    for (int64_t k = first; k < first + PANEL && k < in; k++)
                        to[k * PANEL + j] = matrix[(o + j) * in + k];
    }
}

/* The widest vector of sums that this processor adds to at once; a panel is one of them, or two. */
#ifdef __AVX512F__
#define WIDE 16
#else
#define WIDE 8
#endif
#define SPANS (PANEL / WIDE)
typedef float wide_sums __attribute__((vector_size(4 * WIDE), aligned(4)));
typedef int32_t wide_bits __attribute__((vector_size(4 * WIDE), aligned(4)));

/* R rows by P panels. R and P are numbers where this is used, so that the sums stay in registers. */
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)
#define TILE_OF(R, P)                                                                                          \
    static void tile_##R##_##P(const float *x, int64_t xrow, const float *panel, int64_t in, const float *bias, \
                               int relu, float *y, int64_t yrow, int64_t valid) {                             \
        wide_sums sums[R][SPANS * P];                                                                         \
        EACH(r, R) EACH(j, SPANS * P) sums[r][j] = (wide_sums){0};                                            \
        for (int64_t k = 0; k < in; k++) {                                                                    \
            wide_sums w[SPANS * P];                                                                           \
            EACH(j, SPANS * P)                                                                                \
                w[j] = *(const wide_sums *)(panel + (j / SPANS * in + k) * PANEL + j % SPANS * WIDE);         \
            EACH(r, R) {                                                                                      \
                float each = x[r * xrow + k];                                                                 \
                EACH(j, SPANS * P) sums[r][j] += each * w[j];                                                 \
            }                                                                                                 \
        }                                                                                                     \
        EACH(r, R) {                                                                                          \
            float *to = y + r * yrow;                                                                         \
            if (valid >= PANEL * P) {                                                                         \
                EACH(j, SPANS * P) {                                                                          \
                    wide_sums row = sums[r][j];                                                               \
                    if (bias) row += *(const wide_sums *)(bias + WIDE * j);                                   \
                    if (relu) row = (wide_sums)((wide_bits)row & (wide_bits)(row > 0));                       \
                    *(wide_sums *)(to + WIDE * j) = row;                                                      \
                }                                                                                             \
            } else {                                                                                          \
                float row[PANEL * P];                                                                         \
                EACH(j, SPANS * P) *(wide_sums *)(row + WIDE * j) = sums[r][j];                               \
                for (int64_t j = 0; j < valid; j++) {                                                         \
                    float each = row[j] + (bias ? bias[j] : 0.0f);                                            \
                    to[j] = relu && each < 0 ? 0.0f : each;                                                   \
                }                                                                                             \
            }                                                                                                 \
        }                                                                                                     \
    }

typedef void Tile(const float *x, int64_t xrow, const float *panel, int64_t in, const float *bias, int relu, float *y,
                  int64_t yrow, int64_t valid);

/* As many sums as there are registers for: few rows take more panels at once. */
TILE_OF(1, 1)
TILE_OF(2, 1)
TILE_OF(3, 1)
TILE_OF(4, 1)
TILE_OF(5, 1)
TILE_OF(6, 1)
#ifdef __AVX512F__
#define TALL 12
#define FOR_MANY 2
#define FOR_FEW 4
#define FOR_ONE 8
TILE_OF(12, 1)
TILE_OF(1, 2)
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(4, 2)
TILE_OF(5, 2)
TILE_OF(6, 2)
TILE_OF(12, 2)
TILE_OF(2, 4)
TILE_OF(3, 4)
TILE_OF(1, 8)
static Tile *const MANY[] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, [TALL] = tile_12_2};
static Tile *const FEW[] = {NULL, NULL, tile_2_4, tile_3_4};
static Tile *const ONE[] = {NULL, tile_1_8};
static Tile *const LAST[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, [TALL] = tile_12_1};
#else
#define TALL 6
#define FOR_MANY 1
#define FOR_FEW 2
#define FOR_ONE 4
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(1, 4)
static Tile *const MANY[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};
static Tile *const FEW[] = {NULL, NULL, tile_2_2, tile_3_2};
static Tile *const ONE[] = {NULL, tile_1_4};
static Tile *const *const LAST = MANY;
#endif

#define ROWS_A_TASK 96

/* y (rows, out) = x (rows, in) times laid-out weights, plus bias if there is one, with ReLU if asked. */
void multiply(const float *x, int64_t rows, const float *panels, const float *bias, int64_t in, int64_t out,
              int64_t yrow, int relu, float *y) {
    int64_t count = (out + PANEL - 1) / PANEL, group = rows == 1 ? FOR_ONE : rows <= 3 ? FOR_FEW : FOR_MANY;
    Tile *const *tiles = rows == 1 ? ONE : rows <= 3 ? FEW : MANY;
    int64_t groups = (count + group - 1) / group, tasks = (rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
#pragma omp parallel for collapse(2) schedule(static) if (rows * in * out > 4 * SMALL)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t last = (t + 1) * ROWS_A_TASK < rows ? (t + 1) * ROWS_A_TASK : rows;
            int64_t p = g * group, until = p + group < count ? p + group : count, whole = until - p == group;
            for (int64_t r = t * ROWS_A_TASK, many; r < last; r += many) {
                many = last - r >= TALL ? TALL : last - r >= 6 ? 6 : last - r;
                Tile *tile = whole ? tiles[many] : LAST[many];
                for (int64_t at = p; at < until; at += whole ? group : 1)
                    tile(x + r * in, in, panels + at * in * PANEL, in, bias ? bias + at * PANEL : NULL, relu,
                         y + r * yrow + at * PANEL, yrow, out - at * PANEL);
            }
        }
}

/* ---- Muon: matrices (count, rows, columns), no taller than wide, driven towards orthogonal ones in place. ---- */

/* x = a x + (b s + c s s) x with s = x x', so many times; a matrix is one thread's. */
void orthogonal(float *matrices, int64_t count, int64_t rows, int64_t columns, int rounds, float a, float b, float c) {
#pragma omp parallel
    {
        int64_t wide = (rows > columns ? rows : columns) + PANEL, n = rows * columns;
        float *panels = malloc(sizeof(float) * (wide * wide + 2 * rows * rows + n));
        float *square = panels + wide * wide, *mixed = square + rows * rows, *moved = mixed + rows * rows;
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < count; m++) {
            float *x = matrices + m * n;
            for (int round = 0; round < rounds; round++) {
                lay_out(x, panels, rows, columns, 0);
                multiply(x, rows, panels, NULL, columns, rows, rows, 0, square);
                lay_out(square, panels, rows, rows, 0); /* it is its own transpose */
                multiply(square, rows, panels, NULL, rows, rows, rows, 0, mixed);
                for (int64_t i = 0; i < rows * rows; i++) mixed[i] = b * square[i] + c * mixed[i];
                lay_out(x, panels, columns, rows, 1);
                multiply(mixed, rows, panels, NULL, rows, columns, columns, 0, moved);
                for (int64_t i = 0; i < n; i++) x[i] = a * x[i] + moved[i];
            }
        }
        free(panels);
    }
}

/* ---- One step of a Transformer's decoder for all rows: what DecoderBlock does, without leaving C. ---- */

typedef struct {
    int layers, width, heads, inner, words, post, gelu;
    float scale, epsilon;
    const float *table;         /* vectors of words, before scaling */
    const float *const *weights; /* for each layer those named below; then the last norm's two, or NULL */
    const float *output, *bias;  /* laid out; bias (words) */
    const float *places;         /* (longest, width): what the position adds */
} Stack;                       /* of an encoder too: it has no cross-attention and no output */

enum {
    NORM_SELF, NORM_SELF_BIAS, QUERY, QUERY_BIAS, KEY, KEY_BIAS, VALUE, VALUE_BIAS, OUT, OUT_BIAS,
    NORM_CROSS, NORM_CROSS_BIAS, ASK, ASK_BIAS, TELL, TELL_BIAS,
    NORM_WIDE, NORM_WIDE_BIAS, WIDEN, WIDEN_BIAS, NARROW, NARROW_BIAS,
    MEMORY_KEY, MEMORY_KEY_BIAS, MEMORY_VALUE, MEMORY_VALUE_BIAS, A_LAYER
};

typedef struct {
    int rows, step, room, times;  /* `room` rows and `times` steps have place in the cache */
    const int64_t *tokens;        /* (rows) */
    const int32_t *before;        /* (rows, times): which row of each earlier step this one continues */
    const int32_t *sentence;      /* (rows): which sentence it translates */
    const int32_t *start;         /* where each sentence's source tokens begin */
    const float *memory;          /* (layers, sources, 2 width): keys and values side by side */
    int64_t sources;
    float *cache;                 /* (layers, 2, room, times, width) */
} Written;

static void norm_rows(const float *x, const float *weight, const float *bias, float epsilon, int rows, int width,
                      float *out) {
    for (int r = 0; r < rows; r++) {
        const float *from = x + (int64_t)r * width;
        float *to = out + (int64_t)r * width, mean = 0, spread = 0;
#pragma omp simd reduction(+ : mean)
        for (int i = 0; i < width; i++) mean += from[i];
        mean /= width;
#pragma omp simd reduction(+ : spread)
        for (int i = 0; i < width; i++) spread += (from[i] - mean) * (from[i] - mean);
        float share = 1.0f / sqrtf(spread / width + epsilon);
        for (int i = 0; i < width; i++) to[i] = (from[i] - mean) * share * weight[i] + bias[i];
    }
}

static inline float dot(const float *a, const float *b, int size) {
    v8 sum = {0};
    for (int i = 0; i < size; i += 8) sum += *(const v8 *)(a + i) * *(const v8 *)(b + i);
    return added_up(sum);
}

/* One row looks at `keys` vectors that lie where `at` says; values lie `value` floats after their keys. */
static void look(const float *query, const float *const *at, int64_t value, int keys, int heads, int size,
                 float *weights, float *out) {
    float scale = 1.0f / sqrtf((float)size);
    for (int h = 0; h < heads; h++) {
        const float *q = query + h * size;
        float most = -INFINITY, sum = 0;
        for (int j = 0; j < keys; j++) {
            weights[j] = dot(q, at[j] + h * size, size) * scale;
            most = weights[j] > most ? weights[j] : most;
        }
        int wide = padded(keys);
        for (int j = keys; j < wide; j++) weights[j] = -1e30f;
        for (int j = 0; j < wide; j += 8) *(v8 *)(weights + j) = exponentials(*(v8 *)(weights + j) - most);
        for (int j = 0; j < keys; j++) sum += weights[j];
        float share = 1.0f / sum;
        float *to = out + h * size;
        int i = 0;
        for (; i + 32 <= size; i += 32) { /* a value is visited once for four vectors of it */
            v8 a = {0}, b = {0}, c = {0}, d = {0};
            for (int j = 0; j < keys; j++) {
                const v8 *from = (const v8 *)(at[j] + value + h * size + i);
                a += weights[j] * from[0], b += weights[j] * from[1];
                c += weights[j] * from[2], d += weights[j] * from[3];
            }
            v8 *there = (v8 *)(to + i);
            there[0] = a * share, there[1] = b * share, there[2] = c * share, there[3] = d * share;
        }
        for (; i < size; i += 8) {
            v8 mixed = {0};
            for (int j = 0; j < keys; j++) mixed += weights[j] * *(const v8 *)(at[j] + value + h * size + i);
            *(v8 *)(to + i) = mixed * share;
        }
    }
}

static void add_rows(float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* What goes into a sublayer: the stream itself, or with the norm before, its norm. */
static const float *told(const Stack *d, const float *const *w, int norm, const float *x, int rows, float *into) {
    if (d->post) return x;
    norm_rows(x, w[norm], w[norm + 1], d->epsilon, rows, d->width, into);
    return into;
}

/* What comes out of a sublayer is added to the stream. */
static void take_in(const Stack *d, const float *const *w, int norm, float *x, const float *said, int rows) {
    add_rows(x, said, (int64_t)rows * d->width);
    if (d->post) norm_rows(x, w[norm], w[norm + 1], d->epsilon, rows, d->width, x);
}

/* The position-wise network: in (rows, width) -> out, by way of wide (rows, inner). */
static void think(const Stack *d, const float *const *w, const float *in, int rows, float *wide, float *out) {
    multiply(in, rows, w[WIDEN], w[WIDEN_BIAS], d->width, d->inner, d->inner, !d->gelu, wide);
    if (d->gelu) {
        int64_t all = (int64_t)rows * d->inner;
#pragma omp parallel for simd schedule(static) if (all > SMALL)
        for (int64_t i = 0; i < all; i++) wide[i] *= gelu_share(wide[i]);
    }
    multiply(wide, rows, w[NARROW], w[NARROW_BIAS], d->inner, d->width, d->width, 0, out);
}

/* scores (rows, words); scratch has room for rows * (4 width + inner) floats. GPT has no cross-attention. */
static void decoder_step(const Stack *d, const Written *s, float *scores, float *scratch) {
    int rows = s->rows, width = d->width, size = width / d->heads, most = s->step + 1;
    int64_t all = (int64_t)rows * width, line = (int64_t)s->times * width, side = line * s->room;
    float *x = scratch, *n = x + all, *q = n + all, *y = q + all, *wide = y + all;
    const float *place = d->places + (int64_t)s->step * width;
    for (int r = 0; r < rows; r++) {
        const float *word = d->table + s->tokens[r] * width;
        for (int i = 0; i < width; i++) x[(int64_t)r * width + i] = word[i] * d->scale + place[i];
        int source = d->weights[ASK] ? s->start[s->sentence[r] + 1] - s->start[s->sentence[r]] : 0;
        most = source > most ? source : most;
    }
    int shared = all * most > SMALL; /* worth a second thread */
    for (int l = 0; l < d->layers; l++) {
        const float *const *w = d->weights + (int64_t)l * A_LAYER;
        float *keys = s->cache + (int64_t)l * 2 * side, *now = keys + (int64_t)s->step * width;
        const float *in = told(d, w, NORM_SELF, x, rows, n);
        multiply(in, rows, w[QUERY], w[QUERY_BIAS], width, width, width, 0, q);
        multiply(in, rows, w[KEY], w[KEY_BIAS], width, width, line, 0, now);
        multiply(in, rows, w[VALUE], w[VALUE_BIAS], width, width, line, 0, now + side);
#pragma omp parallel if (shared)
        {
            const float **at = malloc((sizeof(float *) + sizeof(float)) * (padded(most) + 8));
            float *weights = (float *)(at + padded(most));
#pragma omp for schedule(static)
            for (int r = 0; r < rows; r++) {
                const int32_t *before = s->before + (int64_t)r * s->times;
                for (int t = 0; t < s->step; t++) at[t] = keys + before[t] * line + (int64_t)t * width;
                at[s->step] = now + r * line;
                look(q + (int64_t)r * width, at, side, s->step + 1, d->heads, size, weights, y + (int64_t)r * width);
            }
            free(at);
        }
        multiply(y, rows, w[OUT], w[OUT_BIAS], width, width, width, 0, q);
        take_in(d, w, NORM_SELF, x, q, rows);
        if (w[ASK]) {
            in = told(d, w, NORM_CROSS, x, rows, n);
            multiply(in, rows, w[ASK], w[ASK_BIAS], width, width, width, 0, q);
#pragma omp parallel if (shared)
            {
                const float **at = malloc((sizeof(float *) + sizeof(float)) * (padded(most) + 8));
                float *weights = (float *)(at + padded(most));
#pragma omp for schedule(static)
                for (int r = 0; r < rows; r++) {
                    int first = s->start[s->sentence[r]], count = s->start[s->sentence[r] + 1] - first;
                    for (int j = 0; j < count; j++) at[j] = s->memory + (l * s->sources + first + j) * 2 * width;
                    look(q + (int64_t)r * width, at, width, count, d->heads, size, weights, y + (int64_t)r * width);
                }
                free(at);
            }
            multiply(y, rows, w[TELL], w[TELL_BIAS], width, width, width, 0, q);
            take_in(d, w, NORM_CROSS, x, q, rows);
        }
        think(d, w, told(d, w, NORM_WIDE, x, rows, n), rows, wide, q);
        take_in(d, w, NORM_WIDE, x, q, rows);
    }
    const float *const *last = d->weights + (int64_t)d->layers * A_LAYER;
    if (last[0]) norm_rows(x, last[0], last[1], d->epsilon, rows, width, x);
    multiply(x, rows, d->output, d->bias, width, d->words, d->words, 0, scores);
}

#define LANES 64

/* Every one of the `wanted` highest scores of a row is at least this: of LANES groups of scores, the one that comes
 * `wanted`th by its highest. `most` receives the highest of all. */
static float at_least(const float *s, int64_t words, int wanted, float *most) {
    float high[LANES];
    for (int l = 0; l < LANES; l++) high[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= words; i += LANES)
        for (int l = 0; l < LANES; l++) high[l] = s[i + l] > high[l] ? s[i + l] : high[l];
    for (int l = 0; i < words; i++, l++) high[l] = s[i] > high[l] ? s[i] : high[l];
    float least = INFINITY;
    *most = -INFINITY;
    for (int n = 0; n < wanted && n < LANES; n++) {
        int at = 0;
        for (int l = 1; l < LANES; l++) at = high[l] > high[at] ? l : at;
        least = high[at];
        if (n == 0) *most = least;
        high[at] = -INFINITY;
    }
    return wanted <= LANES ? least : -INFINITY;
}

/* The `wanted` highest scores of each row, highest first (of equal ones the first word), and log sum exp. */
void best_of_rows(const float *scores, int64_t rows, int64_t words, int wanted, float *best, int64_t *tokens,
                  float *norms) {
#pragma omp parallel for schedule(static) if (rows * words > SMALL)
    for (int64_t r = 0; r < rows; r++) {
        const float *s = scores + r * words;
        float *top = best + r * wanted, most, least = at_least(s, words, wanted, &most), rest = 0;
        int64_t *who = tokens + r * wanted, i = 0;
        v8 powers = {0};
        for (; i + 8 <= words; i += 8) powers += exponentials(*(const v8 *)(s + i) - most);
        for (; i < words; i++) rest += exponential(s[i] - most);
        norms[r] = most + logf(rest + added_up(powers));
        int found = 0;
        for (i = 0; i < words; i += BLOCK) {
            int64_t until = i + BLOCK < words ? i + BLOCK : words;
            if (until - i == BLOCK) { /* hardly any block has one */
                int any = 0;
                for (int l = 0; l < BLOCK; l++) any |= s[i + l] >= least;
                if (!any) continue;
            }
            for (int64_t j = i; j < until; j++) {
                if (s[j] < least || (found == wanted && !(s[j] > top[wanted - 1]))) continue;
                int at = found < wanted ? found++ : wanted - 1;
                for (; at > 0 && top[at - 1] < s[j]; at--) top[at] = top[at - 1], who[at] = who[at - 1];
                top[at] = s[j], who[at] = j;
            }
        }
    }
}

/* ---- The whole way from source ids to translations: what `search` does, with the same arithmetic. ---- */

/* Sentences end to end (start[sentences] tokens) -> memory (decoder layers, tokens, 2 width). */
static void encode(const Stack *e, const Stack *d, const int64_t *ids, const int32_t *start, int sentences,
                   float *memory) {
    int tokens = start[sentences], width = e->width;
    int64_t all = (int64_t)tokens * width;
    float *x = malloc(sizeof(float) * (6 * all + (int64_t)tokens * (e->inner + e->heads)));
    float *n = x + all, *q = n + all, *k = q + all, *v = k + all, *y = v + all, *wide = y + all;
    float *norms = wide + (int64_t)tokens * e->inner;
    for (int s = 0; s < sentences; s++)
        for (int t = start[s]; t < start[s + 1]; t++) {
            const float *word = e->table + ids[t] * width, *place = e->places + (int64_t)(t - start[s]) * width;
            for (int i = 0; i < width; i++) x[(int64_t)t * width + i] = word[i] * e->scale + place[i];
        }
    for (int l = 0; l < e->layers; l++) {
        const float *const *w = e->weights + (int64_t)l * A_LAYER;
        const float *in = told(e, w, NORM_SELF, x, tokens, n);
        multiply(in, tokens, w[QUERY], w[QUERY_BIAS], width, width, width, 0, q);
        multiply(in, tokens, w[KEY], w[KEY_BIAS], width, width, width, 0, k);
        multiply(in, tokens, w[VALUE], w[VALUE_BIAS], width, width, width, 0, v);
        int size = width / e->heads;
        Asked asked = {q, k, v, width, width, width, start, start, sentences, e->heads, size, 0, 0, 1 / sqrtf(size), 0};
        attend_apart(&asked, y, norms);
        multiply(y, tokens, w[OUT], w[OUT_BIAS], width, width, width, 0, q);
        take_in(e, w, NORM_SELF, x, q, tokens);
        think(e, w, told(e, w, NORM_WIDE, x, tokens, n), tokens, wide, q);
        take_in(e, w, NORM_WIDE, x, q, tokens);
    }
    const float *const *last = e->weights + (int64_t)e->layers * A_LAYER;
    if (last[0]) norm_rows(x, last[0], last[1], e->epsilon, tokens, width, x);
    for (int l = 0; l < d->layers; l++) {
        const float *const *w = d->weights + (int64_t)l * A_LAYER;
        float *to = memory + (int64_t)l * tokens * 2 * width;
        multiply(x, tokens, w[MEMORY_KEY], w[MEMORY_KEY_BIAS], width, width, 2 * width, 0, to);
        multiply(x, tokens, w[MEMORY_VALUE], w[MEMORY_VALUE_BIAS], width, width, 2 * width, 0, to + width);
    }
    free(x);
}

/* The first `length` tokens of each text (rows, length) -> the cache, as so many steps would leave it. */
void read_first(const Stack *d, const int64_t *ids, int rows, int length, int room, int times, float *cache) {
    int tokens = rows * length, width = d->width, size = width / d->heads;
    int64_t all = (int64_t)tokens * width, line = (int64_t)times * width, side = line * room;
    float *x = malloc(sizeof(float) * (6 * all + (int64_t)tokens * (d->inner + d->heads)));
    float *n = x + all, *q = n + all, *k = q + all, *v = k + all, *y = v + all, *wide = y + all;
    float *norms = wide + (int64_t)tokens * d->inner;
    int32_t *start = malloc(sizeof(int32_t) * (rows + 1));
    for (int r = 0; r <= rows; r++) start[r] = r * length;
    for (int t = 0; t < tokens; t++) {
        const float *word = d->table + ids[t] * width, *place = d->places + (int64_t)(t % length) * width;
        for (int i = 0; i < width; i++) x[(int64_t)t * width + i] = word[i] * d->scale + place[i];
    }
    for (int l = 0; l < d->layers; l++) {
        const float *const *w = d->weights + (int64_t)l * A_LAYER;
        float *keys = cache + (int64_t)l * 2 * side;
        const float *in = told(d, w, NORM_SELF, x, tokens, n);
        multiply(in, tokens, w[KEY], w[KEY_BIAS], width, width, width, 0, k);
        multiply(in, tokens, w[VALUE], w[VALUE_BIAS], width, width, width, 0, v);
        for (int t = 0; t < tokens; t++) {
            int64_t to = (t / length) * line + (int64_t)(t % length) * width;
            memcpy(keys + to, k + (int64_t)t * width, sizeof(float) * width);
            memcpy(keys + side + to, v + (int64_t)t * width, sizeof(float) * width);
        }
        if (l + 1 == d->layers) break; /* nobody asks what it says of them */
        multiply(in, tokens, w[QUERY], w[QUERY_BIAS], width, width, width, 0, q);
        Asked asked = {q, k, v, width, width, width, start, start, rows, d->heads, size, 1, 0, 1 / sqrtf(size), 0};
        attend_apart(&asked, y, norms);
        multiply(y, tokens, w[OUT], w[OUT_BIAS], width, width, width, 0, q);
        take_in(d, w, NORM_SELF, x, q, tokens);
        think(d, w, told(d, w, NORM_WIDE, x, tokens, n), tokens, wide, q);
        take_in(d, w, NORM_WIDE, x, q, tokens);
    }
    free(start);
    free(x);
}

/* One token more for each text: scores (rows, words). */
void next_token(const Stack *d, const int64_t *tokens, const int32_t *before, int rows, int step, int room, int times,
                float *cache, float *scores) {
    float *scratch = malloc(sizeof(float) * rows * (4 * (int64_t)d->width + d->inner));
    Written written = {rows, step, room, times, tokens, before, NULL, NULL, NULL, 0, cache};
    decoder_step(d, &written, scores, scratch);
    free(scratch);
}

typedef struct {
    int beam, nbest, longest, begin, end, never_count;
    int64_t never[8];
    double penalty;
} Wanted;

typedef struct {
    double score, total;
    int length; /* of ids */
    int32_t *ids;
} Finished;

/* The finished translations of a sentence, best first; no more than are asked for. */
typedef struct {
    Finished *best;
    int count, room, longest;
} Ranking;

static int goes_before(const Finished *a, const Finished *b) {
    if (a->score != b->score) return a->score > b->score;
    for (int i = 0; i < a->length && i < b->length; i++)
        if (a->ids[i] != b->ids[i]) return a->ids[i] < b->ids[i];
    return a->length < b->length;
}

static void rank_in(Ranking *ranking, double score, double total, const int32_t *written, int steps, int64_t last,
                    int end) {
    Finished *spare = &ranking->best[ranking->room], kept;
    spare->score = score, spare->total = total, spare->length = steps + (last != end);
    memcpy(spare->ids, written, sizeof(int32_t) * steps);
    if (last != end) spare->ids[steps] = (int32_t)last;
    int at = ranking->count < ranking->room ? ranking->count++ : ranking->room;
    if (at < ranking->room) kept = ranking->best[at], ranking->best[at] = *spare, *spare = kept;
    for (; at > 0 && goes_before(&ranking->best[at], &ranking->best[at - 1]); at--)
        kept = ranking->best[at], ranking->best[at] = ranking->best[at - 1], ranking->best[at - 1] = kept;
}

/* The `nbest` best translations of each sentence: ids (sentences, nbest, longest), lengths -1 where there is none. */
void translate(const Stack *e, const Stack *d, const Wanted *wanted, const int64_t *source, const int32_t *start,
               int sentences, int32_t *ids, int32_t *lengths, double *scores_out, double *totals_out) {
    int beam = wanted->beam, two = 2 * beam < d->words ? 2 * beam : d->words;
    int capacity = sentences * beam, width = 1, rows = sentences, going = sentences, times = 0;
    int *room = malloc(sizeof(int) * sentences), *active = malloc(sizeof(int) * sentences);
    int ranked = beam > wanted->nbest ? beam : wanted->nbest;
    Ranking *rankings = malloc(sizeof(Ranking) * sentences);
    for (int s = 0; s < sentences; s++) {
        int most = 3 * (start[s + 1] - start[s]) + 20;
        room[s] = most < wanted->longest ? most : wanted->longest;
        times = room[s] > times ? room[s] : times;
        active[s] = s;
    }
    for (int s = 0; s < sentences; s++) {
        Finished *best = malloc((ranked + 1) * (sizeof(Finished) + sizeof(int32_t) * times));
        int32_t *text = (int32_t *)(best + ranked + 1);
        for (int i = 0; i <= ranked; i++) best[i].ids = text + (int64_t)i * times;
        rankings[s] = (Ranking){best, 0, ranked, times};
    }
    float *memory = malloc(sizeof(float) * d->layers * start[sentences] * 2 * d->width);
    encode(e, d, source, start, sentences, memory);
    int64_t a_step = (int64_t)capacity * d->width;
    float *cache = malloc(sizeof(float) * d->layers * 2 * times * a_step);
    float *scratch = malloc(sizeof(float) * (4 * a_step + (int64_t)capacity * d->inner));
    float *scores = malloc(sizeof(float) * capacity * (int64_t)d->words);
    float *best = malloc(sizeof(float) * capacity * (two + 2)), *norms = best + (int64_t)capacity * two;
    float *log_probability = norms + capacity;
    int64_t *tokens = malloc(sizeof(int64_t) * capacity * (two + 1)), *now = tokens + (int64_t)capacity * two;
    int32_t *tables = malloc(sizeof(int32_t) * capacity * (4 * (int64_t)times + 2));
    int32_t *before = tables, *other_before = before + (int64_t)capacity * times;
    int32_t *written = other_before + (int64_t)capacity * times, *other_written = written + (int64_t)capacity * times;
    int32_t *sentence = other_written + (int64_t)capacity * times, *other_sentence = sentence + capacity;
    for (int s = 0; s < sentences; s++) now[s] = wanted->begin, sentence[s] = s, log_probability[s] = 0;
    float total[two];
    int from[two];
    int64_t token[two];
    float *next_probability = malloc(sizeof(float) * capacity);
    for (int step = 0; going; step++) {
        Written state = {rows, step, capacity, times, now, before, sentence, start, memory, start[sentences], cache};
        decoder_step(d, &state, scores, scratch);
        for (int r = 0; r < rows; r++) {
            float *row = scores + (int64_t)r * d->words;
            for (int i = 0; i < wanted->never_count; i++) row[wanted->never[i]] = -INFINITY;
            if (step == 0) row[wanted->end] = -INFINITY; /* an empty translation is never the best */
        }
        best_of_rows(scores, rows, d->words, two, best, tokens, norms);
        int next_rows = 0, next_going = 0, next_width = 0;
        for (int a = 0; a < going; a++) {
            int s = active[a], first = a * width, found = 0;
            for (int r = first; r < first + width; r++)
                for (int i = 0; i < two; i++) { /* the best of all rows of the sentence, best first */
                    float each = best[(int64_t)r * two + i] - norms[r] + log_probability[r];
                    if (found == two && !(each > total[two - 1])) break; /* a row's are in order */
                    int at = found < two ? found++ : two - 1;
                    for (; at > 0 && total[at - 1] < each; at--)
                        total[at] = total[at - 1], from[at] = from[at - 1], token[at] = token[at - 1];
                    total[at] = each, from[at] = r, token[at] = tokens[(int64_t)r * two + i];
                }
            double length = pow((double)(step + 1), wanted->penalty);
            int full = step + 1 >= room[s];
            for (int i = 0; i < found && i < beam; i++)
                if (token[i] == wanted->end && total[i] > -INFINITY)
                    rank_in(&rankings[s], total[i] / length, total[i], written + (int64_t)from[i] * times, step, token[i],
                            wanted->end);
            if (full) { /* what has not ended is cut off, and counts only where nothing has */
                int none = rankings[s].count == 0;
                for (int i = 0; none && i < found && i < beam; i++)
                    if (total[i] > -INFINITY)
                        rank_in(&rankings[s], total[i] / length, total[i], written + (int64_t)from[i] * times, step,
                                token[i], wanted->end);
                continue;
            }
            double open = -INFINITY;
            for (int i = 0; i < found && open == -INFINITY; i++)
                if (token[i] != wanted->end) open = total[i];
            if (open == -INFINITY) continue;
            if (rankings[s].count >= beam && open / length <= rankings[s].best[beam - 1].score) continue;
            int chosen = 0, most = beam < found ? beam : found;
            for (int i = 0; i < found && chosen < most; i++) {
                if (token[i] == wanted->end) continue;
                int r = next_rows++;
                chosen++;
                memcpy(other_before + (int64_t)r * times, before + (int64_t)from[i] * times, sizeof(int32_t) * step);
                memcpy(other_written + (int64_t)r * times, written + (int64_t)from[i] * times, sizeof(int32_t) * step);
                other_before[(int64_t)r * times + step] = from[i];
                other_written[(int64_t)r * times + step] = (int32_t)token[i];
                other_sentence[r] = s;
                next_probability[r] = total[i];
                now[r] = token[i];
            }
            for (; chosen < most; chosen++) { /* fewer go on than the beam is wide: rows that cannot win */
                int r = next_rows++;
                memcpy(other_before + (int64_t)r * times, other_before + (int64_t)(r - 1) * times,
                       sizeof(int32_t) * (step + 1));
                memcpy(other_written + (int64_t)r * times, other_written + (int64_t)(r - 1) * times,
                       sizeof(int32_t) * (step + 1));
                other_sentence[r] = s, next_probability[r] = -INFINITY, now[r] = now[r - 1];
            }
            next_width = most;
            active[next_going++] = s;
        }
        int32_t *swap = before;
        before = other_before, other_before = swap;
        swap = written, written = other_written, other_written = swap;
        swap = sentence, sentence = other_sentence, other_sentence = swap;
        memcpy(log_probability, next_probability, sizeof(float) * next_rows);
        rows = next_rows, going = next_going, width = next_width;
    }
    for (int s = 0; s < sentences; s++) {
        for (int i = 0; i < wanted->nbest; i++) {
            int64_t at = (int64_t)s * wanted->nbest + i;
            const Finished *each = &rankings[s].best[i];
            lengths[at] = i < rankings[s].count ? each->length : -1;
            if (lengths[at] < 0) continue;
            memcpy(ids + at * wanted->longest, each->ids, sizeof(int32_t) * each->length);
            scores_out[at] = each->score, totals_out[at] = each->total;
        }
        free(rankings[s].best);
    }
    free(room), free(active), free(rankings), free(memory), free(cache), free(scratch), free(scores), free(best);
    free(tokens), free(tables), free(next_probability);
}

/* How many threads the kernels called by this thread may use. */
void use_threads(int threads) { omp_set_num_threads(threads); }

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
