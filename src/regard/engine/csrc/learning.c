/* ---- A batch of sentence pairs through the whole Transformer, there and back, in one call. ----
 *
 * Sentences know nothing of each other, so each thread takes its own through all layers and waits for nobody until its
 * gradient is added to the others'. It takes some at a time, so that what they leave for the way back is still near.
 */

#define CHUNK 192 /* tokens of a side that go through the layers together, if the sentences are no longer */
#define MAPS 8

enum { THINK, LOOK, LOOK_AT_SOURCE };

/* A sublayer with what it learns, and where the gradient of each of its parts is added up. */
typedef struct {
    int kind;
    uint64_t inside, around;     /* seeds */
    const float *norm[2];        /* weight and bias */
    const float *maps[MAPS];     /* weight and bias: query, key, value and output, or widen and narrow */
    int64_t norm_at[2], maps_at[MAPS]; /* below 0: there is no such part */
} Sublayer;

/* The encoder or the decoder with its embedding. */
typedef struct {
    const int64_t *ids;          /* (tokens), sentences end to end */
    const int32_t *start;        /* (sentences + 1) where they begin */
    const float *table, *places; /* vectors of words and of places */
    int64_t table_at, places_at; /* below 0: nothing is learned */
    const float *norm[2];
    int64_t norm_at[2];
    uint64_t seed;
    int64_t count;
    const Sublayer *sublayers;
} Side;

typedef struct {
    Side read, write;
    const int64_t *gold;
    const float *output, *bias;
    int64_t output_at, bias_at, parameters;
    int64_t sentences, passes;   /* with R-Drop all sentences stand there twice, one pass after the other */
    int64_t width, heads, inner, words, padding;
    int dropped, dropped_inside, dropped_weights; /* around sublayers, in the network, of attention; of 256 */
    float epsilon, scale, sure, spread, r_drop;
} Lesson;

#define PASSES 2 /* at the most */

/* The maps of a sublayer as the products want them. */
typedef struct {
    float *ask, *recall, *tell, *ask_back, *recall_back, *tell_back; /* or widen as ask and narrow as tell */
    float *ask_bias, *recall_bias;
} Panels;

/* What a sublayer leaves for the way back. */
typedef struct {
    const float *x;
    float *normed, *asked, *recalled, *mixed, *norms; /* asked: what the network widened */
} Trace;

/* Some sentences, and the rows of a side that are theirs. */
typedef struct {
    int64_t sentence, sentences;
} Some;

static int64_t before(const Side *side, Some some) { return side->start[some.sentence]; }
static int64_t rows_of(const Side *side, Some some) {
    return side->start[some.sentence + some.sentences] - side->start[some.sentence];
}

/* ---- Laying out. ---- */

/* A matrix (out, in) among the panels of a larger one with `deep` inputs: at output `o`, or turned, at input `o`. */
static void lay_among(const float *matrix, float *panels, int64_t out, int64_t in, int64_t o, int64_t deep, int turned) {
    if (turned) /* then its inputs are the outputs */
        for (int64_t p = 0; p < (in + PANEL - 1) / PANEL; p++)
            lay_panel(matrix, panels + (p * deep + o) * PANEL, p * PANEL, in, out, 1);
    else
        for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++)
            lay_panel(matrix, panels + (o + p * PANEL) * deep, p * PANEL, out, in, 0);
}

/* Some maps from the same input side by side, as one: (count * width, width), both ways, and their biases. */
static void lay_side_by_side(const Sublayer *s, int first, int count, int64_t width, Arena *room, float **there,
                             float **back, float **bias) {
    *there = take(room, count * width * width), *back = take(room, count * width * width);
    *bias = take(room, count * width);
    if (room->exhausted) return;
    for (int m = 0; m < count; m++) {
        const float *weight = s->maps[2 * (first + m)], *each = s->maps[2 * (first + m) + 1];
        lay_among(weight, *there, width, width, m * width, width, 0);
        lay_among(weight, *back, width, width, m * width, count * width, 1);
        if (each)
            memcpy(*bias + m * width, each, sizeof(float) * width);
        else
            memset(*bias + m * width, 0, sizeof(float) * width);
    }
}

