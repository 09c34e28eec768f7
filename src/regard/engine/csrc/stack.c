/* The packed Transformer stack: sublayers with their residual connections, forward and backward.
 *
 * Sequences are independent, so a thread computes all sublayers of some of them (a chunk), while the saved activations are
 * still in the cache. If there is only one chunk, matrix products and attention use all threads. */
#include "engine.h"

/* ---- LayerNorm, embeddings, rotary positions. ---- */

static void add_columns(const float *x, int64_t rows, int64_t stride, int64_t columns, float *sums) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++) sums[i] += x[r * stride + i];
}

static inline float mean_and_scale(const float *x, int64_t width, float epsilon, float *scale) {
    float mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < width; i++) mean += x[i];
    mean /= width;
#pragma omp simd reduction(+ : variance)
    for (int64_t i = 0; i < width; i++) variance += (x[i] - mean) * (x[i] - mean);
    *scale = 1.0f / sqrtf(variance / width + epsilon);
    return mean;
}

void layer_norm_forward(const LayerNorm *norm, const float *x, int64_t rows, int64_t width, float *out) {
    for (int64_t r = 0; r < rows; r++) {
        const float *xr = x + r * width;
        float *to = out + r * width, scale, mean = mean_and_scale(xr, width, norm->epsilon, &scale);
        for (int64_t i = 0; i < width; i++) to[i] = (xr[i] - mean) * scale * norm->weight[i] + norm->bias[i];
    }
}

void layer_norm_backward(const LayerNorm *norm, const float *x, int64_t rows, int64_t width, float *grad, float *gradient) {
    const float *weight = norm->weight;
    for (int64_t r = 0; r < rows; r++, x += width, grad += width) {
        float scale, mean = mean_and_scale(x, width, norm->epsilon, &scale), plain = 0, along = 0;
#pragma omp simd reduction(+ : plain, along)
        for (int64_t i = 0; i < width; i++) {
            float unit = (x[i] - mean) * scale, g = grad[i] * weight[i];
            plain += g;
            along += g * unit;
        }
        plain /= width, along /= width;
        if (norm->weight_grad >= 0) {
            float *grad_weight = gradient + norm->weight_grad;
            for (int64_t i = 0; i < width; i++) grad_weight[i] += grad[i] * ((x[i] - mean) * scale);
        }
        if (norm->bias_grad >= 0) add_columns(grad, 1, width, width, gradient + norm->bias_grad);
        for (int64_t i = 0; i < width; i++)
            grad[i] = scale * (grad[i] * weight[i] - plain - (x[i] - mean) * scale * along);
    }
}

void embed(const Embedding *e, const int64_t *ids, const int32_t *offsets, int64_t first, int64_t end, int64_t d_model,
           float *x) {
    for (int64_t s = first; s < end; s++)
        for (int64_t row = offsets[s]; row < offsets[s + 1]; row++, x += d_model) {
            const float *token = e->table + ids[row] * d_model;
            const float *position = e->positions ? e->positions + (row - offsets[s]) * d_model : NULL;
            if (position)
                for (int64_t i = 0; i < d_model; i++) x[i] = token[i] * e->scale + position[i];
            else
                for (int64_t i = 0; i < d_model; i++) x[i] = token[i] * e->scale;
        }
}

void rotate(float *x, const float *table, int heads, int head_size, int64_t position, int inverse) {
    const float *angles = table + position * head_size;
    float sign = inverse ? -1.0f : 1.0f;
    for (int h = 0; h < heads; h++, x += head_size)
        for (int i = 0; i < head_size; i += 2) {
            float cosine = angles[i], sine = sign * angles[i + 1], left = x[i], right = x[i + 1];
            x[i] = left * cosine - right * sine;
            x[i + 1] = left * sine + right * cosine;
        }
}

/* x (rows, stride) holds `heads` heads in each row; offsets[0] is its first row. */
void rotate_rows(const Sublayer *s, float *x, int64_t stride, const int32_t *offsets, int64_t sequences, int heads,
                 int64_t head_size, int inverse) {
    for (int64_t n = 0; n < sequences; n++)
        for (int64_t row = offsets[n]; row < offsets[n + 1]; row++)
            rotate(x + (row - offsets[0]) * stride, s->rotary, heads, (int)head_size, row - offsets[n], inverse);
}

/* ---- Linear layers side by side. ---- */

typedef struct {
    int count, members[3];
    int64_t out, in; /* of each */
} LinearGroup;

