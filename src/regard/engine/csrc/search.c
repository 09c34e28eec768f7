/* ---- The whole way from source ids to translations: what `search` does, with the same arithmetic. ---- */

/* Floats that so many tokens take on their way through a stack: six vectors, the wide one, and the norms. */
static int64_t stack_floats(const Stack *s, int64_t tokens) {
    int64_t a_token = checked_add(checked_mul(6, s->width), checked_add(s->inner, s->heads));
    return checked_mul(tokens, a_token);
}

/* Sentences end to end (start[sentences] tokens) -> memory (decoder layers, tokens, 2 width). */
static int encode(const Stack *e, const Stack *d, const int64_t *ids, const int32_t *start, int sentences,
                  float *memory) {
    int tokens = start[sentences], width = e->width, status = SUCCESS;
    int64_t all = (int64_t)tokens * width;
    float *x = allocate(stack_floats(e, tokens), sizeof(float), &status);
    if (status) return status;
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
        Asked asked = {q, k, v, width, width, width, start, start, sentences, e->heads, size, 0, 0, 1 / sqrtf(size), 0,
                       NULL, NULL};
        status = attend_apart(&asked, y, norms);
        if (status) {
            free(x);
            return status;
        }
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
    return SUCCESS;
}

/* The first `length` tokens of each text (rows, length) -> the cache, as so many steps would leave it. */
int read_first(const Stack *d, const int64_t *ids, int rows, int length, int room, int times, float *cache) {
    if (rows < 0 || length < 0 || checked_mul(rows, length) > INT32_MAX) return SIZES_OVERFLOW;
    int tokens = rows * length, width = d->width, size = width / d->heads, status = SUCCESS;
    int64_t all = (int64_t)tokens * width, line = (int64_t)times * width, side = line * room;
    float *x = allocate(stack_floats(d, tokens), sizeof(float), &status);
    int32_t *start = allocate((int64_t)rows + 1, sizeof(int32_t), &status);
    if (status) {
        free(x), free(start);
        return status;
    }
    float *n = x + all, *q = n + all, *k = q + all, *v = k + all, *y = v + all, *wide = y + all;
    float *norms = wide + (int64_t)tokens * d->inner;
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
        Asked asked = {q, k, v, width, width, width, start, start, rows, d->heads, size, 1, 0, 1 / sqrtf(size), 0,
                       NULL, NULL};
        status = attend_apart(&asked, y, norms);
        if (status) break;
        multiply(y, tokens, w[OUT], w[OUT_BIAS], width, width, width, 0, q);
        take_in(d, w, NORM_SELF, x, q, tokens);
        think(d, w, told(d, w, NORM_WIDE, x, tokens, n), tokens, wide, q);
        take_in(d, w, NORM_WIDE, x, q, tokens);
    }
    free(start);
    free(x);
    return status;
}

/* Floats that a step of so many rows needs besides the cache. */
static int64_t step_floats(const Stack *d, int64_t rows) {
    return checked_mul(rows, checked_add(checked_mul(4, d->width), d->inner));
}