static int lay_sublayer(const Lesson *l, const Sublayer *s, Panels *p, Arena room) {
    int64_t width = l->width, inner = l->inner;
    float *tell_bias;
    if (s->kind == THINK) {
        p->ask = take(&room, width * inner), p->ask_back = take(&room, width * inner);
        p->tell = take(&room, width * inner), p->tell_back = take(&room, width * inner);
        if (room.exhausted) return ARENA_EXHAUSTED;
        lay_among(s->maps[0], p->ask, inner, width, 0, width, 0);
        lay_among(s->maps[0], p->ask_back, inner, width, 0, inner, 1);
        lay_among(s->maps[2], p->tell, width, inner, 0, inner, 0);
        lay_among(s->maps[2], p->tell_back, width, inner, 0, width, 1);
        return SUCCESS;
    }
    lay_side_by_side(s, 0, s->kind == LOOK ? 3 : 1, width, &room, &p->ask, &p->ask_back, &p->ask_bias);
    if (s->kind == LOOK_AT_SOURCE)
        lay_side_by_side(s, 1, 2, width, &room, &p->recall, &p->recall_back, &p->recall_bias);
    lay_side_by_side(s, 3, 1, width, &room, &p->tell, &p->tell_back, &tell_bias);
    return room.exhausted ? ARENA_EXHAUSTED : SUCCESS;
}

/* Floats that a sublayer's panels take. */
static int64_t room_of(const Lesson *l) {
    int64_t network = checked_mul(4, checked_mul(l->width, l->inner));
    int64_t attention = checked_mul(8, checked_mul(l->width, checked_add(l->width, 1)));
    return checked_add(network > attention ? network : attention, 16 * ARENA_STEP);
}

/* ---- There. ---- */

static Around around_of(const Lesson *l, const Sublayer *s, const Side *side, Some some, const float *x) {
    return (Around){x,          s->norm[0], s->norm[1], rows_of(side, some), l->width,
                    l->dropped, s->around,  l->epsilon, before(side, some)};
}

static Thought thought_of(const Lesson *l, const Sublayer *s, const Panels *p, Around around, int back) {
    return (Thought){around,   back ? p->ask_back : p->ask, back ? p->tell_back : p->tell, s->maps[1], s->maps[3],
                     l->inner, l->dropped_inside,           s->inside};
}

static Looked looked_of(const Lesson *l, const Side *side, const Sublayer *s, const Panels *p, Some some, Around around,
                        const float *source, int back) {
    int cross = s->kind == LOOK_AT_SOURCE, size = l->width / l->heads;
    const Side *seen = cross ? &l->read : side;
    Asked attention = {.qstart = side->start + some.sentence, .kstart = seen->start + some.sentence,
                       .sentences = some.sentences, .heads = l->heads, .size = size,
                       .causal = !cross && side == &l->write, .dropped = l->dropped_weights,
                       .scale = 1.0f / sqrtf(size), .seed = s->inside};
    return (Looked){.around = around, .source = cross ? source : NULL,
                    .ask = back ? p->ask_back : p->ask, .recall = back ? p->recall_back : p->recall,
                    .tell = back ? p->tell_back : p->tell, .ask_bias = p->ask_bias, .recall_bias = p->recall_bias,
                    .tell_bias = s->maps[7], .sources = cross ? rows_of(seen, some) : 0,
                    .sources_before = cross ? before(seen, some) : 0, .attention = attention, .onto = 1};
}

/* Words and their places, with dropout. */
static void embed(const Lesson *l, const Side *side, Some some, float *x) {
    int64_t first = before(side, some);
    for (int64_t s = some.sentence; s < some.sentence + some.sentences; s++)
        for (int64_t token = side->start[s]; token < side->start[s + 1]; token++) {
            const float *word = side->table + side->ids[token] * l->width;
            const float *place = side->places + (token - side->start[s]) * l->width;
            float *to = x + (token - first) * l->width;
            for (int64_t i = 0; i < l->width; i++) to[i] = word[i] * l->scale + place[i];
        }
    Around around = {.width = l->width, .dropped = l->dropped, .seed = side->seed, .before = first};
    drop_some(&around, NULL, x, 0, rows_of(side, some), x);
}