static LinearGroup linear_group(const Sublayer *s, int64_t d_model, int group) {
    int network = s->kind == FEED_FORWARD;
    switch (group) {
    case INPUT_LINEARS:
        if (network && s->activation == SWIGLU) return (LinearGroup){2, {GATE, FC1}, s->d_ff, d_model};
        if (network) return (LinearGroup){1, {FC1}, s->d_ff, d_model};
        if (s->kind == SELF_ATTENTION) return (LinearGroup){3, {QUERY, KEY, VALUE}, d_model, d_model};
        return (LinearGroup){1, {QUERY}, d_model, d_model};
    case SOURCE_LINEARS: return (LinearGroup){s->kind == CROSS_ATTENTION ? 2 : 0, {KEY, VALUE}, d_model, d_model};
    default: return (LinearGroup){1, {OUTPUT}, d_model, network ? s->d_ff : d_model};
    }
}

int64_t hidden_width(const Sublayer *s) { return s->activation == SWIGLU ? checked_mul(2, s->d_ff) : s->d_ff; }

/* Allocate the packed matrices of a group in the arena. */
static void allocate_group(Sublayer *s, int64_t d_model, int group, int transposed, Arena *arena) {
    LinearGroup g = linear_group(s, d_model, group);
    PackedLinears *p = &s->packed[group];
    int64_t all = checked_mul(g.count, g.out);
    p->forward = take(arena, checked_mul(g.count, gemm_packed_floats(g.out, g.in)));
    p->transposed = transposed ? take(arena, gemm_packed_floats(g.in, all)) : NULL;
    p->bias = take(arena, all);
}

static void pack_group(const Sublayer *s, int64_t d_model, int group) {
    LinearGroup g = linear_group(s, d_model, group);
    const PackedLinears *p = &s->packed[group];
    for (int m = 0; m < g.count; m++) {
        const Linear *linear = &s->linear[g.members[m]];
        gemm_pack(linear->weight, p->forward + m * gemm_packed_floats(g.out, g.in), g.out, g.in, 0);
        if (p->transposed) gemm_pack_inputs(linear->weight, p->transposed, g.in, g.out, m * g.out, g.count * g.out);
        if (linear->bias)
            memcpy(p->bias + m * g.out, linear->bias, sizeof(float) * g.out);
        else
            memset(p->bias + m * g.out, 0, sizeof(float) * g.out);
    }
}

int64_t stack_packed_floats(const Stack *stack, int transposed) {
    Arena arena = counting_arena();
    for (int64_t n = 0; n < stack->count; n++)
        for (int group = 0; group < PACKED_GROUPS; group++) {
            Sublayer copy = stack->sublayers[n];
            allocate_group(&copy, stack->d_model, group, transposed, &arena);
        }
    return arena.exhausted ? INT64_MAX : arena.used;
}

int stack_pack(const Stack *stack, int transposed, float *memory) {
    Arena arena = arena_of(memory, stack_packed_floats(stack, transposed));
    for (int64_t n = 0; n < stack->count; n++)
        for (int group = 0; group < PACKED_GROUPS; group++)
            allocate_group(&stack->sublayers[n], stack->d_model, group, transposed, &arena);
    if (arena.exhausted) return ARENA_EXHAUSTED;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < stack->count * PACKED_GROUPS; i++)
        pack_group(&stack->sublayers[i / PACKED_GROUPS], stack->d_model, (int)(i % PACKED_GROUPS));
    return SUCCESS;
}

void project(const Sublayer *s, int64_t d_model, int group, const float *x, int64_t rows, int flags, float *y) {
    LinearGroup g = linear_group(s, d_model, group);
    const PackedLinears *p = &s->packed[group];
    int64_t all = g.count * g.out;
    if (g.count == 1 || g.out % PANEL == 0) {
        gemm(x, rows, p->forward, p->bias, g.in, all, all, flags, y);
        return;
    }
    for (int m = 0; m < g.count; m++)
        gemm(x, rows, p->forward + m * gemm_packed_floats(g.out, g.in), p->bias + m * g.out, g.in, g.out, all, flags,
             y + m * g.out);
}

/* Gradients of weights and biases, from the gradient of a group's output (rows, outputs of all) and its input x. */
static int project_backward(const Sublayer *s, int64_t d_model, int group, const float *x, const float *grad, int64_t rows,
                            float *gradient) {
    LinearGroup g = linear_group(s, d_model, group);
    int64_t all = g.count * g.out, first = s->linear[g.members[0]].weight_grad;
    int status = SUCCESS, adjacent = first >= 0;
    for (int m = 0; m < g.count; m++) {
        const Linear *linear = &s->linear[g.members[m]];
        adjacent &= linear->weight_grad == first + m * g.out * g.in;
        if (linear->bias_grad >= 0) add_columns(grad + m * g.out, rows, all, g.out, gradient + linear->bias_grad);
    }
    if (adjacent) return gemm_weight_grad(grad, all, all, x, g.in, rows, GEMM_ACCUMULATE, gradient + first);
    for (int m = 0; m < g.count && !status; m++) {
        int64_t at = s->linear[g.members[m]].weight_grad;
        if (at >= 0) status = gemm_weight_grad(grad + m * g.out, all, g.out, x, g.in, rows, GEMM_ACCUMULATE, gradient + at);
    }
    return status;
}

