/* The token loss of a batch and its gradient: forward and backward pass of a chunk of sequences, from the embeddings to the
 * loss, before the next chunk, so that activations stay in the cache. */
#include "engine.h"

/* What all chunks share. */
typedef struct {
    const TokenLoss *task;
    StackRun encoder, decoder;
    const float *output, *output_t; /* packed */
    int backward;
} Step;

/* A pass of a chunk. */
typedef struct {
    Range range;
    SavedSublayer *encoder, *decoder;
    float *source, *encoded, *target, *hidden;
} Pass;

static int has_encoder(const TokenLoss *t) { return t->encoder.count > 0; }
static int64_t rows_of(const int32_t *offsets, Range range) {
    return offsets ? (int64_t)offsets[range.end] - offsets[range.first] : 0;
}
static int64_t source_rows(const TokenLoss *t, Range range) { return has_encoder(t) ? rows_of(t->source_offsets, range) : 0; }

/* Allocate the activations of a pass in the arena. */
static int allocate_pass(const Step *step, Pass *pass, Arena *arena) {
    const TokenLoss *t = step->task;
    int64_t width = t->decoder.d_model, rows = rows_of(t->target_offsets, pass->range), sources = source_rows(t, pass->range);
    int status = SUCCESS;
    pass->source = take(arena, checked_mul(sources, width)), pass->encoded = take(arena, checked_mul(sources, width));
    pass->target = take(arena, checked_mul(rows, width)), pass->hidden = take(arena, checked_mul(rows, width));
    if (has_encoder(t)) status = save_chunk(&step->encoder, pass->range, arena, pass->encoder);
    if (!status) status = save_chunk(&step->decoder, pass->range, arena, pass->decoder);
    return arena->exhausted ? ARENA_EXHAUSTED : status;
}

static void final_norm(const Stack *stack, const float *x, int64_t rows, float *out) {
    if (stack->norm.weight)
        layer_norm_forward(&stack->norm, x, rows, stack->d_model, out);
    else
        memcpy(out, x, sizeof(float) * rows * stack->d_model);
}

static int pass_forward(const Step *step, Pass *pass) {
    const TokenLoss *t = step->task;
    int64_t width = t->decoder.d_model;
    Range range = pass->range;
    if (has_encoder(t)) {
        embed(&t->source_embedding, t->source_ids, t->source_offsets, range.first, range.end, width, pass->source);
        int status = chunk_forward(&step->encoder, range, pass->source, NULL, pass->encoder);
        if (status) return status;
        final_norm(&t->encoder, pass->encoder[t->encoder.count].x, rows_of(t->source_offsets, range), pass->encoded);
    }
    embed(&t->target_embedding, t->target_ids, t->target_offsets, range.first, range.end, width, pass->target);
    int status = chunk_forward(&step->decoder, range, pass->target, pass->encoded, pass->decoder);
    if (!status) final_norm(&t->decoder, pass->decoder[t->decoder.count].x, rows_of(t->target_offsets, range), pass->hidden);
    return status;
}

/* The gradient of embedded rows (rows, d_model) is added to those of tokens and positions. */
static void embed_backward(const Embedding *e, const int64_t *ids, const int32_t *offsets, Range range, int64_t width,
                           const float *grad, float *gradient) {
    for (int64_t s = range.first; s < range.end; s++)
        for (int64_t row = offsets[s]; row < offsets[s + 1]; row++, grad += width) {
            if (e->table_grad >= 0) {
                float *token = gradient + e->table_grad + ids[row] * width;
                for (int64_t i = 0; i < width; i++) token[i] += grad[i] * e->scale;
            }
            if (e->positions_grad >= 0) {
                float *position = gradient + e->positions_grad + (row - offsets[s]) * width;
                for (int64_t i = 0; i < width; i++) position[i] += grad[i];
            }
        }
}

/* `hidden`, the gradient of the hidden states, is overwritten. */
static int pass_backward(const Step *step, const Pass *pass, float *gradient, Arena scratch) {
    const TokenLoss *t = step->task;
    int64_t width = t->decoder.d_model, sources = source_rows(t, pass->range);
    float *grad_source = has_encoder(t) ? take(&scratch, sources * width) : NULL;
    if (scratch.exhausted) return ARENA_EXHAUSTED;
    if (grad_source) memset(grad_source, 0, sizeof(float) * sources * width);
    int status = chunk_backward(&step->decoder, pass->range, pass->encoded, pass->decoder, pass->hidden, pass->hidden,
                                grad_source, gradient, scratch);
    if (status) return status;
    embed_backward(&t->target_embedding, t->target_ids, t->target_offsets, pass->range, width, pass->hidden, gradient);
    if (!has_encoder(t)) return SUCCESS;
    status = chunk_backward(&step->encoder, pass->range, NULL, pass->encoder, grad_source, grad_source, NULL, gradient, scratch);
    if (status) return status;
    embed_backward(&t->source_embedding, t->source_ids, t->source_offsets, pass->range, width, grad_source, gradient);
    return SUCCESS;
}