/* From ids to normed vectors (rows, width), which `result` is set to. */
static int there(const Lesson *l, const Side *side, const Panels *panels, Some some, const float *source, Trace *traces,
                 Arena *room, float **result) {
    int64_t rows = rows_of(side, some), width = l->width, sources = source ? rows_of(&l->read, some) : 0;
    float *x = take(room, rows * width);
    if (room->exhausted) return ARENA_EXHAUSTED;
    embed(l, side, some, x);
    for (int64_t n = 0; n < side->count; n++) {
        const Sublayer *s = side->sublayers + n;
        Trace *t = traces + n;
        Around around = around_of(l, s, side, some, x);
        float *out = take(room, rows * width);
        t->x = x, t->normed = take(room, rows * width);
        if (s->kind == THINK) {
            Thought thought = thought_of(l, s, panels + n, around, 0);
            t->asked = take(room, rows * l->inner);
            if (room->exhausted) return ARENA_EXHAUSTED;
            think_there(&thought, t->normed, t->asked, out);
        } else {
            Looked looked = looked_of(l, side, s, panels + n, some, around, source, 0);
            t->asked = take(room, rows * (s->kind == LOOK ? 3 : 1) * width);
            t->recalled = s->kind == LOOK ? NULL : take(room, sources * 2 * width);
            t->mixed = take(room, rows * width), t->norms = take(room, rows * l->heads);
            if (room->exhausted) return ARENA_EXHAUSTED;
            int status = look_there(&looked, t->normed, t->asked, t->recalled, t->mixed, t->norms, out);
            if (status) return status;
        }
        x = out;
    }
    traces[side->count].x = x;
    float *normed = take(room, rows * width);
    if (room->exhausted) return ARENA_EXHAUSTED;
    norm_rows(x, side->norm[0], side->norm[1], l->epsilon, rows, width, normed);
    *result = normed;
    return SUCCESS;
}

/* ---- And back. ---- */

static void add_to(float *gradient, int64_t at, const float *each, int64_t n) {
    for (int64_t i = 0; i < n; i++) gradient[at + i] += each[i];
}

static int think_again(const Lesson *l, const Side *side, const Sublayer *s, const Panels *p, Some some, const Trace *t,
                       const float *g, float *gx, float *gradient, Arena room) {
    int64_t width = l->width, inner = l->inner, rows = rows_of(side, some);
    float *gsaid = take(&room, rows * width), *gwide = take(&room, rows * inner), *sums = take(&room, inner + 3 * width);
    if (room.exhausted) return ARENA_EXHAUSTED;
    Thought thought = thought_of(l, s, p, around_of(l, s, side, some, t->x), 1);
    int status = think_back(&thought, g, t->asked, gx, gsaid, gwide, sums);
    if (!status) status = outer(gwide, inner, t->normed, width, rows, ONTO, gradient + s->maps_at[0]);
    if (!status) status = outer(gsaid, width, t->asked, inner, rows, ONTO, gradient + s->maps_at[2]);
    if (status) return status;
    add_to(gradient, s->maps_at[1], sums, inner);
    add_to(gradient, s->maps_at[3], sums + inner, width);
    for (int i = 0; i < 2; i++) add_to(gradient, s->norm_at[i], sums + inner + (1 + i) * width, width);
    return SUCCESS;
}