/* The gradient of a group's input: grad_x (rows, in). */
static void input_gradient(const Sublayer *s, int64_t d_model, int group, const float *grad, int64_t rows, int flags,
                           float *grad_x) {
    LinearGroup g = linear_group(s, d_model, group);
    gemm(grad, rows, s->packed[group].transposed, NULL, g.count * g.out, g.in, g.in, flags, grad_x);
}

/* ---- Sublayers, forward. ---- */

const float *sublayer_input(const Sublayer *s, int64_t d_model, const float *x, int64_t rows, float *normed) {
    if (!s->pre_norm) return x;
    layer_norm_forward(&s->norm, x, rows, d_model, normed);
    return normed;
}

void sublayer_output(const Sublayer *s, int64_t d_model, const float *x, float *y, int64_t first_row, int64_t rows,
                     float *out) {
    dropout_add(x, y, s->pre_norm ? out : y, first_row, rows, d_model, s->dropout, s->seed);
    if (!s->pre_norm) layer_norm_forward(&s->norm, y, rows, d_model, out);
}

void feed_forward(const Sublayer *s, int64_t d_model, const float *x, int64_t first_row, int64_t rows, float *normed,
                  float *hidden, float *active, float *out) {
    int64_t width = hidden_width(s);
    int fused = s->activation == RELU && !s->inner_dropout;
    for (int64_t r = 0; r < rows; r += FEED_FORWARD_ROWS) {
        int64_t count = min64(FEED_FORWARD_ROWS, rows - r), at = r * d_model;
        const float *input = sublayer_input(s, d_model, x + at, count, normed + at);
        float *h = hidden + r * width, *a = s->activation == RELU ? h : active, *y = (s->pre_norm ? out : normed) + at;
        project(s, d_model, INPUT_LINEARS, input, count, fused ? GEMM_RELU : 0, h);
        if (!fused) activation_forward(s->activation, h, a, first_row + r, count, s->d_ff, s->inner_dropout, s->inner_seed);
        project(s, d_model, OUTPUT_LINEARS, a, count, 0, y);
        sublayer_output(s, d_model, x + at, y, first_row + r, count, out + at);
    }
}

static int64_t range_rows(const int32_t *offsets, Range range) {
    return offsets ? (int64_t)offsets[range.end] - offsets[range.first] : 0;
}

/* The first sublayer that computes only selected rows. */
static int64_t selecting_sublayer(const StackRun *run) {
    int64_t n = run->stack->count;
    if (run->selected)
        while (n > 0 && run->stack->sublayers[n - 1].kind != SELF_ATTENTION) n--;
    else
        return n;
    return n - 1;
}

/* Number of input rows of sublayer n; n may be the number of sublayers. */
static int64_t rows_into(const StackRun *run, Range range, int64_t n) {
    return range_rows(n > selecting_sublayer(run) ? run->selected_offsets : run->offsets, range);
}

/* Number of rows of the batch before the input rows of sublayer n. */
static int64_t first_row_into(const StackRun *run, Range range, int64_t n) {
    return (n > selecting_sublayer(run) ? run->selected_offsets : run->offsets)[range.first];
}

/* Row i of the selected ones of a range, counted from the range's first row. */
static inline int64_t selected_row(const StackRun *run, Range range, int64_t i) {
    return (int64_t)run->selected[run->selected_offsets[range.first] + i] - run->offsets[range.first];
}

static void gather_rows(const StackRun *run, Range range, const float *x, int64_t stride, int64_t width, float *out) {
    int64_t count = range_rows(run->selected_offsets, range);
    for (int64_t i = 0; i < count; i++)
        memcpy(out + i * width, x + selected_row(run, range, i) * stride, sizeof(float) * width);
}

static VarlenAttention attention_of(const StackRun *run, int64_t n, Range range, const SavedSublayer *v) {
    const Sublayer *s = &run->stack->sublayers[n];
    int64_t width = run->stack->d_model;
    int cross = s->kind == CROSS_ATTENTION;
    const int32_t *own = run->offsets + range.first;
    VarlenAttention a = {.query = v->projected, .query_stride = cross ? width : 3 * width, .query_offsets = own,
                         .key_offsets = cross ? run->source_offsets + range.first : own, .sequences = range.end - range.first,
                         .heads = s->heads, .head_size = (int32_t)(width / s->heads), .causal = s->causal,
                         .dropout = s->inner_dropout, .seed = s->inner_seed};
    a.key = cross ? v->source : v->projected + width, a.value = a.key + width;
    a.key_stride = a.value_stride = cross ? 2 * width : 3 * width;
    if (v->query) a.query = v->query, a.query_stride = width, a.query_offsets = run->selected_offsets + range.first;
    a.query_base = a.query_offsets[0], a.key_base = a.key_offsets[0];
    if (n == 0 && run->key_bias) a.key_bias = run->key_bias + own[0];
    if (n == 0 && run->received) a.received = run->received + own[0];
    return a;
}

