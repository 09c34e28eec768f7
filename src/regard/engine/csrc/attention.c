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

/* Tokens of the batch that come before the first query and the first key that are given: sentences are found by where
 * they begin in the whole batch, and dropout counts its queries. */
typedef struct {
    int64_t queries, keys;
} Before;

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
static void weigh(const Asked *asked, Before before, int sentence, int head, float *kt, float *w, float *norms,
                  int again) {
    int64_t q0 = asked->qstart[sentence] - before.queries, k0 = asked->kstart[sentence] - before.keys;
    int queries = asked->qstart[sentence + 1] - asked->qstart[sentence];
    int keys = asked->kstart[sentence + 1] - asked->kstart[sentence], wide = padded(keys);
    const float *qh = asked->q + q0 * asked->qrow + head * asked->size;
    turned(asked->k + k0 * asked->krow + head * asked->size, asked->krow, keys, asked->size, kt);
    for (int first = 0; first < queries; first += ROWS) {
        int end = smaller(first + ROWS, queries), most_seen = padded(reach(asked, end, keys));
        product(qh + first * asked->qrow, asked->qrow, 1, kt, wide, w + (int64_t)first * wide, wide, end - first,
                asked->size, most_seen);
        for (int i = first; i < end; i++) {
            float *row = w + (int64_t)i * wide, *norm = norms + (q0 + i) * asked->heads + head;
            int seen = reach(asked, i + 1, keys), full = padded(seen);
            if (asked->bias)
                for (int j = 0; j < seen; j++) row[j] += asked->bias[k0 + j] / asked->scale;
            for (int j = seen; j < full; j++) row[j] = -1e30f;
            float known = *norm;
            if (!again && !full) { /* no keys: no weights */
                *norm = 0;
            } else if (!again) {
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

/* Floats that a thread needs: the keys of a sentence, `tables` of (queries, keys), and a row. */
static int64_t attention_floats(int64_t size, int64_t q, int64_t k, int64_t tables) {
    return checked_mul(checked_add(checked_add(size, checked_mul(tables, q)), 1), k);
}

static int attend_from(const Asked *asked, Before before, float *out, float *norms) {
    int q = longest(asked->qstart, asked->sentences), k = padded(longest(asked->kstart, asked->sentences));
    int64_t orow = (int64_t)asked->heads * asked->size;
    int status = SUCCESS;
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *kt = allocate(attention_floats(asked->size, q, k, 1), sizeof(float), &failed);
        float *w = failed ? NULL : kt + (size_t)asked->size * k, *kept = failed ? NULL : w + (size_t)q * k;
        report(&status, failed);
#pragma omp for schedule(dynamic)
        for (int s = 0; s < asked->sentences; s++)
            for (int h = 0; h < asked->heads; h++) {
                if (failed) continue;
                int64_t q0 = asked->qstart[s] - before.queries, k0 = asked->kstart[s] - before.keys;
                int queries = asked->qstart[s + 1] - asked->qstart[s];
                int keys = asked->kstart[s + 1] - asked->kstart[s], wide = padded(keys);
                weigh(asked, before, s, h, kt, w, norms, 0);
                for (int i = 0; asked->received && i < queries; i++)
                    for (int j = 0; j < reach(asked, i + 1, keys); j++) asked->received[k0 + j] += w[(int64_t)i * wide + j];
                for (int i = 0; asked->dropped && i < queries; i++) {
                    int seen = reach(asked, i + 1, keys);
                    keep_weights(asked, before.queries + q0 + i, h, seen, kept);
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
    return status;
}

/* out (tokens, heads * size); norms (tokens, heads) for the way back. */
int attend_apart(const Asked *asked, float *out, float *norms) { return attend_from(asked, (Before){0, 0}, out, norms); }

static int attend_back_from(const Asked *asked, Before before, const float *out, float *norms, const float *g, float *gq,
                            float *gk, float *gv, int64_t gqrow, int64_t gkrow) {
    int q = longest(asked->qstart, asked->sentences), k = padded(longest(asked->kstart, asked->sentences));
    int64_t row = (int64_t)asked->heads * asked->size;
    int status = SUCCESS;
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *kt = allocate(attention_floats(asked->size, q, k, 2), sizeof(float), &failed);
        float *w = failed ? NULL : kt + (size_t)asked->size * k, *d = failed ? NULL : w + (size_t)q * k;
        float *kept = failed ? NULL : d + (size_t)q * k;
        report(&status, failed);
#pragma omp for schedule(dynamic)
        for (int s = 0; s < asked->sentences; s++)
            for (int h = 0; h < asked->heads; h++) {
                if (failed) continue;
                int64_t q0 = asked->qstart[s] - before.queries, k0 = asked->kstart[s] - before.keys;
                int queries = asked->qstart[s + 1] - asked->qstart[s];
                int keys = asked->kstart[s + 1] - asked->kstart[s], wide = padded(keys);
                int64_t at = h * asked->size;
                const float *gh = g + q0 * row + at, *oh = out + q0 * row + at;
                weigh(asked, before, s, h, kt, w, norms, 1);
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
                            keep_weights(asked, before.queries + q0 + i, h, seen, kept);
                            for (int j = 0; j < seen; j++) di[j] = wi[j] * (di[j] * kept[j] - mean) * asked->scale;
                            for (int j = 0; j < seen; j++) wi[j] *= kept[j];
                        } else {
                            for (int j = 0; j < full; j += 8)
                                for (int l = 0; l < 8; l++) di[j + l] = wi[j + l] * (di[j + l] - mean) * asked->scale;
                        }
                    }
                    product(d + (int64_t)first * wide, wide, 1, asked->k + k0 * asked->krow + at, asked->krow,
                            gq + (q0 + first) * gqrow + at, gqrow, end - first, seen, asked->size);
                }
                for (int first = 0; first < keys; first += ROWS) { /* keys are seen by queries from `begin` on */
                    int begin = asked->causal ? first : 0, many = smaller(ROWS, keys - first);
                    int64_t corner = (int64_t)begin * wide + first;
                    product(d + corner, 1, wide, asked->q + (q0 + begin) * asked->qrow + at, asked->qrow,
                            gk + (k0 + first) * gkrow + at, gkrow, many, queries - begin, asked->size);
                    product(w + corner, 1, wide, gh + begin * row, row, gv + (k0 + first) * gkrow + at, gkrow, many,
                            queries - begin, asked->size);
                }
            }
        free(kt);
    }
    return status;
}

/* Gradients of queries, keys and values from the one of `out`; their rows begin gqrow and gkrow floats after the last. */
int attend_apart_backward(const Asked *asked, const float *out, float *norms, const float *g, float *gq, float *gk,
                          float *gv, int64_t gqrow, int64_t gkrow) {
    return attend_back_from(asked, (Before){0, 0}, out, norms, g, gq, gk, gv, gqrow, gkrow);
}
