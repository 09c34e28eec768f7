/* One step of a decoder with a KV cache, and the prefill of a prompt. */
#include "engine.h"

/* sum8 of each of eight vectors, bit-identical and three times as fast: halves of two are added at once. */
static inline f32x8 sum8_of_8(const f32x8 *x) {
    f32x8 t[4], u[2];
    for (int k = 0; k < 4; k++)
        t[k] = SHUFFLE(x[k], x[k + 4], 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE(x[k], x[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    for (int k = 0; k < 2; k++)
        u[k] = SHUFFLE(t[2 * k], t[2 * k + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
               SHUFFLE(t[2 * k], t[2 * k + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    return SHUFFLE(u[0], u[1], 0, 2, 8, 10, 4, 6, 12, 14) + SHUFFLE(u[0], u[1], 1, 3, 9, 11, 5, 7, 13, 15);
}

/* ---- Attention of one query to keys that are not contiguous. ---- */

/* Scratch of a thread for a query with up to `most` keys. */
typedef struct {
    const float **keys; /* (padded most) addresses of the keys */
    float *weights;     /* (heads, padded most) */
    float *scales;      /* (heads) */
} QueryScratch;

/* Size in bytes, in whole cache lines, so that no two threads write to the same one. */
static int64_t query_scratch_bytes(int64_t most, int64_t heads) {
    int64_t keys = checked_add(most, LANES - 1) & ~(int64_t)(LANES - 1);
    int64_t a_key = checked_add(sizeof(float *), checked_mul(sizeof(float), heads));
    int64_t bytes = checked_add(checked_mul(keys, a_key), checked_mul(sizeof(float), heads));
    return checked_add(bytes, 63) & ~(int64_t)63;
}

static QueryScratch query_scratch_at(char *memory, int most, int heads) {
    const float **keys = (const float **)memory;
    float *weights = (float *)(keys + padded(most));
    return (QueryScratch){keys, weights, weights + (int64_t)heads * padded(most)};
}

/* Scores (heads, width) of all keys. Eight keys are read for all heads before the next eight, since they are in distant cache
 * lines; their values, needed soon, are prefetched. */
static void query_scores(const float *query, const float *const *keys, int64_t value, int width, int heads, int size,
                         float *scores) {
    float scale = 1.0f / sqrtf((float)size);
    for (int j = 0; j < width; j += LANES)
        for (int h = 0; h < heads; h++) {
            f32x8 sums[LANES] = {{0}};
            for (int i = h * size; i < (h + 1) * size; i += LANES)
                UNROLL(k, LANES) sums[k] += *(const f32x8 *)(query + i) * *(const f32x8 *)(keys[j + k] + i);
            *(f32x8 *)(scores + h * width + j) = sum8_of_8(sums) * scale;
            for (int i = h * size; i < (h + 1) * size; i += 16)
                UNROLL(k, LANES) __builtin_prefetch(keys[j + k] + value + i);
        }
}

/* Scores become unnormalized weights; returns the factor that normalizes them. */
static float softmax_scale(float *scores, int keys, int width) {
    float most = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++) most = scores[j] > most ? scores[j] : most;
    for (int j = keys; j < width; j++) scores[j] = -1e30f;
    for (int j = 0; j < width; j += LANES) *(f32x8 *)(scores + j) = exp8_nonpositive(*(f32x8 *)(scores + j) - most);
    for (int j = 0; j < keys; j++) sum += scores[j];
    return 1.0f / sum;
}

/* Attention of one query. Values are `value` floats after their keys. */
static void attend(const float *query, const QueryScratch *q, int64_t value, int keys, int heads, int size, float *out) {
    int width = padded(keys), all = heads * size, i = 0;
    const float **at = q->keys;
    float *weights = q->weights, *scales = q->scales;
    for (int j = keys; j < width; j++) at[j] = at[keys - 1];
    query_scores(query, at, value, width, heads, size, weights);
    for (int h = 0; h < heads; h++) scales[h] = softmax_scale(weights + h * width, keys, width);
    for (; size % 32 == 0 && i + 64 <= all; i += 64) { /* enough independent sums to hide the latency of the addition */
        int one = i / size, other = (i + 32) / size;
        f32x8 sums[LANES] = {{0}};
        for (int j = 0; j < keys; j++) {
            const f32x8 *from = (const f32x8 *)(at[j] + value + i);
            UNROLL(k, LANES) sums[k] += weights[(k < 4 ? one : other) * width + j] * from[k];
        }
        UNROLL(k, LANES) *(f32x8 *)(out + i + LANES * k) = sums[k] * scales[k < 4 ? one : other];
    }
    for (; i < all; i += LANES) {
        f32x8 sum = {0};
        for (int j = 0; j < keys; j++) sum += weights[i / size * width + j] * *(const f32x8 *)(at[j] + value + i);
        *(f32x8 *)(out + i) = sum * scales[i / size];
    }
}

/* Addresses of a row's keys of the earlier steps; `layer` is the offset of the layer in each piece of the cache. */
static void find_keys(const DecoderStep *s, int row, int64_t width, int64_t layer, const float **keys) {
    const int32_t *parents = s->parents + (int64_t)row * s->steps;
    int64_t line = s->span * width;
    for (int t = 0; t < s->step;) {
        const float *piece = s->cache[t / s->span] + layer;
        for (int i = 0; i < s->span && t < s->step; i++, t++) keys[t] = piece + parents[t] * line + i * width;
    }
}

/* ---- A step. ---- */

static int64_t widest_hidden(const Stack *stack) {
    int64_t most = 0;
    for (int64_t n = 0; n < stack->count; n++)
        if (stack->sublayers[n].kind == FEED_FORWARD) most = max64(most, hidden_width(&stack->sublayers[n]));
    return most;
}

/* x, normed input, result, and query, key, value or hidden units. */
int64_t decoder_step_floats(const Decoder *d, int64_t rows) {
    int64_t width = d->stack.d_model, hidden = widest_hidden(&d->stack);
    int64_t a_row = checked_add(checked_mul(4, width), max64(hidden, checked_mul(3, width)));
    return checked_add(checked_mul(rows, a_row), checked_mul(FEED_FORWARD_ROWS, hidden));
}

static int most_keys(const Decoder *d, const DecoderStep *step) {
    int most = step->step + 1, cross = 0;
    for (int64_t n = 0; n < d->stack.count; n++) cross |= d->stack.sublayers[n].kind == CROSS_ATTENTION;
    for (int r = 0; cross && r < step->rows; r++) {
        int source = step->offsets[step->sequence[r] + 1] - step->offsets[step->sequence[r]];
        most = source > most ? source : most;
    }
    return most;
}

typedef struct {
    char *memory; /* of all threads */
    int64_t a_thread;
    int most, parallel;
} AttendScratch;

/* Write the keys and values of this step to the cache, and let each row attend to its own. */
static void self_attention_step(const Sublayer *s, const DecoderStep *step, const AttendScratch *scratch, int64_t width,
                                int64_t layer, float *projected, float *context) {
    int heads = s->heads, size = (int)(width / s->heads);
    int64_t line = step->span * width, side = line * step->capacity;
    float *now = step->cache[step->step / step->span] + layer * 2 * side + step->step % step->span * width;
#pragma omp parallel if (scratch->parallel)
    {
        QueryScratch q = query_scratch_at(scratch->memory + omp_get_thread_num() * scratch->a_thread, scratch->most, heads);
#pragma omp for schedule(static)
        for (int r = 0; r < step->rows; r++) {
            float *query = projected + r * 3 * width, *key = now + r * line;
            if (s->rotary) rotate(query, s->rotary, 2 * heads, size, step->step, 0);
            memcpy(key, query + width, sizeof(float) * width);
            memcpy(key + side, query + 2 * width, sizeof(float) * width);
            find_keys(step, r, width, layer * 2 * side, q.keys);
            q.keys[step->step] = key;
            attend(query, &q, side, step->step + 1, heads, size, context + r * width);
        }
    }
}

static void cross_attention_step(const Sublayer *s, const DecoderStep *step, const AttendScratch *scratch, int64_t width,
                                 int64_t layer, const float *query, float *context) {
    int heads = s->heads, size = (int)(width / s->heads);
    const float *memory = step->memory + layer * step->source_rows * 2 * width;
#pragma omp parallel if (scratch->parallel)
    {
        QueryScratch q = query_scratch_at(scratch->memory + omp_get_thread_num() * scratch->a_thread, scratch->most, heads);
#pragma omp for schedule(static)
        for (int r = 0; r < step->rows; r++) {
            int first = step->offsets[step->sequence[r]], count = step->offsets[step->sequence[r] + 1] - first;
            for (int j = 0; j < count; j++) q.keys[j] = memory + (first + j) * 2 * width;
            attend(query + r * width, &q, width, count, heads, size, context + r * width);
        }
    }
}

int decoder_step(const Decoder *d, const DecoderStep *step, float *scratch) {
    const Stack *stack = &d->stack;
    int64_t rows = step->rows, width = stack->d_model, all = rows * width, layer = -1;
    int64_t wide = max64(widest_hidden(stack), 3 * width);
    float *x = scratch, *other = x + all, *normed = other + all, *context = normed + all, *projected = context + all;
    float *active = projected + rows * wide, *result = x;
    AttendScratch a = {.most = most_keys(d, step)};
    int heads = 0, status = SUCCESS;
    for (int64_t n = 0; n < stack->count; n++) heads = stack->sublayers[n].heads > heads ? stack->sublayers[n].heads : heads;
    a.parallel = all * a.most > PARALLEL_MIN && !omp_in_parallel();
    a.a_thread = query_scratch_bytes(a.most, heads);
    a.memory = allocate(checked_mul(a.parallel ? omp_get_max_threads() : 1, a.a_thread), 1, &status);
    if (status) return status;
    for (int64_t r = 0; r < rows; r++) {
        const float *token = d->embedding.table + step->ids[r] * width;
        const float *position = d->embedding.positions ? d->embedding.positions + step->step * width : NULL;
        for (int64_t i = 0; i < width; i++)
            x[r * width + i] = token[i] * d->embedding.scale + (position ? position[i] : 0.0f);
    }
    for (int64_t n = 0; n < stack->count; n++) {
        const Sublayer *s = &stack->sublayers[n];
        if (s->kind == FEED_FORWARD) {
            feed_forward(s, width, x, 0, rows, normed, projected, active, other);
        } else {
            const float *input = sublayer_input(s, width, x, rows, normed);
            project(s, width, INPUT_LINEARS, input, rows, 0, projected);
            if (s->kind == SELF_ATTENTION)
                self_attention_step(s, step, &a, width, ++layer, projected, context);
            else
                cross_attention_step(s, step, &a, width, layer, projected, context);
            float *y = s->pre_norm ? other : normed;
            project(s, width, OUTPUT_LINEARS, context, rows, 0, y);
            sublayer_output(s, width, x, y, 0, rows, other);
        }
        float *swapped = x;
        x = other, other = swapped;
    }
    if (stack->norm.weight)
        layer_norm_forward(&stack->norm, x, rows, width, result);
    else if (x != result)
        memcpy(result, x, sizeof(float) * all);
    free(a.memory);
    return SUCCESS;
}

void output_logits(const Decoder *d, const float *x, int64_t rows, float *logits) {
    gemm(x, rows, d->output, d->output_bias, d->stack.d_model, d->vocabulary, d->vocabulary, 0, logits);
}

/* ---- The highest logits. ---- */

#define GROUPS 64

static inline f32x8 max8(f32x8 a, f32x8 b) {
    i32x8 first = (i32x8)(a > b);
    return (f32x8)((first & (i32x8)a) | (~first & (i32x8)b));
}

/* A lower bound of the `count` highest logits of a row: the `count`th highest of the maxima of GROUPS groups of logits (or a
 * lower one, if some are equal). `most` receives the highest of all. */
static float lower_bound(const float *s, int64_t vocabulary, int count, float *most) {
    float high[GROUPS], least = INFINITY;
    for (int l = 0; l < GROUPS; l++) high[l] = -INFINITY;
    int64_t i = 0;
    for (; i + GROUPS <= vocabulary; i += GROUPS)
        for (int l = 0; l < GROUPS; l++) high[l] = s[i + l] > high[l] ? s[i + l] : high[l];
    for (int l = 0; i < vocabulary; i++, l++) high[l] = s[i] > high[l] ? s[i] : high[l];
    for (int n = 0; n < count && n < GROUPS; n++) { /* the next lower maximum; without its index, which would take longer */
        f32x8 none = (f32x8){0} - INFINITY, next = none;
        for (int l = 0; l < GROUPS; l += LANES) {
            f32x8 group = *(const f32x8 *)(high + l);
            i32x8 below = (i32x8)(group < least);
            next = max8((f32x8)((below & (i32x8)group) | (~below & (i32x8)none)), next);
        }
        next = max8(next, SHUFFLE(next, next, 4, 5, 6, 7, 0, 1, 2, 3));
        next = max8(next, SHUFFLE(next, next, 2, 3, 0, 1, 6, 7, 4, 5));
        least = next[0] > next[1] ? next[0] : next[1];
        if (n == 0) *most = least;
    }
    return count <= GROUPS ? least : -INFINITY;
}

void top_of_rows(const float *logits, int64_t rows, int64_t vocabulary, int count, float *best, int64_t *ids,
                 float *log_sum_exp) {
#pragma omp parallel for schedule(static) if (rows * vocabulary > PARALLEL_MIN && !omp_in_parallel())
    for (int64_t r = 0; r < rows; r++) {
        const float *s = logits + r * vocabulary;
        float *top = best + r * count, most, least = lower_bound(s, vocabulary, count, &most);
        int64_t *top_ids = ids + r * count;
        int found = 0;
        log_sum_exp[r] = most + logf(sum_exp(s, vocabulary, most));
        for (int64_t i = 0; i < vocabulary; i += DROPOUT_BLOCK) {
            int64_t until = min64(i + DROPOUT_BLOCK, vocabulary);
            if (until - i == DROPOUT_BLOCK) { /* few blocks contain one */
                int any = 0;
                for (int l = 0; l < DROPOUT_BLOCK; l++) any |= s[i + l] >= least;
                if (!any) continue;
            }
            for (int64_t j = i; j < until; j++) {
                if (s[j] < least || (found == count && !(s[j] > top[count - 1]))) continue;
                int at = found < count ? found++ : count - 1;
                for (; at > 0 && top[at - 1] < s[j]; at--) top[at] = top[at - 1], top_ids[at] = top_ids[at - 1];
                top[at] = s[j], top_ids[at] = j;
            }
        }
    }
}

/* ---- A GPT: prefill and the next token. ---- */

/* Copy keys and values of one self-attention sublayer (rows of `projected`) to the cache. */
static void fill_cache(const float *projected, int rows, int length, int64_t width, int64_t line, int64_t side, float *keys) {
    for (int64_t t = 0; t < (int64_t)rows * length; t++) {
        const float *key = projected + t * 3 * width + width;
        float *to = keys + t / length * line + t % length * width;
        memcpy(to, key, sizeof(float) * width);
        memcpy(to + side, key + width, sizeof(float) * width);
    }
}

typedef struct {
    const Decoder *decoder;
    const StackRun *run;
    const int64_t *ids;
    int length;
    int64_t line, side;
    float *cache;
} Prefill;

static void prefill_range(const Prefill *p, Range range, int *status) {
    const Stack *stack = &p->decoder->stack;
    int failed = shared_status(status), count = (int)(range.end - range.first);
    Arena arena = counting_arena();
    SavedSublayer *saved = allocate(stack->count + 1, sizeof(SavedSublayer), &failed);
    if (!failed) failed = save_chunk(p->run, range, &arena, saved);
    float *memory = allocate(arena.used, sizeof(float), &failed);
    float *x = allocate(checked_mul((int64_t)count * p->length, stack->d_model), sizeof(float), &failed);
    if (!failed) {
        arena = arena_of(memory, arena.used);
        failed = save_chunk(p->run, range, &arena, saved);
    }
    if (!failed) {
        embed(&p->decoder->embedding, p->ids, p->run->offsets, range.first, range.end, stack->d_model, x);
        failed = chunk_forward(p->run, range, x, NULL, saved);
    }
    for (int64_t n = 0, layer = 0; n < stack->count && !failed; n++)
        if (stack->sublayers[n].kind == SELF_ATTENTION)
            fill_cache(saved[n].projected, count, p->length, stack->d_model, p->line, p->side,
                       p->cache + layer++ * 2 * p->side + range.first * p->line);
    free(saved), free(memory), free(x);
    report_status(status, failed);
}

int prefill(const Decoder *d, const int64_t *ids, int rows, int length, int capacity, int steps, float *cache) {
    const Stack *stack = &d->stack;
    if (rows < 0 || length < 0 || checked_mul(rows, length) > INT32_MAX) return SIZES_OVERFLOW;
    int64_t width = stack->d_model, line = steps * width, side = line * capacity;
    int status = SUCCESS;
    int32_t *offsets = allocate((int64_t)rows + 1, sizeof(int32_t), &status);
    for (int r = 0; !status && r <= rows; r++) offsets[r] = r * length;
    int64_t shares = inference_shares((int64_t)rows * length), a_share = rows ? (rows + shares - 1) / shares : 1;
    StackRun run = {.stack = stack, .offsets = offsets, .sequences = rows, .saves = 1};
    Prefill p = {d, &run, ids, length, line, side, cache};
    if (shares == 1) {
        prefill_range(&p, (Range){0, rows}, &status);
    } else {
#pragma omp parallel for schedule(dynamic)
        for (int64_t first = 0; first < rows; first += a_share)
            prefill_range(&p, (Range){first, min64(first + a_share, rows)}, &status);
    }
    free(offsets);
    return status;
}

int next_token(const Decoder *d, const int64_t *ids, const int32_t *parents, int rows, int step, int capacity, int steps,
               float *cache, float *logits) {
    int status = SUCCESS;
    float *scratch = allocate(decoder_step_floats(d, rows), sizeof(float), &status);
    DecoderStep now = {.rows = rows, .step = step, .steps = steps, .capacity = capacity, .span = steps, .ids = ids,
                       .parents = parents, .cache = &cache};
    if (!status) status = decoder_step(d, &now, scratch);
    if (!status) output_logits(d, scratch, rows, logits);
    free(scratch);
    return status;
}
