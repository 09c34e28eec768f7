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
    int rows, step, times;
    int room, span;               /* so many rows and steps have place in a piece of the cache */
    const int64_t *tokens;        /* (rows) */
    const int32_t *before;        /* (rows, times): which row of each earlier step this one continues */
    const int32_t *sentence;      /* (rows): which sentence it translates */
    const int32_t *start;         /* where each sentence's source tokens begin */
    const float *memory;          /* (layers, sources, 2 width): keys and values side by side */
    int64_t sources;
    float *const *cache;          /* pieces (layers, 2, room, span, width), as many as the steps so far need */
} Written;

#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (i8){__VA_ARGS__})
#endif
#define EIGHT _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++)

/* What `added_up` makes of each of eight vectors, to the bit, in a third of the time: halves of two are added at once. */
static inline v8 added_up_apart(const v8 *x) {
    v8 t[4], u[2];
    for (int k = 0; k < 4; k++)
        t[k] = PICK(x[k], x[k + 4], 0, 1, 2, 3, 8, 9, 10, 11) + PICK(x[k], x[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    for (int k = 0; k < 2; k++)
        u[k] = PICK(t[2 * k], t[2 * k + 1], 0, 2, 8, 10, 4, 6, 12, 14) +
               PICK(t[2 * k], t[2 * k + 1], 1, 3, 9, 11, 5, 7, 13, 15);
    return PICK(u[0], u[1], 0, 2, 8, 10, 4, 6, 12, 14) + PICK(u[0], u[1], 1, 3, 9, 11, 5, 7, 13, 15);
}

/* How well each key fits each head's query: weights (heads, wide). Eight keys are read for all heads before the next
 * eight, since they come from far away; their values, needed soon, are sent for meanwhile. */
static void compare(const float *query, const float *const *at, int64_t value, int wide, int heads, int size,
                    float *weights) {
    float scale = 1.0f / sqrtf((float)size);
    for (int j = 0; j < wide; j += 8)
        for (int h = 0; h < heads; h++) {
            v8 sums[8] = {{0}};
            for (int i = h * size; i < (h + 1) * size; i += 8)
                EIGHT sums[k] += *(const v8 *)(query + i) * *(const v8 *)(at[j + k] + i);
            *(v8 *)(weights + h * wide + j) = added_up_apart(sums) * scale;
            for (int i = h * size; i < (h + 1) * size; i += 16) EIGHT __builtin_prefetch(at[j + k] + value + i);
        }
}

/* Scores become weights; what they are to be multiplied by so that they add up to one. */
static float soften(float *weights, int keys, int wide) {
    float most = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++) most = weights[j] > most ? weights[j] : most;
    for (int j = keys; j < wide; j++) weights[j] = -1e30f;
    for (int j = 0; j < wide; j += 8) *(v8 *)(weights + j) = exponentials(*(v8 *)(weights + j) - most);
    for (int j = 0; j < keys; j++) sum += weights[j];
    return 1.0f / sum;
}

/* What a thread needs while its rows look at up to `most` keys. */
typedef struct {
    const float **at; /* (padded most) where the keys lie */
    float *weights;   /* (heads, padded most) */
    float *shares;    /* (heads) */
} Glance;

/* Bytes of it, in whole cache lines, so that no two threads write to the same one. */
static int64_t glance_bytes(int64_t most, int64_t heads) {
    int64_t keys = checked_add(most, 7) & ~(int64_t)7, a_key = checked_add(sizeof(float *), checked_mul(sizeof(float), heads));
    int64_t bytes = checked_add(checked_mul(keys, a_key), checked_mul(sizeof(float), heads));
    return checked_add(bytes, 63) & ~(int64_t)63;
}

static Glance glance_at(char *memory, int most, int heads) {
    const float **at = (const float **)memory;
    float *weights = (float *)(at + padded(most));
    return (Glance){at, weights, weights + (int64_t)heads * padded(most)};
}

/* One row looks at `keys` vectors that lie where `g->at` says; values lie `value` floats after their keys. */
static void look(const float *query, const Glance *g, int64_t value, int keys, int heads, int size, float *out) {
    int wide = padded(keys), width = heads * size, i = 0;
    const float **at = g->at;
    float *weights = g->weights, *shares = g->shares;
    for (int j = keys; j < wide; j++) at[j] = at[keys - 1];
    compare(query, at, value, wide, heads, size, weights);
    for (int h = 0; h < heads; h++) shares[h] = soften(weights + h * wide, keys, wide);
    for (; size % 32 == 0 && i + 64 <= width; i += 64) { /* enough sums at once that none waits for itself */
        int one = i / size, other = (i + 32) / size;
        v8 sums[8] = {{0}};
        for (int j = 0; j < keys; j++) {
            const v8 *from = (const v8 *)(at[j] + value + i);
            EIGHT sums[k] += weights[(k < 4 ? one : other) * wide + j] * from[k];
        }
        EIGHT *(v8 *)(out + i + 8 * k) = sums[k] * shares[k < 4 ? one : other];
    }
    for (; i < width; i += 8) {
        v8 mixed = {0};
        for (int j = 0; j < keys; j++) mixed += weights[i / size * wide + j] * *(const v8 *)(at[j] + value + i);
        *(v8 *)(out + i) = mixed * shares[i / size];
    }
}

/* Where a row's keys of the earlier steps lie; `start` is where the layer begins in each piece. */
static void look_back_to(const Written *s, int row, int width, int64_t start, const float **at) {
    const int32_t *before = s->before + (int64_t)row * s->times;
    int64_t line = (int64_t)s->span * width;
    for (int t = 0; t < s->step;) {
        const float *keys = s->cache[t / s->span] + start;
        for (int i = 0; i < s->span && t < s->step; i++, t++) at[t] = keys + before[t] * line + (int64_t)i * width;
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

/* What the output is to be asked of: the first (rows, width) of scratch, which has room for rows * (4 width + inner)
 * floats. GPT has no cross-attention. */
static int decoder_step(const Stack *d, const Written *s, float *scratch) {
    int rows = s->rows, width = d->width, size = width / d->heads, most = s->step + 1;
    int64_t all = (int64_t)rows * width, line = (int64_t)s->span * width, side = line * s->room;
    float *x = scratch, *n = x + all, *q = n + all, *y = q + all, *wide = y + all;
    const float *place = d->places + (int64_t)s->step * width;
    for (int r = 0; r < rows; r++) {
        const float *word = d->table + s->tokens[r] * width;
        for (int i = 0; i < width; i++) x[(int64_t)r * width + i] = word[i] * d->scale + place[i];
        int source = d->weights[ASK] ? s->start[s->sentence[r] + 1] - s->start[s->sentence[r]] : 0;
        most = source > most ? source : most;
    }
    int shared = all * most > SMALL; /* worth a second thread */
    int64_t a_thread = glance_bytes(most, d->heads);
    int status = SUCCESS;
    char *glances = allocate(checked_mul(shared ? omp_get_max_threads() : 1, a_thread), 1, &status);
    if (status) return status;
    for (int l = 0; l < d->layers; l++) {
        const float *const *w = d->weights + (int64_t)l * A_LAYER;
        float *now = s->cache[s->step / s->span] + l * 2 * side + (int64_t)(s->step % s->span) * width;
        const float *in = told(d, w, NORM_SELF, x, rows, n);
        multiply(in, rows, w[QUERY], w[QUERY_BIAS], width, width, width, 0, q);
        multiply(in, rows, w[KEY], w[KEY_BIAS], width, width, line, 0, now);
        multiply(in, rows, w[VALUE], w[VALUE_BIAS], width, width, line, 0, now + side);
#pragma omp parallel if (shared)
        {
            Glance g = glance_at(glances + omp_get_thread_num() * a_thread, most, d->heads);
#pragma omp for schedule(static)
            for (int r = 0; r < rows; r++) {
                look_back_to(s, r, width, l * 2 * side, g.at);
                g.at[s->step] = now + r * line;
                look(q + (int64_t)r * width, &g, side, s->step + 1, d->heads, size, y + (int64_t)r * width);
            }
        }
        multiply(y, rows, w[OUT], w[OUT_BIAS], width, width, width, 0, q);
        take_in(d, w, NORM_SELF, x, q, rows);
        if (w[ASK]) {
            in = told(d, w, NORM_CROSS, x, rows, n);
            multiply(in, rows, w[ASK], w[ASK_BIAS], width, width, width, 0, q);
#pragma omp parallel if (shared)
            {
                Glance g = glance_at(glances + omp_get_thread_num() * a_thread, most, d->heads);
#pragma omp for schedule(static)
                for (int r = 0; r < rows; r++) {
                    int first = s->start[s->sentence[r]], count = s->start[s->sentence[r] + 1] - first;
                    for (int j = 0; j < count; j++) g.at[j] = s->memory + (l * s->sources + first + j) * 2 * width;
                    look(q + (int64_t)r * width, &g, width, count, d->heads, size, y + (int64_t)r * width);
                }
            }
            multiply(y, rows, w[TELL], w[TELL_BIAS], width, width, width, 0, q);
            take_in(d, w, NORM_CROSS, x, q, rows);
        }
        think(d, w, told(d, w, NORM_WIDE, x, rows, n), rows, wide, q);
        take_in(d, w, NORM_WIDE, x, q, rows);
    }
    const float *const *last = d->weights + (int64_t)d->layers * A_LAYER;
    if (last[0]) norm_rows(x, last[0], last[1], d->epsilon, rows, width, x);
    free(glances);
    return SUCCESS;
}

static void output(const Stack *d, const float *x, int rows, float *scores) {
    multiply(x, rows, d->output, d->bias, d->width, d->words, d->words, 0, scores);
}

#define LANES 64

static inline v8 higher(v8 a, v8 b) {
    i8 first = (i8)(a > b);
    return (v8)((first & (i8)a) | (~first & (i8)b));
}

/* Every one of the `wanted` highest scores of a row is at least this: of LANES groups of scores, the one that comes
 * `wanted`th by its highest (or a later one, where some are equal). `most` receives the highest of all. */
static float at_least(const float *s, int64_t words, int wanted, float *most) {
    float high[LANES], least = INFINITY;
    for (int l = 0; l < LANES; l++) high[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= words; i += LANES)
        for (int l = 0; l < LANES; l++) high[l] = s[i + l] > high[l] ? s[i + l] : high[l];
    for (int l = 0; i < words; i++, l++) high[l] = s[i] > high[l] ? s[i] : high[l];
    for (int n = 0; n < wanted && n < LANES; n++) { /* the highest below the last: asking which it is would take longer */
        v8 none = (v8){0} - INFINITY, next = none;
        for (int l = 0; l < LANES; l += 8) {
            v8 each = *(const v8 *)(high + l);
            i8 below = (i8)(each < least);
            next = higher((v8)((below & (i8)each) | (~below & (i8)none)), next);
        }
        next = higher(next, PICK(next, next, 4, 5, 6, 7, 0, 1, 2, 3));
        next = higher(next, PICK(next, next, 2, 3, 0, 1, 6, 7, 4, 5));
        least = next[0] > next[1] ? next[0] : next[1];
        if (n == 0) *most = least;
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
