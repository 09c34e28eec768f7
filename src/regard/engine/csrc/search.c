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
    Written written = {rows, step, times, room, times, tokens, before, NULL, NULL, NULL, 0, &cache};
    decoder_step(d, &written, scratch);
    output(d, scratch, rows, scores);
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

#define ROWS_AT_ONCE 36 /* whose scores stay near: a multiple of what a product takes at once */

/* What a model that ends with x (rows, width) thinks of the words, with its neighbours if it has any. */
static void scored(const Stack *d, const Remembered *m, const float *x, int rows, float *scores) {
    output(d, x, rows, scores);
    if (m->count) ask_neighbours(m, x, rows, d->width, scores, d->words);
}

/* The `count` best words of each row and log sum exp, where x[m] (rows, width) is what model m ends with; scores has
 * room for those of ROWS_AT_ONCE rows, twice where there are several models. */
static void best_words(const Stack *d, const Remembered *remembered, float *const *x, int models, const Wanted *wanted,
                       int rows, int step, int count, float *scores, float *best, int64_t *tokens, float *norms) {
    int64_t words = d->words;
    for (int first = 0, some; first < rows; first += some) {
        some = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        float *another = scores + some * words;
        scored(d, remembered, x[0] + (int64_t)first * d->width, some, scores);
        for (int m = 1; m < models; m++) {
            scored(&d[m], &remembered[m], x[m] + (int64_t)first * d[m].width, some, another);
            add_rows(scores, another, some * words);
        }
        for (int64_t i = 0; models > 1 && i < some * words; i++) scores[i] /= models;
        for (float *row = scores; row < scores + some * words; row += words) {
            for (int i = 0; i < wanted->never_count; i++) row[wanted->never[i]] = -INFINITY;
            if (step == 0) row[wanted->end] = -INFINITY; /* an empty translation is never the best */
        }
        best_of_rows(scores, some, words, count, best + (int64_t)first * count, tokens + (int64_t)first * count,
                     norms + first);
    }
}

/* Steps in a piece of the cache: most translations need one or two of them, and what is taken in such sizes is given
 * back without going to the system, which would hand out every page anew. */
#define SPAN 16

/* The `nbest` best translations of each sentence: ids (sentences, nbest, longest), lengths -1 where there is none.
 * Several models (encoders e, decoders d, of the same words) are asked as one: their scores are averaged. Each has a
 * place in `remembered`, of no count where it has no neighbours. */
void translate(const Stack *e, const Stack *d, const Remembered *remembered, int models, const Wanted *wanted,
               const int64_t *source, const int32_t *start, int sentences, int32_t *ids, int32_t *lengths,
               double *scores_out, double *totals_out) {
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
    int pieces = (times + SPAN - 1) / SPAN;
    float *memory[models], *scratch[models], *cache[models][pieces];
    for (int m = 0; m < models; m++) {
        int64_t a_step = (int64_t)capacity * d[m].width;
        memory[m] = malloc(sizeof(float) * d[m].layers * start[sentences] * 2 * d[m].width);
        scratch[m] = malloc(sizeof(float) * (4 * a_step + (int64_t)capacity * d[m].inner));
        encode(&e[m], &d[m], source, start, sentences, memory[m]);
    }
    float *scores = malloc(sizeof(float) * ROWS_AT_ONCE * d->words * (models > 1 ? 2 : 1));
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
    int step = 0;
    for (; going; step++) {
        for (int m = 0; m < models; m++) {
            if (step % SPAN == 0)
                cache[m][step / SPAN] = malloc(sizeof(float) * d[m].layers * 2 * SPAN * capacity * d[m].width);
            Written state = {rows,     step,  times,     capacity,         SPAN,    now, before,
                             sentence, start, memory[m], start[sentences], cache[m]};
            decoder_step(&d[m], &state, scratch[m]);
        }
        best_words(d, remembered, scratch, models, wanted, rows, step, two, scores, best, tokens, norms);
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
    for (int m = 0; m < models; m++) {
        for (int piece = 0; piece * SPAN < step; piece++) free(cache[m][piece]);
        free(memory[m]), free(scratch[m]);
    }
    free(room), free(active), free(rankings), free(scores), free(best);
    free(tokens), free(tables), free(next_probability);
}