static void mean_of_keys(const StackRun *run, const VarlenAttention *a, int64_t first, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < a->head_size; i++) {
            float sum = 0;
            for (int h = 0; h < a->heads; h++) sum += a->key[r * a->key_stride + h * a->head_size + i];
            run->mean_keys[(first + r) * a->head_size + i] = sum / a->heads;
        }
}

static int attention_sublayer(const StackRun *run, int64_t n, Range range, const float *source, SavedSublayer *v) {
    const Sublayer *s = &run->stack->sublayers[n];
    int64_t width = run->stack->d_model, rows = rows_into(run, range, n), rows_out = rows_into(run, range, n + 1);
    int64_t head_size = width / s->heads, sequences = range.end - range.first;
    const float *input = sublayer_input(s, width, v->x, rows, v->normed);
    project(s, width, INPUT_LINEARS, input, rows, 0, v->projected);
    if (v->source) project(s, width, SOURCE_LINEARS, source, range_rows(run->source_offsets, range), 0, v->source);
    if (s->rotary) /* of queries and keys, which are adjacent */
        rotate_rows(s, v->projected, 3 * width, run->offsets + range.first, sequences, 2 * s->heads, head_size, 0);
    if (v->query) gather_rows(run, range, v->projected, 3 * width, width, v->query);
    VarlenAttention a = attention_of(run, n, range, v);
    if (n == 0 && run->mean_keys) mean_of_keys(run, &a, run->offsets[range.first], rows);
    int status = attention_forward(&a, v->context, v->log_sum_exp);
    if (status) return status;
    float *y = s->pre_norm ? v->out : v->normed;
    const float *x = v->x;
    if (v->query) { /* the residual connection of the selected rows */
        gather_rows(run, range, v->x, width, width, v->active);
        x = v->active;
    }
    project(s, width, OUTPUT_LINEARS, v->context, rows_out, 0, y);
    sublayer_output(s, width, x, y, first_row_into(run, range, n + 1), rows_out, v->out);
    return SUCCESS;
}

/* Allocate what sublayer n saves, except its input and output. */
static void save_sublayer(const StackRun *run, int64_t n, Range range, Arena *arena, SavedSublayer *v) {
    const Sublayer *s = &run->stack->sublayers[n];
    int64_t width = run->stack->d_model, rows = rows_into(run, range, n), rows_out = rows_into(run, range, n + 1);
    int selects = n == selecting_sublayer(run) && run->selected;
    v->normed = take(arena, checked_mul(rows, width));
    if (s->kind == FEED_FORWARD) {
        v->projected = take(arena, checked_mul(rows, hidden_width(s)));
        v->active = s->activation == RELU ? NULL : take(arena, checked_mul(FEED_FORWARD_ROWS, s->d_ff));
        v->source = v->query = v->context = v->log_sum_exp = NULL;
        return;
    }
    int cross = s->kind == CROSS_ATTENTION;
    v->projected = take(arena, checked_mul(rows, checked_mul(cross ? 1 : 3, width)));
    v->source = cross ? take(arena, checked_mul(range_rows(run->source_offsets, range), checked_mul(2, width))) : NULL;
    v->query = selects ? take(arena, checked_mul(rows_out, width)) : NULL;
    v->active = selects ? take(arena, checked_mul(rows_out, width)) : NULL;
    v->context = take(arena, checked_mul(rows_out, width));
    v->log_sum_exp = take(arena, checked_mul(rows_out, s->heads));
}

int save_chunk(const StackRun *run, Range range, Arena *arena, SavedSublayer *saved) {
    int64_t count = run->stack->count, width = run->stack->d_model, most = checked_mul(range_rows(run->offsets, range), width);
    if (run->saves) {
        for (int64_t n = 0; n < count; n++) {
            save_sublayer(run, n, range, arena, &saved[n]);
            saved[n].out = take(arena, checked_mul(rows_into(run, range, n + 1), width));
        }
    } else { /* activations are needed only until the next sublayer has been computed */
        float *outputs[2] = {take(arena, most), take(arena, most)};
        Arena largest = *arena;
        for (int64_t n = 0; n < count; n++) {
            Arena own = *arena;
            save_sublayer(run, n, range, &own, &saved[n]);
            saved[n].out = outputs[n % 2];
            if (own.used > largest.used || own.exhausted) largest = own;
        }
        *arena = largest;
    }
    for (int64_t n = 1; n <= count; n++) saved[n].x = saved[n - 1].out;
    return arena->exhausted ? ARENA_EXHAUSTED : SUCCESS;
}

