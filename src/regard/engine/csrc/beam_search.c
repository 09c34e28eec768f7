/* Beam search from source ids to hypotheses, with the same arithmetic as decoding/beam_search.py. */
#include "engine.h"

/* ---- The encoder, and the keys and values of cross-attention. ---- */

static int encode_range(const Decoder *e, const Decoder *d, const StackRun *run, const int64_t *ids, Range range,
                        float *memory) {
    int64_t width = e->stack.d_model, first = run->offsets[range.first], rows = run->offsets[range.end] - first;
    int64_t source_rows = run->offsets[run->sequences];
    int status = SUCCESS;
    Arena arena = counting_arena();
    SavedSublayer *saved = allocate(e->stack.count + 1, sizeof(SavedSublayer), &status);
    if (!status) status = save_chunk(run, range, &arena, saved);
    float *x = allocate(checked_mul(2, checked_mul(rows, width)), sizeof(float), &status);
    float *scratch = allocate(arena.used, sizeof(float), &status);
    if (!status) {
        arena = arena_of(scratch, arena.used);
        status = save_chunk(run, range, &arena, saved);
    }
    if (!status) {
        embed(&e->embedding, ids, run->offsets, range.first, range.end, width, x);
        status = chunk_forward(run, range, x, NULL, saved);
    }
    if (!status) {
        const float *encoded = saved[e->stack.count].x;
        if (e->stack.norm.weight) {
            layer_norm_forward(&e->stack.norm, encoded, rows, width, x + rows * width);
            encoded = x + rows * width;
        }
        for (int64_t n = 0, layer = 0; n < d->stack.count; n++)
            if (d->stack.sublayers[n].kind == CROSS_ATTENTION)
                project(&d->stack.sublayers[n], width, SOURCE_LINEARS, encoded, rows, 0,
                        memory + (layer++ * source_rows + first) * 2 * width);
    }
    free(saved), free(x), free(scratch);
    return status;
}

static void encode_share(const Decoder *e, const Decoder *d, const StackRun *run, const int64_t *ids, int64_t share,
                         int64_t shares, float *memory, int *status) {
    int64_t first = share_begin(run->offsets, NULL, run->sequences, share, shares);
    int64_t end = share_begin(run->offsets, NULL, run->sequences, share + 1, shares);
    while (first < end && !shared_status(status)) {
        Range range = next_chunk(run->offsets, NULL, first, end);
        report_status(status, encode_range(e, d, run, ids, range, memory));
        first = range.end;
    }
}

/* memory (layers, source rows, 2 d_model). */
static int encode(const Decoder *e, const Decoder *d, const int64_t *ids, const int32_t *offsets, int sequences, float *memory) {
    StackRun run = {.stack = &e->stack, .offsets = offsets, .sequences = sequences};
    int64_t shares = inference_shares(offsets[sequences]);
    int status = SUCCESS;
    if (shares == 1) { /* not a parallel region of one thread: libgomp would create new threads in each one inside it */
        encode_share(e, d, &run, ids, 0, 1, memory, &status);
        return status;
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t share = 0; share < shares; share++) encode_share(e, d, &run, ids, share, shares, memory, &status);
    return status;
}

static int64_t layers_of(const Decoder *d) {
    int64_t layers = 0;
    for (int64_t n = 0; n < d->stack.count; n++) layers += d->stack.sublayers[n].kind == SELF_ATTENTION;
    return layers;
}