/* Add the loss of a chunk in all passes to `total`; hidden states are overwritten by their gradients. */
static int output_loss(const Step *step, Pass *passes, float *gradient, Arena scratch, double *total) {
    const TokenLoss *t = step->task;
    const int64_t *labels = t->labels + t->target_offsets[passes[0].range.first];
    int64_t rows = rows_of(t->target_offsets, passes[0].range), width = t->decoder.d_model;
    float *logits[MAX_PASSES] = {NULL}, *grad_bias = step->backward && t->output.bias_grad >= 0 ? gradient + t->output.bias_grad : NULL;
    double *losses = (double *)take(&scratch, 2 * rows), sum = 0;
    int status;
    for (int64_t p = 0; p < t->passes; p++) {
        logits[p] = take(&scratch, rows * t->vocabulary);
        if (scratch.exhausted) return ARENA_EXHAUSTED;
        gemm(passes[p].hidden, rows, step->output, NULL, width, t->vocabulary, t->vocabulary, 0, logits[p]);
    }
    if (t->passes == 1)
        status = smoothed_cross_entropy(logits[0], t->output.bias, labels, rows, t->vocabulary, t->padding, t->confidence,
                                        t->off_value, step->backward, losses, grad_bias);
    else
        status = r_drop_cross_entropy(logits[0], logits[1], t->output.bias, labels, rows, t->vocabulary, t->padding,
                                      t->confidence, t->off_value, t->r_drop, step->backward, losses, grad_bias);
    for (int64_t p = 0; p < t->passes && step->backward && !status; p++) {
        if (t->output.weight_grad >= 0)
            status = gemm_weight_grad(logits[p], t->vocabulary, t->vocabulary, passes[p].hidden, width, rows, GEMM_ACCUMULATE,
                                      gradient + t->output.weight_grad);
        gemm(logits[p], rows, step->output_t, NULL, t->vocabulary, width, width, 0, passes[p].hidden);
    }
    for (int64_t r = 0; r < rows && !status; r++) sum += losses[r];
    *total += sum;
    return status;
}

/* Floats of scratch of a chunk, in addition to what its passes save. */
static int64_t scratch_floats(const Step *step, Range range) {
    const TokenLoss *t = step->task;
    int64_t rows = rows_of(t->target_offsets, range), sources = source_rows(t, range);
    Arena loss = counting_arena(), source = counting_arena();
    take(&loss, checked_mul(2, rows));
    for (int64_t p = 0; p < t->passes; p++) take(&loss, checked_mul(rows, t->vocabulary));
    if (loss.exhausted) return INT64_MAX;
    if (!step->backward) return loss.used;
    take(&source, checked_mul(sources, t->decoder.d_model));
    int64_t backward = chunk_backward_floats(&step->decoder, range);
    if (has_encoder(t)) backward = max64(backward, chunk_backward_floats(&step->encoder, range));
    return max64(loss.used, checked_add(source.exhausted ? INT64_MAX : source.used, backward));
}

/* Allocate the activations of all passes of a chunk in the arena. */
static int allocate_chunk(const Step *step, Range range, Pass *passes, Arena *arena) {
    int status = SUCCESS;
    for (int64_t p = 0; p < step->task->passes && !status; p++) {
        passes[p].range = (Range){range.first + p * step->task->sequences, range.end + p * step->task->sequences};
        status = allocate_pass(step, &passes[p], arena);
    }
    return status;
}

static int step_chunk(const Step *step, Pass *passes, Range range, Arena arena, float *gradient, double *total) {
    int64_t count = step->task->passes;
    int status = allocate_chunk(step, range, passes, &arena);
    for (int64_t p = 0; p < count && !status; p++) status = pass_forward(step, &passes[p]);
    if (!status) status = output_loss(step, passes, gradient, arena, total);
    for (int64_t p = 0; p < count && step->backward && !status; p++)
        status = pass_backward(step, &passes[p], gradient, arena);
    return status;
}