int chunk_forward(const StackRun *run, Range range, float *x, const float *source, SavedSublayer *saved) {
    const Stack *stack = run->stack;
    int64_t first = run->offsets[range.first], rows = range_rows(run->offsets, range);
    if (stack->dropout) dropout_add(NULL, x, x, first, rows, stack->d_model, stack->dropout, stack->seed);
    saved[0].x = x;
    for (int64_t n = 0; n < stack->count; n++) {
        const Sublayer *s = &stack->sublayers[n];
        SavedSublayer *v = &saved[n];
        if (s->kind == FEED_FORWARD) {
            feed_forward(s, stack->d_model, v->x, first_row_into(run, range, n), rows_into(run, range, n), v->normed,
                         v->projected, v->active, v->out);
        } else {
            int status = attention_sublayer(run, n, range, source, v);
            if (status) return status;
        }
    }
    return SUCCESS;
}

/* ---- Sublayers, backward. g is the gradient of the output, and is overwritten; grad_x is the gradient of the input. ---- */

/* The gradient of the sublayer's result before dropout; `g` becomes that of the residual connection. */
static float *output_backward(const Sublayer *s, int64_t d_model, const SavedSublayer *v, int64_t first_row, int64_t rows,
                              float *g, float *gradient, Arena *scratch) {
    if (!s->pre_norm) layer_norm_backward(&s->norm, v->normed, rows, d_model, g, gradient);
    if (!s->dropout) return g;
    float *grad = take(scratch, rows * d_model);
    if (grad) dropout_add(NULL, g, grad, first_row, rows, d_model, s->dropout, s->seed);
    return grad;
}

static int feed_forward_backward(const StackRun *run, int64_t n, Range range, const SavedSublayer *v, float *g, float *grad_x,
                                 float *gradient, Arena scratch) {
    const Sublayer *s = &run->stack->sublayers[n];
    int64_t d_model = run->stack->d_model, d_ff = s->d_ff, width = hidden_width(s);
    int64_t rows = rows_into(run, range, n), first_row = first_row_into(run, range, n);
    int relu = s->activation == RELU;
    float *grad = output_backward(s, d_model, v, first_row, rows, g, gradient, &scratch);
    float *grad_hidden = take(&scratch, rows * width);
    float *active = relu ? v->projected : take(&scratch, rows * d_ff);
    float *grad_active = relu ? NULL : take(&scratch, FEED_FORWARD_ROWS * d_ff);
    if (scratch.exhausted) return ARENA_EXHAUSTED;
    for (int64_t r = 0; r < rows; r += FEED_FORWARD_ROWS) {
        int64_t count = min64(FEED_FORWARD_ROWS, rows - r), at = r * d_model;
        float *h = grad_hidden + r * width, *a = relu ? h : grad_active;
        input_gradient(s, d_model, OUTPUT_LINEARS, grad + at, count, 0, a);
        activation_backward(s->activation, v->projected + r * width, a, h, active + r * d_ff, first_row + r, count, d_ff,
                            s->inner_dropout, s->inner_seed);
        input_gradient(s, d_model, INPUT_LINEARS, h, count, 0, grad_x + at);
        if (s->pre_norm) layer_norm_backward(&s->norm, v->x + at, count, d_model, grad_x + at, gradient);
        for (int64_t i = at; i < at + count * d_model; i++) grad_x[i] += g[i];
    }
    int status = project_backward(s, d_model, OUTPUT_LINEARS, active, grad, rows, gradient);
    if (status) return status;
    return project_backward(s, d_model, INPUT_LINEARS, s->pre_norm ? v->normed : v->x, grad_hidden, rows, gradient);
}