static void add_rows(float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* ---- Finished hypotheses. ---- */

typedef struct {
    double score, total;
    int length; /* of ids */
    int32_t *ids;
} Finished;

/* The finished hypotheses of a sequence, best first. */
typedef struct {
    Finished *best;
    int count, capacity, longest;
} Ranking;

static int ranks_before(const Finished *a, const Finished *b) {
    if (a->score != b->score) return a->score > b->score;
    for (int i = 0; i < a->length && i < b->length; i++)
        if (a->ids[i] != b->ids[i]) return a->ids[i] < b->ids[i];
    return a->length < b->length;
}

static void insert_ranked(Ranking *ranking, double score, double total, const int32_t *written, int steps, int64_t last,
                    int end) {
    Finished *spare = &ranking->best[ranking->capacity], kept;
    spare->score = score, spare->total = total, spare->length = steps + (last != end);
    memcpy(spare->ids, written, sizeof(int32_t) * steps);
    if (last != end) spare->ids[steps] = (int32_t)last;
    int at = ranking->count < ranking->capacity ? ranking->count++ : ranking->capacity;
    if (at < ranking->capacity) kept = ranking->best[at], ranking->best[at] = *spare, *spare = kept;
    for (; at > 0 && ranks_before(&ranking->best[at], &ranking->best[at - 1]); at--)
        kept = ranking->best[at], ranking->best[at] = ranking->best[at - 1], ranking->best[at - 1] = kept;
}

/* ---- Candidates. ---- */

#define LOGIT_ROWS 36 /* rows whose logits stay in the cache: a multiple of what a tile of gemm.c takes */

/* Logits of hidden states x (rows, d_model), with the neighbours of the datastore if there is one. */
static int compute_logits(const Decoder *d, const Datastore *m, const float *x, int rows, float *logits) {
    output_logits(d, x, rows, logits);
    return m->count ? mix_neighbours(m, x, rows, d->stack.d_model, logits, d->vocabulary) : SUCCESS;
}

/* The `count` best tokens of each row and log sum exp, from the hidden states x[m] of each model; logits has room for
 * LOGIT_ROWS rows, twice where there are several models. */
static int best_tokens(const Decoder *d, const Datastore *datastores, float *const *x, int models, const SearchConfig *config,
                      int rows, int step, int count, float *logits, float *best, int64_t *tokens, float *log_sum_exp) {
    int64_t vocabulary = d->vocabulary;
    for (int first = 0, count_now; first < rows; first += count_now) {
        count_now = rows - first < LOGIT_ROWS ? rows - first : LOGIT_ROWS;
        int status = compute_logits(d, datastores, x[0] + (int64_t)first * d->stack.d_model, count_now, logits);
        for (int m = 1; m < models && !status; m++) {
            float *other_logits = logits + count_now * vocabulary;
            status = compute_logits(&d[m], &datastores[m], x[m] + (int64_t)first * d[m].stack.d_model, count_now, other_logits);
            add_rows(logits, other_logits, count_now * vocabulary);
        }
        if (status) return status;
        for (int64_t i = 0; models > 1 && i < count_now * vocabulary; i++) logits[i] /= models;
        for (float *row = logits; row < logits + count_now * vocabulary; row += vocabulary) {
            for (int i = 0; i < config->forbidden_count; i++) row[config->forbidden[i]] = -INFINITY;
            if (step == 0) row[config->end] = -INFINITY; /* an empty translation is never the best */
        }
        top_of_rows(logits, count_now, vocabulary, count, best + (int64_t)first * count, tokens + (int64_t)first * count,
                     log_sum_exp + first);
    }
    return SUCCESS;
}

/* ---- The search. ---- */

/* Steps in a piece of the KV cache: most translations need one or two pieces, and the allocator reuses blocks of this size
 * without system calls. */
#define SPAN 16

/* State of a search. Rows are hypotheses; each active sequence has `width` consecutive rows. Pointers are NULL until they are
 * allocated, so that it can be freed at any time. */
typedef struct {
    const SearchConfig *config;
    int sequences, models, pieces, steps; /* steps: maximum over the sequences */
    int per_row, candidates;              /* candidate tokens of each row; candidates of each sequence */
    int64_t capacity;                     /* maximum number of rows */
    int step, rows, width, active_count;  /* current */
    int *limit, *active;                  /* (sequences): maximum steps of each; indices of those that are not finished */
    Ranking *rankings;                    /* (sequences) */
    float **memory, **scratch;            /* (models) */
    float **cache;                        /* (models, pieces) */
    float *logits;                        /* (LOGIT_ROWS, vocabulary), twice where there are several models */
    float *best, *log_sum_exp;            /* (capacity, per_row), (capacity) */
    int64_t *tokens, *ids;                /* (capacity, per_row), (capacity) */
    float *log_probability, *next_probability; /* (capacity) */
    int32_t *tables;                      /* memory of those that follow */
    int32_t *parents, *other_parents, *written, *other_written; /* (capacity, steps) */
    int32_t *sequence, *other_sequence;   /* (capacity) */
    float *total;                         /* (candidates) of one sequence, best first: their log probabilities, */
    int *from;                            /* the rows they continue, */
    int64_t *token;                       /* and their tokens */
} Search;

static void free_search(Search *s) {
    for (int i = 0; s->rankings && i < s->sequences; i++) free(s->rankings[i].best);
    for (int m = 0; m < s->models; m++) {
        if (s->memory) free(s->memory[m]);
        if (s->scratch) free(s->scratch[m]);
        for (int piece = 0; s->cache && piece < s->pieces; piece++) free(s->cache[(int64_t)m * s->pieces + piece]);
    }
    free(s->memory), free(s->scratch), free(s->cache), free(s->limit), free(s->active), free(s->rankings);
    free(s->logits), free(s->best), free(s->log_sum_exp), free(s->tokens), free(s->ids);
    free(s->log_probability), free(s->next_probability), free(s->tables);
    free(s->total), free(s->from), free(s->token);
}

/* Memory for the finished translations of each sequence, and their maximum lengths. */
static int allocate_rankings(Search *s, const int32_t *offsets) {
    int status = SUCCESS, ranked = s->config->beam > s->config->nbest ? s->config->beam : s->config->nbest;
    s->limit = allocate(s->sequences, sizeof(int), &status);
    s->active = allocate(s->sequences, sizeof(int), &status);
    s->rankings = allocate_zeros(s->sequences, sizeof(Ranking), &status);
    for (int i = 0; i < s->sequences && !status; i++) {
        int64_t most = 3 * ((int64_t)offsets[i + 1] - offsets[i]) + 20;
        s->limit[i] = most < s->config->max_length ? most : s->config->max_length;
        s->steps = s->limit[i] > s->steps ? s->limit[i] : s->steps;
        s->active[i] = i;
    }
    int64_t places = (int64_t)ranked + 1, a_place = checked_add(sizeof(Finished), checked_mul(sizeof(int32_t), s->steps));
    for (int i = 0; i < s->sequences && !status; i++) {
        Finished *best = allocate(places, a_place, &status);
        if (status) break;
        int32_t *text = (int32_t *)(best + places);
        for (int64_t j = 0; j < places; j++) best[j].ids = text + j * s->steps;
        s->rankings[i] = (Ranking){best, 0, ranked, s->steps};
    }
    return status;
}

/* Allocate everything but the pieces of the cache, which are allocated when they are needed. */
static int allocate_search(Search *s, const Decoder *d, const int32_t *offsets) {
    const SearchConfig *config = s->config;
    s->capacity = checked_mul(s->sequences, config->beam);
    if (s->sequences < 0 || s->models < 1 || config->beam < 1 || config->nbest < 0 || config->max_length < 1 ||
        config->forbidden_count < 0 || config->forbidden_count > MAX_FORBIDDEN || d->vocabulary < 1 || s->capacity > INT32_MAX)
        return SIZES_OVERFLOW;
    s->per_row = config->beam < d->vocabulary - config->beam ? 2 * config->beam : d->vocabulary;
    if (config->beam > INT32_MAX / 2) return SIZES_OVERFLOW;
    s->candidates = 2 * config->beam;
    int status = allocate_rankings(s, offsets);
    s->pieces = (int)(((int64_t)s->steps + SPAN - 1) / SPAN);
    s->memory = allocate_zeros(s->models, sizeof(float *), &status);
    s->scratch = allocate_zeros(s->models, sizeof(float *), &status);
    s->cache = allocate_zeros(checked_mul(s->models, s->pieces), sizeof(float *), &status);
    for (int m = 0; m < s->models && !status; m++) {
        int64_t a_token = checked_mul(layers_of(&d[m]), checked_mul(2, d[m].stack.d_model));
        s->memory[m] = allocate(checked_mul(a_token, offsets[s->sequences]), sizeof(float), &status);
        s->scratch[m] = allocate(decoder_step_floats(&d[m], s->capacity), sizeof(float), &status);
    }
    int64_t all = checked_mul(s->capacity, s->per_row), cells = checked_mul(s->capacity, s->steps);
    s->logits = allocate(checked_mul(LOGIT_ROWS * (s->models > 1 ? 2 : 1), d->vocabulary), sizeof(float), &status);
    s->best = allocate(all, sizeof(float), &status);
    s->log_sum_exp = allocate(s->capacity, sizeof(float), &status);
    s->tokens = allocate(all, sizeof(int64_t), &status);
    s->ids = allocate(s->capacity, sizeof(int64_t), &status);
    s->log_probability = allocate(s->capacity, sizeof(float), &status);
    s->next_probability = allocate(s->capacity, sizeof(float), &status);
    s->tables = allocate(checked_add(checked_mul(4, cells), checked_mul(2, s->capacity)), sizeof(int32_t), &status);
    s->total = allocate(s->candidates, sizeof(float), &status);
    s->from = allocate(s->candidates, sizeof(int), &status);
    s->token = allocate(s->candidates, sizeof(int64_t), &status);
    if (status) return status;
    s->parents = s->tables, s->other_parents = s->parents + cells;
    s->written = s->other_parents + cells, s->other_written = s->written + cells;
    s->sequence = s->other_written + cells, s->other_sequence = s->sequence + s->capacity;
    s->width = 1, s->rows = s->active_count = s->sequences;
    for (int i = 0; i < s->sequences; i++) s->ids[i] = config->begin, s->sequence[i] = i, s->log_probability[i] = 0;
    return SUCCESS;
}

/* One decoding step of all rows: the best candidates of each. */
static int step_search(Search *s, const Decoder *d, const Datastore *datastores, const int32_t *offsets) {
    int status = SUCCESS;
    for (int m = 0; m < s->models; m++) {
        float **cache = s->cache + (int64_t)m * s->pieces;
        if (s->step % SPAN == 0) {
            int64_t a_row = checked_mul(2 * SPAN, checked_mul(layers_of(&d[m]), d[m].stack.d_model));
            cache[s->step / SPAN] = allocate(checked_mul(a_row, s->capacity), sizeof(float), &status);
        }
        DecoderStep state = {.rows = s->rows, .step = s->step, .steps = s->steps, .capacity = (int)s->capacity, .span = SPAN,
                             .ids = s->ids, .parents = s->parents, .sequence = s->sequence, .offsets = offsets,
                             .memory = s->memory[m], .source_rows = offsets[s->sequences], .cache = cache};
        if (!status) status = decoder_step(&d[m], &state, s->scratch[m]);
        if (status) return status;
    }
    return best_tokens(d, datastores, s->scratch, s->models, s->config, s->rows, s->step, s->per_row, s->logits, s->best,
                      s->tokens, s->log_sum_exp);
}

/* The best candidates of all rows of a sequence, from row `first` on; returns how many. */
static int choose_candidates(Search *s, int first) {
    int count = s->candidates, found = 0;
    float *total = s->total;
    int *from = s->from;
    int64_t *token = s->token;
    for (int r = first; r < first + s->width; r++)
        for (int i = 0; i < s->per_row; i++) {
            float score = s->best[(int64_t)r * s->per_row + i] - s->log_sum_exp[r] + s->log_probability[r];
            if (found == count && !(score > total[count - 1])) break; /* the candidates of a row are sorted */
            int at = found < count ? found++ : count - 1;
            for (; at > 0 && total[at - 1] < score; at--)
                total[at] = total[at - 1], from[at] = from[at - 1], token[at] = token[at - 1];
            total[at] = score, from[at] = r, token[at] = s->tokens[(int64_t)r * s->per_row + i];
        }
    return found;
}

/* Append the candidates of a sequence that have not ended to the rows of the next step; returns the number of those rows. */
static int continue_rows(Search *s, int sequence, int found, int next_rows) {
    int64_t steps = s->steps;
    int chosen = 0, step = s->step, most = s->config->beam < found ? s->config->beam : found;
    for (int i = 0; i < found && chosen < most; i++) {
        if (s->token[i] == s->config->end) continue;
        int r = next_rows++;
        chosen++;
        memcpy(s->other_parents + r * steps, s->parents + s->from[i] * steps, sizeof(int32_t) * step);
        memcpy(s->other_written + r * steps, s->written + s->from[i] * steps, sizeof(int32_t) * step);
        s->other_parents[r * steps + step] = s->from[i];
        s->other_written[r * steps + step] = (int32_t)s->token[i];
        s->other_sequence[r] = sequence;
        s->next_probability[r] = s->total[i];
        s->ids[r] = s->token[i];
    }
    for (; chosen < most; chosen++) { /* fewer than the beam size: fill up with rows of probability 0 */
        int r = next_rows++;
        memcpy(s->other_parents + r * steps, s->other_parents + (r - 1) * steps, sizeof(int32_t) * (step + 1));
        memcpy(s->other_written + r * steps, s->other_written + (r - 1) * steps, sizeof(int32_t) * (step + 1));
        s->other_sequence[r] = sequence, s->next_probability[r] = -INFINITY, s->ids[r] = s->ids[r - 1];
    }
    return next_rows;
}

/* Rank the candidates that have ended; returns whether the sequence continues. */
static int finish_hypotheses(Search *s, int sequence, int found) {
    const SearchConfig *config = s->config;
    Ranking *ranking = &s->rankings[sequence];
    double length = pow((double)(s->step + 1), config->length_penalty);
    int full = s->step + 1 >= s->limit[sequence];
    for (int i = 0; i < found && i < config->beam; i++)
        if (s->token[i] == config->end && s->total[i] > -INFINITY)
            insert_ranked(ranking, s->total[i] / length, s->total[i], s->written + (int64_t)s->from[i] * s->steps, s->step,
                    s->token[i], config->end);
    if (full) { /* candidates that have not ended are cut off, and used only if none has ended */
        int none = ranking->count == 0;
        for (int i = 0; none && i < found && i < config->beam; i++)
            if (s->total[i] > -INFINITY)
                insert_ranked(ranking, s->total[i] / length, s->total[i], s->written + (int64_t)s->from[i] * s->steps, s->step,
                        s->token[i], config->end);
        return 0;
    }
    double open = -INFINITY;
    for (int i = 0; i < found && open == -INFINITY; i++)
        if (s->token[i] != config->end) open = s->total[i];
    if (open == -INFINITY) return 0;
    return !(ranking->count >= config->beam && open / length <= ranking->best[config->beam - 1].score);
}

/* Prepare the rows of the next step. */
static void advance(Search *s) {
    int next_rows = 0, next_active = 0, next_width = 0;
    for (int a = 0; a < s->active_count; a++) {
        int sequence = s->active[a], found = choose_candidates(s, a * s->width);
        if (!finish_hypotheses(s, sequence, found)) continue;
        next_rows = continue_rows(s, sequence, found, next_rows);
        next_width = s->config->beam < found ? s->config->beam : found;
        s->active[next_active++] = sequence;
    }
    int32_t *swap = s->parents;
    s->parents = s->other_parents, s->other_parents = swap;
    swap = s->written, s->written = s->other_written, s->other_written = swap;
    swap = s->sequence, s->sequence = s->other_sequence, s->other_sequence = swap;
    memcpy(s->log_probability, s->next_probability, sizeof(float) * next_rows);
    s->rows = next_rows, s->active_count = next_active, s->width = next_width;
}

int beam_search(const Decoder *encoders, const Decoder *decoders, const Datastore *datastores, int models,
                const SearchConfig *config, const int64_t *source, const int32_t *offsets, int sequences, int32_t *ids,
                int32_t *lengths, double *scores, double *log_probabilities) {
    Search s = {.config = config, .sequences = sequences, .models = models};
    int status = allocate_search(&s, decoders, offsets);
    for (int m = 0; m < models && !status; m++)
        status = encode(&encoders[m], &decoders[m], source, offsets, sequences, s.memory[m]);
    for (; s.active_count && !status; s.step++) {
        status = step_search(&s, decoders, datastores, offsets);
        if (!status) advance(&s);
    }
    for (int i = 0; i < sequences && !status; i++)
        for (int j = 0; j < config->nbest; j++) {
            int64_t at = (int64_t)i * config->nbest + j;
            const Finished *found = &s.rankings[i].best[j];
            lengths[at] = j < s.rankings[i].count ? found->length : -1;
            if (lengths[at] < 0) continue;
            memcpy(ids + at * config->max_length, found->ids, sizeof(int32_t) * found->length);
            scores[at] = found->score, log_probabilities[at] = found->total;
        }
    free_search(&s);
    return status;
}