static int look_again(const Lesson *l, const Side *side, const Sublayer *s, const Panels *p, Some some, const Trace *t,
                      const float *source, const float *g, float *gx, float *gsource, float *gradient, Arena room) {
    int64_t width = l->width, rows = rows_of(side, some), asks = s->kind == LOOK ? 3 : 1;
    int64_t sources = s->kind == LOOK ? 0 : rows_of(&l->read, some);
    float *gsaid = take(&room, rows * width), *gmixed = take(&room, rows * width), *sums = take(&room, 6 * width);
    float *gasked = take(&room, rows * asks * width), *grecalled = take(&room, sources * 2 * width);
    float *both = take(&room, 3 * width * width);
    if (room.exhausted) return ARENA_EXHAUSTED;
    Looked looked = looked_of(l, side, s, p, some, around_of(l, s, side, some, t->x), source, 1);
    int status = look_back(&looked, g, t->asked, t->recalled, t->mixed, t->norms, gx, gsource, gsaid, gmixed, gasked,
                           grecalled, sums);
    if (!status) status = outer(gasked, asks * width, t->normed, width, rows, 0, both);
    if (status) return status;
    for (int m = 0; m < asks; m++) add_to(gradient, s->maps_at[2 * m], both + m * width * width, width * width);
    if (s->kind == LOOK_AT_SOURCE) {
        status = outer(grecalled, 2 * width, source, width, sources, 0, both);
        if (status) return status;
        for (int m = 1; m < 3; m++) add_to(gradient, s->maps_at[2 * m], both + (m - 1) * width * width, width * width);
    }
    status = outer(gsaid, width, t->mixed, width, rows, ONTO, gradient + s->maps_at[6]);
    if (status) return status;
    add_to(gradient, s->maps_at[7], sums, width);
    for (int i = 0; i < 2; i++) add_to(gradient, s->norm_at[i], sums + (1 + i) * width, width);
    for (int m = 0; m < 3; m++)
        if (s->maps_at[2 * m + 1] >= 0) add_to(gradient, s->maps_at[2 * m + 1], sums + (3 + m) * width, width);
    return SUCCESS;
}

/* g (rows, width) is the gradient of what `there` gave, and is overwritten. */
static int back(const Lesson *l, const Side *side, const Panels *panels, Some some, const float *source,
                const Trace *traces, float *g, float *gsource, float *gradient, Arena room) {
    int64_t rows = rows_of(side, some), width = l->width;
    float *other = take(&room, rows * width);
    if (room.exhausted) return ARENA_EXHAUSTED;
    norm_back(traces[side->count].x, NULL, side->norm[0], l->epsilon, rows, width, g, gradient + side->norm_at[0],
              gradient + side->norm_at[1]);
    for (int64_t n = side->count - 1; n >= 0; n--) {
        const Sublayer *s = side->sublayers + n;
        int status = s->kind == THINK
                         ? think_again(l, side, s, panels + n, some, traces + n, g, other, gradient, room)
                         : look_again(l, side, s, panels + n, some, traces + n, source, g, other, gsource, gradient, room);
        if (status) return status;
        float *swapped = g;
        g = other, other = swapped;
    }
    int64_t first = before(side, some);
    Around around = {.width = width, .dropped = l->dropped, .seed = side->seed, .before = first};
    drop_some(&around, NULL, g, 0, rows, g);
    for (int64_t s = some.sentence; s < some.sentence + some.sentences; s++)
        for (int64_t token = side->start[s]; token < side->start[s + 1]; token++) {
            const float *from = g + (token - first) * width;
            float *word = gradient + side->table_at + side->ids[token] * width;
            for (int64_t i = 0; i < width; i++) word[i] += from[i] * l->scale;
            if (side->places_at >= 0) add_to(gradient, side->places_at + (token - side->start[s]) * width, from, width);
        }
    return SUCCESS;
}

/* The loss of rows that came out of the decoder, in each pass, which become their own gradient; it is added to `total`. */
static int judge(const Lesson *l, const float *output, const float *output_back, Some some, float *const *hidden,
                 float *gradient, Arena room, double *total) {
    int64_t rows = rows_of(&l->write, some);
    const int64_t *gold = l->gold + before(&l->write, some);
    float *scores[PASSES], *gbias = gradient + l->bias_at;
    double *losses = (double *)take(&room, 2 * rows), sum = 0;
    int status;
    for (int64_t p = 0; p < l->passes; p++) {
        scores[p] = take(&room, rows * l->words);
        if (room.exhausted) return ARENA_EXHAUSTED;
        multiply(hidden[p], rows, output, NULL, l->width, l->words, l->words, 0, scores[p]);
    }
    if (l->passes == 1)
        status = smoothed_rows(scores[0], l->bias, gold, rows, l->words, l->padding, l->sure, l->spread, losses, gbias);
    else
        status = twin_rows(scores[0], scores[1], l->bias, gold, rows, l->words, l->padding, l->sure, l->spread, l->r_drop,
                           losses, gbias);
    if (status) return status;
    for (int64_t p = 0; p < l->passes; p++) {
        status = outer(scores[p], l->words, hidden[p], l->width, rows, ONTO, gradient + l->output_at);
        if (status) return status;
        multiply(scores[p], rows, output_back, NULL, l->words, l->width, l->width, 0, hidden[p]);
    }
    for (int64_t r = 0; r < rows; r++) sum += losses[r];
    *total += sum;
    return SUCCESS;
}