static int attention_sublayer_backward(const StackRun *run, int64_t n, Range range, const float *source,
                                       const SavedSublayer *v, float *g, float *grad_x, float *grad_source, float *gradient,
                                       Arena scratch) {
    const Sublayer *s = &run->stack->sublayers[n];
    int64_t width = run->stack->d_model, rows = rows_into(run, range, n), rows_out = rows_into(run, range, n + 1);
    int cross = s->kind == CROSS_ATTENTION;
    int64_t stride = cross ? width : 3 * width, sources = cross ? range_rows(run->source_offsets, range) : 0;
    float *grad = output_backward(s, width, v, first_row_into(run, range, n + 1), rows_out, g, gradient, &scratch);
    float *grad_context = take(&scratch, rows_out * width), *grad_projected = take(&scratch, rows * stride);
    float *grad_memory = cross ? take(&scratch, sources * 2 * width) : grad_projected ? grad_projected + width : NULL;
    float *grad_query = v->query ? take(&scratch, rows_out * width) : grad_projected;
    if (scratch.exhausted) return ARENA_EXHAUSTED;
    input_gradient(s, width, OUTPUT_LINEARS, grad, rows_out, 0, grad_context);
    int status = project_backward(s, width, OUTPUT_LINEARS, v->context, grad, rows_out, gradient);
    VarlenAttention a = attention_of(run, n, range, v);
    if (!status)
        status = attention_backward(&a, v->context, v->log_sum_exp, grad_context, grad_query, grad_memory, grad_memory + width,
                                    v->query ? width : stride, a.key_stride);
    if (status) return status;
    if (v->query) {
        for (int64_t r = 0; r < rows; r++) memset(grad_projected + r * stride, 0, sizeof(float) * width);
        for (int64_t i = 0; i < rows_out; i++)
            memcpy(grad_projected + selected_row(run, range, i) * stride, grad_query + i * width, sizeof(float) * width);
    }
    if (s->rotary)
        rotate_rows(s, grad_projected, stride, run->offsets + range.first, range.end - range.first, 2 * s->heads,
                    width / s->heads, 1);
    const float *input = s->pre_norm ? v->normed : v->x;
    status = project_backward(s, width, INPUT_LINEARS, input, grad_projected, rows, gradient);
    if (!status && cross) status = project_backward(s, width, SOURCE_LINEARS, source, grad_memory, sources, gradient);
    if (status) return status;
    input_gradient(s, width, INPUT_LINEARS, grad_projected, rows, 0, grad_x);
    if (cross) input_gradient(s, width, SOURCE_LINEARS, grad_memory, sources, GEMM_ACCUMULATE, grad_source);
    if (s->pre_norm) layer_norm_backward(&s->norm, v->x, rows, width, grad_x, gradient);
    for (int64_t r = 0; r < rows_out; r++) {
        float *to = grad_x + (v->query ? selected_row(run, range, r) : r) * width;
        for (int64_t i = 0; i < width; i++) to[i] += g[r * width + i];
    }
    return SUCCESS;
}

int64_t chunk_backward_floats(const StackRun *run, Range range) {
    int64_t width = run->stack->d_model, rows = range_rows(run->offsets, range), most = 0;
    int64_t sources = range_rows(run->source_offsets, range);
    for (int64_t n = 0; n < run->stack->count; n++) {
        const Sublayer *s = &run->stack->sublayers[n];
        Arena arena = counting_arena();
        take(&arena, checked_mul(rows, width));
        if (s->kind == FEED_FORWARD) {
            take(&arena, checked_mul(rows, hidden_width(s)));
            take(&arena, checked_mul(rows, s->d_ff));
            take(&arena, checked_mul(FEED_FORWARD_ROWS, s->d_ff));
        } else {
            take(&arena, checked_mul(rows, width));
            take(&arena, checked_mul(rows, checked_mul(3, width)));
            take(&arena, checked_mul(max64(sources, rows), checked_mul(2, width)));
        }
        most = arena.exhausted ? INT64_MAX : max64(most, arena.used);
    }
    Arena both = counting_arena();
    take(&both, checked_mul(rows, width)), take(&both, checked_mul(rows, width));
    return checked_add(most, both.exhausted ? INT64_MAX : both.used);
}

int chunk_backward(const StackRun *run, Range range, const float *source, const SavedSublayer *saved, const float *grad_out,
                   float *grad_x, float *grad_source, float *gradient, Arena scratch) {
    const Stack *stack = run->stack;
    int64_t width = stack->d_model, rows = range_rows(run->offsets, range), rows_out = rows_into(run, range, stack->count);
    float *g = take(&scratch, rows * width), *other = take(&scratch, rows * width);
    if (scratch.exhausted) return ARENA_EXHAUSTED;
    memcpy(g, grad_out, sizeof(float) * rows_out * width);
    if (stack->norm.weight) layer_norm_backward(&stack->norm, saved[stack->count].x, rows_out, width, g, gradient);
    for (int64_t n = stack->count - 1; n >= 0; n--) {
        int status = stack->sublayers[n].kind == FEED_FORWARD
                         ? feed_forward_backward(run, n, range, &saved[n], g, other, gradient, scratch)
                         : attention_sublayer_backward(run, n, range, source, &saved[n], g, other, grad_source, gradient,
                                                       scratch);
        if (status) return status;
        float *swapped = g;
        g = other, other = swapped;
    }
    dropout_add(NULL, g, grad_x, run->offsets[range.first], rows, width, stack->dropout, stack->seed);
    return SUCCESS;
}

/* ---- Shares and chunks. ---- */

static int64_t tokens_before(const int32_t *a, const int32_t *b, int64_t sequence) {
    return (int64_t)a[sequence] + (b ? b[sequence] : 0);
}

