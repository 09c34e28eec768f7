/* Scaled dot-product attention within the sequences of a packed batch, with dropout, forward and backward. */
#include "engine.h"

int longest_sequence(const int32_t *offsets, int64_t sequences) {
    int most = 0;
    for (int64_t s = 0; s < sequences; s++) most = offsets[s + 1] - offsets[s] > most ? offsets[s + 1] - offsets[s] : most;
    return most;
}

void transpose_padded(const float *x, int64_t stride, int rows, int size, float *out) {
    int width = padded(rows);
    for (int c = 0; c < size; c++) {
        for (int j = 0; j < rows; j++) out[(int64_t)c * width + j] = x[j * stride + c];
        for (int j = rows; j < width; j++) out[(int64_t)c * width + j] = 0;
    }
}

/* The dropout mask of one query's weights in one head. */
static inline void weight_mask(const VarlenAttention *a, int64_t query, int head, int keys, float *mask) {
    float scale = 256.0f / (256 - a->dropout);
    for (int first = 0; first < keys; first += DROPOUT_BLOCK) {
        uint8_t bytes[DROPOUT_BLOCK];
        dropout_bytes(a->seed, ((uint64_t)(query * a->heads + head) << 12) + first / DROPOUT_BLOCK, bytes);
        for (int i = 0; i < DROPOUT_BLOCK && first + i < keys; i++) mask[first + i] = bytes[i] >= a->dropout ? scale : 0.0f;
    }
}

/* Queries are processed in blocks: with a causal mask the first blocks attend to few keys. */
#define QUERY_BLOCK 32

/* Number of keys that the queries before `end` may attend to. */
static inline int visible(const VarlenAttention *a, int end, int keys) { return a->causal && end < keys ? end : keys; }

static inline int min_int(int a, int b) { return a < b ? a : b; }

static inline float scale_of(const VarlenAttention *a) { return 1.0f / sqrtf((float)a->head_size); }

/* One sequence and head. */
typedef struct {
    int64_t query, key; /* first rows, relative to query_base and key_base */
    int queries, keys, width, head;
} Head;

static Head head_of(const VarlenAttention *a, int64_t sequence, int head) {
    int keys = a->key_offsets[sequence + 1] - a->key_offsets[sequence];
    return (Head){a->query_offsets[sequence] - a->query_base, a->key_offsets[sequence] - a->key_base,
                  a->query_offsets[sequence + 1] - a->query_offsets[sequence], keys, padded(keys), head};
}

/* Attention weights (queries, padded keys) of one head. With `recompute`, log_sum_exp is an input. */
static void attention_weights(const VarlenAttention *a, Head h, float *key_t, float *weights, float *log_sum_exp, int recompute) {
    const float *query = a->query + h.query * a->query_stride + h.head * a->head_size;
    float scale = scale_of(a);
    transpose_padded(a->key + h.key * a->key_stride + h.head * a->head_size, a->key_stride, h.keys, a->head_size, key_t);
    for (int first = 0; first < h.queries; first += QUERY_BLOCK) {
        int end = min_int(first + QUERY_BLOCK, h.queries), most_seen = padded(visible(a, end, h.keys));
        small_gemm(query + first * a->query_stride, a->query_stride, 1, key_t, h.width, weights + (int64_t)first * h.width,
                   h.width, end - first, a->head_size, most_seen);
        for (int i = first; i < end; i++) {
            float *row = weights + (int64_t)i * h.width, *norm = log_sum_exp + (h.query + i) * a->heads + h.head;
            int seen = visible(a, i + 1, h.keys), full = padded(seen);
            if (a->key_bias)
                for (int j = 0; j < seen; j++) row[j] += a->key_bias[h.key + j] / scale;
            for (int j = seen; j < full; j++) row[j] = -1e30f;
            if (!full) { /* no keys */
                *norm = 0;
            } else if (recompute) {
                float known = *norm;
                for (int j = 0; j < full; j += LANES)
                    *(f32x8 *)(row + j) = exp8_nonpositive(*(f32x8 *)(row + j) * scale - known);
            } else {
                float high[LANES], most;
                for (int l = 0; l < LANES; l++) high[l] = row[l];
                for (int j = LANES; j < full; j += LANES)
                    for (int l = 0; l < LANES; l++) high[l] = row[j + l] > high[l] ? row[j + l] : high[l];
                most = high[0];
                for (int l = 1; l < LANES; l++) most = high[l] > most ? high[l] : most;
                f32x8 sum = {0};
                for (int j = 0; j < full; j += LANES) {
                    f32x8 power = exp8_nonpositive((*(f32x8 *)(row + j) - most) * scale);
                    *(f32x8 *)(row + j) = power;
                    sum += power;
                }
                float total = sum8(sum), reciprocal = 1.0f / total;
                *norm = most * scale + logf(total);
                for (int j = 0; j < full; j += LANES) *(f32x8 *)(row + j) *= reciprocal;
            }
            for (int j = seen; j < most_seen; j++) row[j] = 0;
        }
    }
}

/* Floats of scratch per thread: the keys of a sequence, `tables` times (queries, keys), and a row. */
static int64_t attention_floats(int64_t size, int64_t q, int64_t k, int64_t tables) {
    return checked_mul(checked_add(checked_add(size, checked_mul(tables, q)), 1), k);
}

/* Number of heads per task: all if they add to the same array. */
static int heads_per_task(const VarlenAttention *a) { return a->received ? a->heads : 1; }