/* Floats that some sentences need at the most, of so many tokens on either side. */
static int64_t needed(const Lesson *l, int64_t tokens) {
    int64_t width = l->width, slack = 16 * ARENA_STEP, wide = checked_mul(3, width);
    wide = l->inner > wide ? l->inner : wide;
    int64_t a_token = checked_add(checked_add(checked_mul(5, width), wide), l->heads);
    int64_t sublayer = checked_add(checked_mul(tokens, a_token), slack);
    int64_t again = checked_mul(tokens, checked_add(checked_mul(7, width), wide));
    again = checked_add(again, checked_mul(3, checked_mul(width, checked_add(width, 2))));
    again = checked_add(again, checked_add(l->inner, slack));
    int64_t judged = checked_add(checked_mul(tokens, checked_add(checked_mul(l->passes, l->words), 2)), slack);
    int64_t pass = checked_mul(checked_add(l->read.count, l->write.count), sublayer);
    pass = checked_add(pass, checked_add(checked_mul(8, checked_mul(tokens, width)), slack));
    return checked_add(checked_mul(l->passes, pass), again > judged ? again : judged);
}

/* As many sentences from one on as go through the layers together, and the tokens of their longer sides. */
static Some cut(const Lesson *l, int64_t sentence, int64_t end, int64_t *tokens) {
    Some some = {sentence, 0};
    for (*tokens = 0; sentence < end && *tokens < CHUNK; sentence++, some.sentences++) {
        Some one = {sentence, 1};
        int64_t read = rows_of(&l->read, one), written = rows_of(&l->write, one);
        *tokens += read > written ? read : written;
    }
    return some;
}

/* Some sentences, in both passes where there are two: their loss and their gradient are added up. */
static int learn_chunk(const Lesson *l, const Panels *read, const Panels *write, const float *output,
                       const float *output_back, Some first, Trace *traces, Arena room, float *gradient, double *total) {
    int64_t count = l->read.count + l->write.count + 2;
    Some some[PASSES] = {first, {first.sentence + l->sentences, first.sentences}};
    float *source[PASSES], *hidden[PASSES];
    int status = SUCCESS;
    for (int64_t p = 0; p < l->passes && !status; p++) {
        Trace *reading = traces + p * count, *writing = reading + l->read.count + 1;
        status = there(l, &l->read, read, some[p], NULL, reading, &room, &source[p]);
        if (!status) status = there(l, &l->write, write, some[p], source[p], writing, &room, &hidden[p]);
    }
    if (!status) status = judge(l, output, output_back, some[0], hidden, gradient, room, total);
    for (int64_t p = 0; p < l->passes && !status; p++) {
        Trace *reading = traces + p * count, *writing = reading + l->read.count + 1;
        int64_t sources = rows_of(&l->read, some[p]) * l->width;
        Arena rest = room;
        float *gsource = take(&rest, sources);
        if (rest.exhausted) return ARENA_EXHAUSTED;
        memset(gsource, 0, sizeof(float) * sources);
        status = back(l, &l->write, write, some[p], source[p], writing, hidden[p], gsource, gradient, rest);
        if (!status) status = back(l, &l->read, read, some[p], NULL, reading, gsource, NULL, gradient, rest);
    }
    return status;
}