int64_t share_begin(const int32_t *a, const int32_t *b, int64_t sequences, int64_t share, int64_t shares) {
    int64_t all = tokens_before(a, b, sequences), s = 0;
    while (s < sequences && tokens_before(a, b, s) * shares < all * share) s++;
    return share == shares ? sequences : s;
}

Range next_chunk(const int32_t *a, const int32_t *b, int64_t first, int64_t end) {
    Range range = {first, first};
    for (int64_t tokens = 0; range.end < end && tokens < CHUNK; range.end++) {
        int64_t own = a[range.end + 1] - a[range.end], source = b ? b[range.end + 1] - b[range.end] : 0;
        tokens += max64(own, source);
    }
    return range;
}

/* `others` holds the gradients of `count` further shares. */
void add_gradients(float *gradient, const float *others, int64_t count, int64_t parameters) {
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < parameters; first += PARALLEL_MIN)
        for (int64_t share = 0; share < count; share++) {
            const float *from = others + share * parameters;
            for (int64_t i = first; i < min64(first + PARALLEL_MIN, parameters); i++) gradient[i] += from[i];
        }
}

int64_t inference_shares(int64_t tokens) { return max64(1, min64(omp_get_max_threads(), tokens / 48)); }

/* ---- The whole batch. ---- */

typedef struct {
    Range range;
    int64_t saved; /* offset of its saved activations */
    int32_t share;
} Chunk;

/* The chunks of a run, in order; `floats` is the size of their activations. NULL if an allocation fails. */
static Chunk *chunks_of(const StackRun *run, int64_t *count, int64_t *floats, int *status) {
    Chunk *chunks = allocate(run->sequences + 1, sizeof(Chunk), status);
    SavedSublayer *saved = allocate(run->stack->count + 1, sizeof(SavedSublayer), status);
    int64_t n = 0, used = 0;
    for (int32_t share = 0; !*status && share < run->shares; share++) {
        int64_t first = share_begin(run->offsets, run->source_offsets, run->sequences, share, run->shares);
        int64_t end = share_begin(run->offsets, run->source_offsets, run->sequences, share + 1, run->shares);
        while (first < end) {
            Arena arena = counting_arena();
            chunks[n] = (Chunk){next_chunk(run->offsets, run->source_offsets, first, end), used, share};
            first = chunks[n].range.end;
            if (save_chunk(run, chunks[n++].range, &arena, saved)) *status = SIZES_OVERFLOW;
            used = checked_add(used, arena.used);
        }
    }
    free(saved);
    *count = n, *floats = used;
    if (*status) {
        free(chunks);
        return NULL;
    }
    return chunks;
}

int stack_saved_floats(const StackRun *run, int64_t *floats) {
    int status = SUCCESS;
    int64_t count;
    free(chunks_of(run, &count, floats, &status));
    return status;
}

/* Packed matrices for one call, unless the caller has packed them already. */
static float *pack_for_call(const Stack *stack, int transposed, int *status) {
    if (!stack->count || stack->sublayers[0].packed[INPUT_LINEARS].forward) return NULL;
    float *memory = allocate(stack_packed_floats(stack, transposed), sizeof(float), status);
    if (memory) *status = stack_pack(stack, transposed, memory);
    return memory;
}

static void unpack(const Stack *stack, float *memory) {
    if (memory)
        for (int64_t n = 0; n < stack->count; n++) memset(stack->sublayers[n].packed, 0, sizeof(stack->sublayers[n].packed));
    free(memory);
}

static const float *source_of(const StackRun *run, Range range) {
    return run->source ? run->source + run->source_offsets[range.first] * run->stack->d_model : NULL;
}

static int forward_range(const StackRun *run, const Chunk *chunk, const float *x, float *memory, float *out) {
    const Stack *stack = run->stack;
    int64_t width = stack->d_model, rows = range_rows(run->offsets, chunk->range), first = run->offsets[chunk->range.first];
    int status = SUCCESS;
    Arena arena = counting_arena();
    SavedSublayer *saved = allocate(stack->count + 1, sizeof(SavedSublayer), &status);
    float *own = NULL, *input = NULL;
    if (!status) status = save_chunk(run, chunk->range, &arena, saved);
    if (!status && !run->saves) own = allocate(arena.used, sizeof(float), &status);
    if (!status && stack->dropout) input = allocate(rows * width, sizeof(float), &status); /* x itself must not be changed */
    if (!status) {
        arena = arena_of(run->saves ? memory + chunk->saved : own, arena.used);
        status = save_chunk(run, chunk->range, &arena, saved);
    }
    const float *from = x + first * width;
    if (!status && input) memcpy(input, from, sizeof(float) * rows * width);
    if (!status) status = chunk_forward(run, chunk->range, input ? input : (float *)from, source_of(run, chunk->range), saved);
    if (!status) {
        int64_t rows_out = rows_into(run, chunk->range, stack->count);
        float *to = out + first_row_into(run, chunk->range, stack->count) * width;
        if (stack->norm.weight)
            layer_norm_forward(&stack->norm, saved[stack->count].x, rows_out, width, to);
        else
            memcpy(to, saved[stack->count].x, sizeof(float) * rows_out * width);
    }
    free(saved), free(own), free(input);
    return status;
}