/* One token more for each text: scores (rows, words). */
int next_token(const Stack *d, const int64_t *tokens, const int32_t *before, int rows, int step, int room, int times,
               float *cache, float *scores) {
    int status = SUCCESS;
    float *scratch = allocate(step_floats(d, rows), sizeof(float), &status);
    Written written = {rows, step, times, room, times, tokens, before, NULL, NULL, NULL, 0, &cache};
    if (!status) status = decoder_step(d, &written, scratch);
    if (!status) output(d, scratch, rows, scores);
    free(scratch);
    return status;
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

#define ROWS_AT_ONCE 36 /* whose scores stay near: a multiple of what a product takes at once */

/* What a model that ends with x (rows, width) thinks of the words, with its neighbours if it has any. */
static int scored(const Stack *d, const Remembered *m, const float *x, int rows, float *scores) {
    output(d, x, rows, scores);
    return m->count ? ask_neighbours(m, x, rows, d->width, scores, d->words) : SUCCESS;
}

/* The `count` best words of each row and log sum exp, where x[m] (rows, width) is what model m ends with; scores has
 * room for those of ROWS_AT_ONCE rows, twice where there are several models. */
static int best_words(const Stack *d, const Remembered *remembered, float *const *x, int models, const Wanted *wanted,
                      int rows, int step, int count, float *scores, float *best, int64_t *tokens, float *norms) {
    int64_t words = d->words;
    for (int first = 0, some; first < rows; first += some) {
        some = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        int status = scored(d, remembered, x[0] + (int64_t)first * d->width, some, scores);
        for (int m = 1; m < models && !status; m++) {
            float *another = scores + some * words;
            status = scored(&d[m], &remembered[m], x[m] + (int64_t)first * d[m].width, some, another);
            add_rows(scores, another, some * words);
        }
        if (status) return status;
        for (int64_t i = 0; models > 1 && i < some * words; i++) scores[i] /= models;
        for (float *row = scores; row < scores + some * words; row += words) {
            for (int i = 0; i < wanted->never_count; i++) row[wanted->never[i]] = -INFINITY;
            if (step == 0) row[wanted->end] = -INFINITY; /* an empty translation is never the best */
        }
        best_of_rows(scores, some, words, count, best + (int64_t)first * count, tokens + (int64_t)first * count,
                     norms + first);
    }
    return SUCCESS;
}

/* Steps in a piece of the cache: most translations need one or two of them, and what is taken in such sizes is given
 * back without going to the system, which would hand out every page anew. */
#define SPAN 16

/* A search: rows are hypotheses, of which each sentence that goes on has `width` in a row. Pointers are NULL until they are
 * allocated, so that it can be freed at any time. */
typedef struct {
    const Wanted *wanted;
    int sentences, models, pieces, steps; /* steps: the most that any sentence may take */
    int per_row, candidates;              /* words that are looked at for each row; continuations for each sentence */
    int64_t capacity;                     /* rows at the most */
    int step, rows, width, going;         /* so far */
    int *room, *active;                   /* (sentences): most steps of each; those that go on */
    Ranking *rankings;                    /* (sentences) */
    float **memory, **scratch;            /* (models) */
    float **cache;                        /* (models, pieces) */
    float *scores;                        /* (ROWS_AT_ONCE, words), twice where there are several models */
    float *best, *norms;                  /* (capacity, per_row), (capacity) */
    int64_t *tokens, *now;                /* (capacity, per_row), (capacity) */
    float *log_probability, *next_probability; /* (capacity) */
    int32_t *tables;                      /* memory of those that follow */
    int32_t *before, *other_before, *written, *other_written; /* (capacity, steps) */
    int32_t *sentence, *other_sentence;   /* (capacity) */
    float *total;                         /* (candidates) of one sentence, best first: their log probabilities, */
    int *from;                            /* the rows they continue, */
    int64_t *token;                       /* and their words */
} Search;

static void free_search(Search *s) {
    for (int i = 0; s->rankings && i < s->sentences; i++) free(s->rankings[i].best);
    for (int m = 0; m < s->models; m++) {
        if (s->memory) free(s->memory[m]);
        if (s->scratch) free(s->scratch[m]);
        for (int piece = 0; s->cache && piece < s->pieces; piece++) free(s->cache[(int64_t)m * s->pieces + piece]);
    }
    free(s->memory), free(s->scratch), free(s->cache), free(s->room), free(s->active), free(s->rankings);
    free(s->scores), free(s->best), free(s->norms), free(s->tokens), free(s->now);
    free(s->log_probability), free(s->next_probability), free(s->tables);
    free(s->total), free(s->from), free(s->token);
}

/* Room for the finished translations of each sentence, and how long they may become. */
static int allocate_rankings(Search *s, const int32_t *start) {
    int status = SUCCESS, ranked = s->wanted->beam > s->wanted->nbest ? s->wanted->beam : s->wanted->nbest;
    s->room = allocate(s->sentences, sizeof(int), &status);
    s->active = allocate(s->sentences, sizeof(int), &status);
    s->rankings = allocate_zeros(s->sentences, sizeof(Ranking), &status);
    for (int i = 0; i < s->sentences && !status; i++) {
        int64_t most = 3 * ((int64_t)start[i + 1] - start[i]) + 20;
        s->room[i] = most < s->wanted->longest ? most : s->wanted->longest;
        s->steps = s->room[i] > s->steps ? s->room[i] : s->steps;
        s->active[i] = i;
    }
    int64_t places = (int64_t)ranked + 1, a_place = checked_add(sizeof(Finished), checked_mul(sizeof(int32_t), s->steps));
    for (int i = 0; i < s->sentences && !status; i++) {
        Finished *best = allocate(places, a_place, &status);
        if (status) break;
        int32_t *text = (int32_t *)(best + places);
        for (int64_t j = 0; j < places; j++) best[j].ids = text + j * s->steps;
        s->rankings[i] = (Ranking){best, 0, ranked, s->steps};
    }
    return status;
}

/* Everything but the cache, whose pieces are allocated when they are reached. */
static int allocate_search(Search *s, const Stack *d, const int32_t *start) {
    const Wanted *wanted = s->wanted;
    s->capacity = checked_mul(s->sentences, wanted->beam);
    if (s->sentences < 0 || s->models < 1 || wanted->beam < 1 || wanted->nbest < 0 || wanted->longest < 1 ||
        wanted->never_count < 0 || wanted->never_count > 8 || d->words < 1 || s->capacity > INT32_MAX)
        return SIZES_OVERFLOW;
    s->per_row = wanted->beam < d->words - wanted->beam ? 2 * wanted->beam : d->words;
    if (wanted->beam > INT32_MAX / 2) return SIZES_OVERFLOW;
    s->candidates = 2 * wanted->beam;
    int status = allocate_rankings(s, start);
    s->pieces = (int)(((int64_t)s->steps + SPAN - 1) / SPAN);
    s->memory = allocate_zeros(s->models, sizeof(float *), &status);
    s->scratch = allocate_zeros(s->models, sizeof(float *), &status);
    s->cache = allocate_zeros(checked_mul(s->models, s->pieces), sizeof(float *), &status);
    for (int m = 0; m < s->models && !status; m++) {
        int64_t a_token = checked_mul(d[m].layers, checked_mul(2, d[m].width));
        s->memory[m] = allocate(checked_mul(a_token, start[s->sentences]), sizeof(float), &status);
        s->scratch[m] = allocate(step_floats(&d[m], s->capacity), sizeof(float), &status);
    }
    int64_t all = checked_mul(s->capacity, s->per_row), cells = checked_mul(s->capacity, s->steps);
    s->scores = allocate(checked_mul(ROWS_AT_ONCE * (s->models > 1 ? 2 : 1), d->words), sizeof(float), &status);
    s->best = allocate(all, sizeof(float), &status);
    s->norms = allocate(s->capacity, sizeof(float), &status);
    s->tokens = allocate(all, sizeof(int64_t), &status);
    s->now = allocate(s->capacity, sizeof(int64_t), &status);
    s->log_probability = allocate(s->capacity, sizeof(float), &status);
    s->next_probability = allocate(s->capacity, sizeof(float), &status);
    s->tables = allocate(checked_add(checked_mul(4, cells), checked_mul(2, s->capacity)), sizeof(int32_t), &status);
    s->total = allocate(s->candidates, sizeof(float), &status);
    s->from = allocate(s->candidates, sizeof(int), &status);
    s->token = allocate(s->candidates, sizeof(int64_t), &status);
    if (status) return status;
    s->before = s->tables, s->other_before = s->before + cells;
    s->written = s->other_before + cells, s->other_written = s->written + cells;
    s->sentence = s->other_written + cells, s->other_sentence = s->sentence + s->capacity;
    s->width = 1, s->rows = s->going = s->sentences;
    for (int i = 0; i < s->sentences; i++) s->now[i] = wanted->begin, s->sentence[i] = i, s->log_probability[i] = 0;
    return SUCCESS;
}

/* One word more in all rows: the best words of each. */
static int step_search(Search *s, const Stack *d, const Remembered *remembered, const int32_t *start) {
    int status = SUCCESS;
    for (int m = 0; m < s->models; m++) {
        float **cache = s->cache + (int64_t)m * s->pieces;
        if (s->step % SPAN == 0) {
            int64_t a_row = checked_mul(2 * SPAN, checked_mul(d[m].layers, d[m].width));
            cache[s->step / SPAN] = allocate(checked_mul(a_row, s->capacity), sizeof(float), &status);
        }
        Written state = {s->rows,     s->step, s->steps,     (int)s->capacity,    SPAN, s->now, s->before,
                         s->sentence, start,   s->memory[m], start[s->sentences], cache};
        if (!status) status = decoder_step(&d[m], &state, s->scratch[m]);
        if (status) return status;
    }
    return best_words(d, remembered, s->scratch, s->models, s->wanted, s->rows, s->step, s->per_row, s->scores, s->best,
                      s->tokens, s->norms);
}

/* The best candidates of all rows of a sentence, which begin at `first`: how many. */
static int choose(Search *s, int first) {
    int many = s->candidates, found = 0;
    float *total = s->total;
    int *from = s->from;
    int64_t *token = s->token;
    for (int r = first; r < first + s->width; r++)
        for (int i = 0; i < s->per_row; i++) {
            float each = s->best[(int64_t)r * s->per_row + i] - s->norms[r] + s->log_probability[r];
            if (found == many && !(each > total[many - 1])) break; /* a row's are in order */
            int at = found < many ? found++ : many - 1;
            for (; at > 0 && total[at - 1] < each; at--)
                total[at] = total[at - 1], from[at] = from[at - 1], token[at] = token[at - 1];
            total[at] = each, from[at] = r, token[at] = s->tokens[(int64_t)r * s->per_row + i];
        }
    return found;
}

/* The rows of a sentence that go on from its candidates are appended to the next ones: how many those are then. */
static int continue_rows(Search *s, int sentence, int found, int next_rows) {
    int64_t steps = s->steps;
    int chosen = 0, step = s->step, most = s->wanted->beam < found ? s->wanted->beam : found;
    for (int i = 0; i < found && chosen < most; i++) {
        if (s->token[i] == s->wanted->end) continue;
        int r = next_rows++;
        chosen++;
        memcpy(s->other_before + r * steps, s->before + s->from[i] * steps, sizeof(int32_t) * step);
        memcpy(s->other_written + r * steps, s->written + s->from[i] * steps, sizeof(int32_t) * step);
        s->other_before[r * steps + step] = s->from[i];
        s->other_written[r * steps + step] = (int32_t)s->token[i];
        s->other_sentence[r] = sentence;
        s->next_probability[r] = s->total[i];
        s->now[r] = s->token[i];
    }
    for (; chosen < most; chosen++) { /* fewer go on than the beam is wide: rows that cannot win */
        int r = next_rows++;
        memcpy(s->other_before + r * steps, s->other_before + (r - 1) * steps, sizeof(int32_t) * (step + 1));
        memcpy(s->other_written + r * steps, s->other_written + (r - 1) * steps, sizeof(int32_t) * (step + 1));
        s->other_sentence[r] = sentence, s->next_probability[r] = -INFINITY, s->now[r] = s->now[r - 1];
    }
    return next_rows;
}

/* What has ended is ranked, and whether the sentence goes on. */
static int finish_some(Search *s, int sentence, int found) {
    const Wanted *wanted = s->wanted;
    Ranking *ranking = &s->rankings[sentence];
    double length = pow((double)(s->step + 1), wanted->penalty);
    int full = s->step + 1 >= s->room[sentence];
    for (int i = 0; i < found && i < wanted->beam; i++)
        if (s->token[i] == wanted->end && s->total[i] > -INFINITY)
            rank_in(ranking, s->total[i] / length, s->total[i], s->written + (int64_t)s->from[i] * s->steps, s->step,
                    s->token[i], wanted->end);
    if (full) { /* what has not ended is cut off, and counts only where nothing has */
        int none = ranking->count == 0;
        for (int i = 0; none && i < found && i < wanted->beam; i++)
            if (s->total[i] > -INFINITY)
                rank_in(ranking, s->total[i] / length, s->total[i], s->written + (int64_t)s->from[i] * s->steps, s->step,
                        s->token[i], wanted->end);
        return 0;
    }
    double open = -INFINITY;
    for (int i = 0; i < found && open == -INFINITY; i++)
        if (s->token[i] != wanted->end) open = s->total[i];
    if (open == -INFINITY) return 0;
    return !(ranking->count >= wanted->beam && open / length <= ranking->best[wanted->beam - 1].score);
}

/* The rows of the next step. */
static void advance(Search *s) {
    int next_rows = 0, next_going = 0, next_width = 0;
    for (int a = 0; a < s->going; a++) {
        int sentence = s->active[a], found = choose(s, a * s->width);
        if (!finish_some(s, sentence, found)) continue;
        next_rows = continue_rows(s, sentence, found, next_rows);
        next_width = s->wanted->beam < found ? s->wanted->beam : found;
        s->active[next_going++] = sentence;
    }
    int32_t *swap = s->before;
    s->before = s->other_before, s->other_before = swap;
    swap = s->written, s->written = s->other_written, s->other_written = swap;
    swap = s->sentence, s->sentence = s->other_sentence, s->other_sentence = swap;
    memcpy(s->log_probability, s->next_probability, sizeof(float) * next_rows);
    s->rows = next_rows, s->going = next_going, s->width = next_width;
}

/* The `nbest` best translations of each sentence: ids (sentences, nbest, longest), lengths -1 where there is none.
 * Several models (encoders e, decoders d, of the same words) are asked as one: their scores are averaged. Each has a
 * place in `remembered`, of no count where it has no neighbours. */
int translate(const Stack *e, const Stack *d, const Remembered *remembered, int models, const Wanted *wanted,
              const int64_t *source, const int32_t *start, int sentences, int32_t *ids, int32_t *lengths,
              double *scores_out, double *totals_out) {
    Search s = {.wanted = wanted, .sentences = sentences, .models = models};
    int status = allocate_search(&s, d, start);
    for (int m = 0; m < models && !status; m++)
        status = encode(&e[m], &d[m], source, start, sentences, s.memory[m]);
    for (; s.going && !status; s.step++) {
        status = step_search(&s, d, remembered, start);
        if (!status) advance(&s);
    }
    for (int i = 0; i < sentences && !status; i++)
        for (int j = 0; j < wanted->nbest; j++) {
            int64_t at = (int64_t)i * wanted->nbest + j;
            const Finished *each = &s.rankings[i].best[j];
            lengths[at] = j < s.rankings[i].count ? each->length : -1;
            if (lengths[at] < 0) continue;
            memcpy(ids + at * wanted->longest, each->ids, sizeof(int32_t) * each->length);
            scores_out[at] = each->score, totals_out[at] = each->total;
        }
    free_search(&s);
    return status;
}