int attention_forward(const VarlenAttention *a, float *out, float *log_sum_exp) {
    int q = longest_sequence(a->query_offsets, a->sequences), k = padded(longest_sequence(a->key_offsets, a->sequences));
    int64_t out_stride = (int64_t)a->heads * a->head_size;
    int status = SUCCESS, task_heads = heads_per_task(a);
#pragma omp parallel if (a->sequences * a->heads > 1 && !omp_in_parallel())
    {
        int failed = SUCCESS;
        float *key_t = allocate(attention_floats(a->head_size, q, k, 1), sizeof(float), &failed);
        float *weights = failed ? NULL : key_t + (size_t)a->head_size * k, *mask = failed ? NULL : weights + (size_t)q * k;
        report_status(&status, failed);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t s = 0; s < a->sequences; s++)
            for (int first_head = 0; first_head < a->heads; first_head += task_heads) {
                for (int head = first_head; head < first_head + task_heads && !failed; head++) {
                    Head h = head_of(a, s, head);
                    attention_weights(a, h, key_t, weights, log_sum_exp, 0);
                    for (int i = 0; a->received && i < h.queries; i++)
                        for (int j = 0; j < visible(a, i + 1, h.keys); j++)
                            a->received[h.key + j] += weights[(int64_t)i * h.width + j];
                    for (int i = 0; a->dropout && i < h.queries; i++) {
                        int seen = visible(a, i + 1, h.keys);
                        weight_mask(a, a->query_base + h.query + i, head, seen, mask);
                        for (int j = 0; j < seen; j++) weights[(int64_t)i * h.width + j] *= mask[j];
                    }
                    for (int first = 0; first < h.queries; first += QUERY_BLOCK) {
                        int end = min_int(first + QUERY_BLOCK, h.queries);
                        small_gemm(weights + (int64_t)first * h.width, h.width, 1,
                                   a->value + h.key * a->value_stride + head * a->head_size, a->value_stride,
                                   out + (h.query + first) * out_stride + head * a->head_size, out_stride, end - first,
                                   visible(a, end, h.keys), a->head_size);
                    }
                }
            }
        free(key_t);
    }
    return status;
}

int attention_backward(const VarlenAttention *a, const float *out, const float *log_sum_exp, const float *grad_out,
                       float *grad_query, float *grad_key, float *grad_value, int64_t grad_query_stride,
                       int64_t grad_key_stride) {
    int q = longest_sequence(a->query_offsets, a->sequences), k = padded(longest_sequence(a->key_offsets, a->sequences));
    int64_t stride = (int64_t)a->heads * a->head_size;
    float scale = scale_of(a);
    int status = SUCCESS;
#pragma omp parallel if (a->sequences * a->heads > 1 && !omp_in_parallel())
    {
        int failed = SUCCESS;
        float *key_t = allocate(attention_floats(a->head_size, q, k, 2), sizeof(float), &failed);
        float *weights = failed ? NULL : key_t + (size_t)a->head_size * k, *grad = failed ? NULL : weights + (size_t)q * k;
        float *mask = failed ? NULL : grad + (size_t)q * k;
        report_status(&status, failed);
#pragma omp for collapse(2) schedule(dynamic)
        for (int64_t s = 0; s < a->sequences; s++)
            for (int head = 0; head < a->heads; head++) {
                if (failed) continue;
                Head h = head_of(a, s, head);
                int64_t at = (int64_t)head * a->head_size;
                const float *g = grad_out + h.query * stride + at, *o = out + h.query * stride + at;
                attention_weights(a, h, key_t, weights, (float *)log_sum_exp, 1); /* log_sum_exp is only read */
                transpose_padded(a->value + h.key * a->value_stride + at, a->value_stride, h.keys, a->head_size, key_t);
                for (int first = 0; first < h.queries; first += QUERY_BLOCK) {
                    int end = min_int(first + QUERY_BLOCK, h.queries), seen = visible(a, end, h.keys), full = padded(seen);
                    small_gemm(g + first * stride, stride, 1, key_t, h.width, grad + (int64_t)first * h.width, h.width,
                               end - first, a->head_size, full);
                    for (int i = first; i < end; i++) {
                        float *w = weights + (int64_t)i * h.width, *d = grad + (int64_t)i * h.width, mean = 0;
#pragma omp simd reduction(+ : mean)
                        for (int c = 0; c < a->head_size; c++) mean += g[i * stride + c] * o[i * stride + c];
                        if (a->dropout) {
                            weight_mask(a, a->query_base + h.query + i, head, seen, mask);
                            for (int j = 0; j < seen; j++) d[j] = w[j] * (d[j] * mask[j] - mean) * scale;
                            for (int j = 0; j < seen; j++) w[j] *= mask[j];
                        } else {
                            for (int j = 0; j < full; j += LANES)
                                for (int l = 0; l < LANES; l++) d[j + l] = w[j + l] * (d[j + l] - mean) * scale;
                        }
                    }
                    small_gemm(grad + (int64_t)first * h.width, h.width, 1, a->key + h.key * a->key_stride + at, a->key_stride,
                               grad_query + (h.query + first) * grad_query_stride + at, grad_query_stride, end - first, seen,
                               a->head_size);
                }
                for (int first = 0; first < h.keys; first += QUERY_BLOCK) { /* queries from `begin` on attend to these keys */
                    int begin = a->causal ? min_int(first, h.queries) : 0, count = min_int(QUERY_BLOCK, h.keys - first);
                    int64_t corner = (int64_t)begin * h.width + first;
                    small_gemm(grad + corner, 1, h.width, a->query + (h.query + begin) * a->query_stride + at, a->query_stride,
                               grad_key + (h.key + first) * grad_key_stride + at, grad_key_stride, count, h.queries - begin,
                               a->head_size);
                    small_gemm(weights + corner, 1, h.width, g + begin * stride, stride,
                               grad_value + (h.key + first) * grad_key_stride + at, grad_key_stride, count, h.queries - begin,
                               a->head_size);
                }
            }
        free(key_t);
    }
    return status;
}