int stack_forward(const StackRun *run, const float *x, float *saved, float *out) {
    int status = SUCCESS;
    int64_t count = 0, floats;
    Chunk *chunks = chunks_of(run, &count, &floats, &status);
    float *packed = status ? NULL : pack_for_call(run->stack, 0, &status);
    if (!status && count == 1) { /* not a parallel region of one thread: libgomp would create new threads inside it */
        status = forward_range(run, &chunks[0], x, saved, out);
    } else {
#pragma omp parallel for schedule(dynamic)
        for (int64_t c = 0; c < count; c++)
            if (!shared_status(&status)) report_status(&status, forward_range(run, &chunks[c], x, saved, out));
    }
    unpack(run->stack, packed);
    free(chunks);
    return status;
}

static int backward_range(const StackRun *run, const Chunk *chunk, const float *x, const float *memory, const float *grad_out,
                          float *grad_x, float *grad_source, float *gradient) {
    const Stack *stack = run->stack;
    int64_t width = stack->d_model, rows = range_rows(run->offsets, chunk->range), first = run->offsets[chunk->range.first];
    int64_t floats = chunk_backward_floats(run, chunk->range);
    int status = SUCCESS;
    Arena arena = counting_arena();
    SavedSublayer *saved = allocate(stack->count + 1, sizeof(SavedSublayer), &status);
    float *scratch = allocate(floats, sizeof(float), &status), *input = NULL;
    if (!status) status = save_chunk(run, chunk->range, &arena, saved);
    if (!status) {
        arena = arena_of((float *)memory + chunk->saved, arena.used);
        status = save_chunk(run, chunk->range, &arena, saved);
        saved[0].x = x + first * width;
    }
    if (!status && stack->dropout) { /* recompute the input of the first sublayer */
        input = allocate(rows * width, sizeof(float), &status);
        if (input) dropout_add(NULL, x + first * width, input, first, rows, width, stack->dropout, stack->seed);
        saved[0].x = input;
    }
    if (!status) {
        int64_t at = run->source ? run->source_offsets[chunk->range.first] * width : 0;
        if (grad_source) memset(grad_source + at, 0, sizeof(float) * range_rows(run->source_offsets, chunk->range) * width);
        status = chunk_backward(run, chunk->range, source_of(run, chunk->range), saved,
                                grad_out + first_row_into(run, chunk->range, stack->count) * width, grad_x + first * width,
                                grad_source ? grad_source + at : NULL, gradient, arena_of(scratch, floats));
    }
    free(saved), free(scratch), free(input);
    return status;
}

typedef struct {
    const StackRun *run;
    const Chunk *chunks;
    int64_t count;
    const float *x, *saved, *grad_out;
    float *grad_x, *grad_source;
} Backward;

static void backward_share(const Backward *all, int32_t share, float *gradient, int *status) {
    memset(gradient, 0, sizeof(float) * all->run->parameters);
    for (int64_t c = 0; c < all->count; c++)
        if (all->chunks[c].share == share && !shared_status(status))
            report_status(status, backward_range(all->run, &all->chunks[c], all->x, all->saved, all->grad_out, all->grad_x,
                                                 all->grad_source, gradient));
}

int stack_backward(const StackRun *run, const float *x, const float *saved, const float *grad_out, float *grad_x,
                   float *grad_source, float *gradient) {
    int status = SUCCESS;
    int64_t count = 0, floats, parameters = run->parameters;
    Chunk *chunks = chunks_of(run, &count, &floats, &status);
    float *others = allocate(checked_mul(run->shares - 1, parameters), sizeof(float), &status);
    float *packed = status ? NULL : pack_for_call(run->stack, 1, &status);
    Backward all = {run, chunks, count, x, saved, grad_out, grad_x, grad_source};
    if (!status) {
        if (run->shares == 1) {
            backward_share(&all, 0, gradient, &status);
        } else {
#pragma omp parallel for schedule(dynamic)
            for (int32_t share = 0; share < run->shares; share++)
                backward_share(&all, share, share ? others + (share - 1) * parameters : gradient, &status);
        }
        if (!status) add_gradients(gradient, others, run->shares - 1, parameters);
    }
    unpack(run->stack, packed);
    free(chunks), free(others);
    return status;
}