/* Compute all chunks of a share. */
static int step_share(const Step *step, int64_t share, int64_t shares, float *gradient, double *total) {
    const TokenLoss *t = step->task;
    const int32_t *a = t->target_offsets, *b = has_encoder(t) ? t->source_offsets : NULL;
    int64_t first = share_begin(a, b, t->sequences, share, shares), end = share_begin(a, b, t->sequences, share + 1, shares);
    int64_t sublayers = t->encoder.count + t->decoder.count + 2, floats = 0;
    int status = SUCCESS;
    Pass passes[MAX_PASSES];
    SavedSublayer *saved = allocate(checked_mul(sublayers, t->passes), sizeof(SavedSublayer), &status);
    if (status) return status;
    for (int64_t p = 0; p < t->passes; p++) {
        passes[p].encoder = saved + p * sublayers;
        passes[p].decoder = passes[p].encoder + t->encoder.count + 1;
    }
    for (int64_t s = first; s < end && !status;) {
        Range range = next_chunk(a, b, s, end);
        Arena arena = counting_arena();
        status = allocate_chunk(step, range, passes, &arena);
        floats = max64(floats, checked_add(arena.used, scratch_floats(step, range)));
        s = range.end;
    }
    float *memory = allocate(floats, sizeof(float), &status);
    for (int64_t s = first; s < end && !status;) {
        Range range = next_chunk(a, b, s, end);
        status = step_chunk(step, passes, range, arena_of(memory, floats), gradient, total);
        s = range.end;
    }
    free(saved), free(memory);
    return status;
}

static void unpack_stack(Stack *stack) {
    for (int64_t n = 0; n < stack->count; n++) memset(stack->sublayers[n].packed, 0, sizeof(stack->sublayers[n].packed));
}

int token_loss(const TokenLoss *task, double *loss, float *gradient) {
    int64_t shares = omp_get_max_threads(), parameters = task->parameters, width = task->decoder.d_model;
    int status = SUCCESS, backward = gradient != NULL;
    if (task->passes < 1 || task->passes > MAX_PASSES || task->vocabulary > INT64_MAX - PANEL) return SIZES_OVERFLOW;
    int64_t in_encoder = stack_packed_floats(&task->encoder, backward), in_decoder = stack_packed_floats(&task->decoder, backward);
    int64_t stacks = checked_add(in_encoder, in_decoder), output = gemm_packed_floats(task->vocabulary, width);
    int64_t output_t = backward ? gemm_packed_floats(width, task->vocabulary) : 0;
    float *packed = allocate(checked_add(stacks, checked_add(output, output_t)), sizeof(float), &status);
    float *others = backward ? allocate(checked_mul(shares - 1, parameters), sizeof(float), &status) : NULL;
    double *totals = allocate_zeros(shares, sizeof(double), &status);
    if (!status) status = stack_pack(&task->encoder, backward, packed);
    if (!status) status = stack_pack(&task->decoder, backward, packed + in_encoder);
    if (!status) {
        Step step = {.task = task, .output = packed + stacks, .output_t = packed + stacks + output, .backward = backward};
        StackRun run = {.sequences = task->sequences * task->passes, .saves = backward};
        step.encoder = step.decoder = run;
        step.encoder.stack = &task->encoder, step.encoder.offsets = task->source_offsets;
        step.decoder.stack = &task->decoder, step.decoder.offsets = task->target_offsets;
        step.decoder.source_offsets = has_encoder(task) ? task->source_offsets : NULL;
        gemm_pack(task->output.weight, packed + stacks, task->vocabulary, width, 0);
        if (backward) gemm_pack(task->output.weight, packed + stacks + output, width, task->vocabulary, 1);
        if (backward && shares == 1) memset(gradient, 0, sizeof(float) * parameters);
        if (shares == 1) {
            status = step_share(&step, 0, 1, gradient, &totals[0]);
        } else {
#pragma omp parallel for schedule(dynamic)
            for (int64_t share = 0; share < shares; share++) {
                float *own = share && backward ? others + (share - 1) * parameters : gradient;
                if (backward) memset(own, 0, sizeof(float) * parameters);
                if (!shared_status(&status)) report_status(&status, step_share(&step, share, shares, own, &totals[share]));
            }
        }
        if (backward && !status) add_gradients(gradient, others, shares - 1, parameters);
        *loss = 0;
        for (int64_t share = shares - 1; share >= 0; share--) *loss += totals[share];
    }
    unpack_stack((Stack *)&task->encoder), unpack_stack((Stack *)&task->decoder);
    free(packed), free(others), free(totals);
    return status;
}