/* The sentences of one thread, some at a time: their loss and their gradient are added up. */
static int learn_some(const Lesson *l, const Panels *read, const Panels *write, const float *output,
                      const float *output_back, int64_t sentence, int64_t end, float *gradient, double *total) {
    int64_t most = 0, tokens;
    for (int64_t s = sentence; s < end; most = tokens > most ? tokens : most) s += cut(l, s, end, &tokens).sentences;
    int64_t floats = needed(l, most), count = l->read.count + l->write.count + 2;
    int status = SUCCESS;
    float *all = allocate(floats, sizeof(float), &status);
    Trace *traces = allocate(checked_mul(count, l->passes), sizeof(Trace), &status);
    while (sentence < end && !status) {
        Some some = cut(l, sentence, end, &tokens);
        status = learn_chunk(l, read, write, output, output_back, some, traces, arena_of(all, floats), gradient, total);
        sentence += some.sentences;
    }
    free(traces);
    free(all);
    return status;
}

/* Where the share of a thread begins: as many tokens to each. */
static int64_t share_begins(const Lesson *l, int64_t thread, int64_t threads) {
    const int32_t *a = l->read.start, *b = l->write.start;
    int64_t all = (int64_t)a[l->sentences] + b[l->sentences], s = 0;
    while (s < l->sentences && ((int64_t)a[s] + b[s]) * threads < all * thread) s++;
    return thread == threads ? l->sentences : s;
}

/* The loss of a batch, summed over its golds, and its gradient (parameters). Sentences are divided among the threads that
 * run, which may be fewer than were asked for. */
int learn(const Lesson *l, double *loss, float *gradient) {
    int most_threads = omp_get_max_threads(), ran = 1, status = SUCCESS;
    int64_t count = l->read.count + l->write.count, width = l->width;
    if (l->passes < 1 || l->passes > PASSES || l->words > INT64_MAX - PANEL) return SIZES_OVERFLOW;
    int64_t words = (l->words + PANEL - 1) / PANEL * PANEL, a_sublayer = room_of(l);
    int64_t all_sublayers = checked_mul(count, a_sublayer), output_floats = checked_mul(words, width);
    float *room = allocate(checked_add(all_sublayers, checked_mul(2, output_floats)), sizeof(float), &status);
    float *others = allocate(checked_mul(most_threads - 1, l->parameters), sizeof(float), &status);
    double *totals = allocate_zeros(most_threads, sizeof(double), &status);
    Panels *panels = allocate(count, sizeof(Panels), &status);
    if (status) {
        free(room), free(others), free(totals), free(panels);
        return status;
    }
    float *output = room + all_sublayers, *output_back = output + output_floats;
#pragma omp parallel num_threads(most_threads)
    {
        int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        float *own = thread ? others + (thread - 1) * l->parameters : gradient;
        if (thread == 0) ran = threads;
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < words / PANEL; p++) lay_panel(l->output, output + p * width * PANEL, p * PANEL, l->words, width, 0);
#pragma omp for schedule(static) nowait
        for (int64_t p = 0; p < width / PANEL; p++)
            lay_panel(l->output, output_back + p * l->words * PANEL, p * PANEL, width, l->words, 1);
#pragma omp for schedule(static) nowait
        for (int64_t n = 0; n < count; n++) {
            const Sublayer *s = n < l->read.count ? l->read.sublayers + n : l->write.sublayers + n - l->read.count;
            report(&status, lay_sublayer(l, s, panels + n, arena_of(room + n * a_sublayer, a_sublayer)));
        }
        memset(own, 0, sizeof(float) * l->parameters);
#pragma omp barrier
        if (!reported(&status))
            report(&status, learn_some(l, panels, panels + l->read.count, output, output_back,
                                       share_begins(l, thread, threads), share_begins(l, thread + 1, threads), own,
                                       &totals[thread]));
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t block = 0; block < (l->parameters + SMALL - 1) / SMALL; block++) {
            int64_t end = (block + 1) * SMALL < l->parameters ? (block + 1) * SMALL : l->parameters;
            for (int t = 1; t < threads; t++)
                for (int64_t i = block * SMALL; i < end; i++) gradient[i] += others[(t - 1) * l->parameters + i];
        }
    }
    *loss = 0;
    for (int t = ran - 1; t >= 0; t--) *loss += totals[t];
    free(room), free(others), free(totals), free(panels);
    return status;
}
