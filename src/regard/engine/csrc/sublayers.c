/* ---- A sublayer with the norm before it and the path around it: some rows at a time, while they are near. ---- */

/* The mean of a row; `share` is one over its spread. */
static inline float middle(const float *x, int64_t width, float epsilon, float *share) {
    float mean = 0, spread = 0;
#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < width; i++) mean += x[i];
    mean /= width;
#pragma omp simd reduction(+ : spread)
    for (int64_t i = 0; i < width; i++) spread += (x[i] - mean) * (x[i] - mean);
    *share = 1.0f / sqrtf(spread / width + epsilon);
    return mean;
}

static void norm_rows(const float *x, const float *weight, const float *bias, float epsilon, int rows, int width,
                      float *out) {
    for (int r = 0; r < rows; r++) {
        const float *from = x + (int64_t)r * width;
        float *to = out + (int64_t)r * width, share, mean = middle(from, width, epsilon, &share);
        for (int i = 0; i < width; i++) to[i] = (from[i] - mean) * share * weight[i] + bias[i];
    }
}

/* gx is the gradient of the normed rows, and becomes that of x, plus g if there is a path around; that of the norm's
 * weights is added up. */
static void norm_back(const float *x, const float *g, const float *weight, float epsilon, int64_t rows, int64_t width,
                      float *gx, float *gweight, float *gbias) {
    for (int64_t r = 0; r < rows; r++, x += width, gx += width) {
        float share, mean = middle(x, width, epsilon, &share), plain = 0, along = 0;
#pragma omp simd reduction(+ : plain, along)
        for (int64_t i = 0; i < width; i++) {
            float unit = (x[i] - mean) * share, each = gx[i] * weight[i];
            plain += each;
            along += each * unit;
        }
        plain /= width, along /= width;
        for (int64_t i = 0; i < width; i++) {
            float unit = (x[i] - mean) * share, each = gx[i];
            gweight[i] += each * unit;
            gbias[i] += each;
            gx[i] = share * (each * weight[i] - plain - unit * along);
        }
        for (int64_t i = 0; g && i < width; i++) gx[i] += g[r * width + i];
    }
}

#define NEAR 96 /* rows; a multiple of BLOCK, so that a block of chance is never shared */

/* The rows that this thread takes, NEAR of them at a time. */
#define OWN_ROWS(first, end, rows)                                                                                       \
    for (int64_t share_ = (((rows) + omp_get_num_threads() - 1) / omp_get_num_threads() + BLOCK - 1) / BLOCK * BLOCK,    \
                 first = share_ * omp_get_thread_num(), stop_ = first + share_ < (rows) ? first + share_ : (rows), end;  \
         end = first + NEAR < stop_ ? first + NEAR : stop_, first < stop_; first = end)

/* What stands before and after every sublayer. */
typedef struct {
    const float *x;                /* (rows, width) */
    const float *norm, *norm_bias; /* (width) */
    int64_t rows, width;
    int dropped;                   /* of 256 */
    uint64_t seed;
    float epsilon;
    int64_t before;                /* rows of the batch that stand before these: chance counts from its beginning */
} Around;

static void norm_some(const Around *a, int64_t first, int64_t end, float *normed) {
    int64_t at = first * a->width;
    norm_rows(a->x + at, a->norm, a->norm_bias, a->epsilon, end - first, a->width, normed + at);
}

/* to = x plus what stays of y, for rows from `first` on; x may be missing. */
static void drop_some(const Around *a, const float *x, const float *y, int64_t first, int64_t end, float *to) {
    int64_t at = first * a->width, block = (a->before + first) * a->width / BLOCK;
    add_some(x ? x + at : NULL, y + at, to + at, block, (end - first) * a->width, a->dropped, a->seed);
}

/* out holds what the sublayer said, and becomes x plus what of it stays. */
static void take_some(const Around *a, int64_t first, int64_t end, float *out) {
    drop_some(a, a->x, out, first, end, out);
}

/* The gradient of what the sublayer said, and its sum over the rows added to gbias. */
static void told_some(const Around *a, const float *g, int64_t first, int64_t end, float *gsaid, float *gbias) {
    drop_some(a, NULL, g, first, end, gsaid);
    for (int64_t r = first; r < end; r++)
        for (int64_t i = 0; i < a->width; i++) gbias[i] += gsaid[r * a->width + i];
}

/* gx holds the gradient of the normed rows, and becomes that of x. */
static void back_some(const Around *a, const float *g, int64_t first, int64_t end, float *gx, float *gnorm) {
    int64_t at = first * a->width;
    norm_back(a->x + at, g + at, a->norm, a->epsilon, end - first, a->width, gx + at, gnorm, gnorm + a->width);
}

/* Each thread's sums, one thread after another, of those that ran. */
static void add_shares(const float *shares, int threads, int64_t count, float *sums) {
    memcpy(sums, shares, sizeof(float) * count);
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < count; i++) sums[i] += shares[t * count + i];
}

/* The position-wise network. */
typedef struct {
    Around around;
    const float *widen, *narrow;   /* laid out; on the way back turned */
    const float *widen_bias, *narrow_bias;
    int64_t inner;
    int dropped;                   /* inside */
    uint64_t seed;
} Thought;

/* out = x + dropout(narrow(dropout(relu(widen(norm(x)))))). Kept for the way back: normed (rows, width), wide (rows, inner). */
void think_there(const Thought *t, float *normed, float *wide, float *out) {
    const Around *a = &t->around;
    int64_t width = a->width, inner = t->inner;
#pragma omp parallel
    OWN_ROWS(first, end, a->rows) {
        norm_some(a, first, end, normed);
        multiply(normed + first * width, end - first, t->widen, NULL, width, inner, inner, 0, wide + first * inner);
        relu_some(wide + first * inner, t->widen_bias, end - first, inner, a->before + first, t->dropped, t->seed);
        multiply(wide + first * inner, end - first, t->narrow, t->narrow_bias, inner, width, width, 0,
                 out + first * width);
        take_some(a, first, end, out);
    }
}

/* g is the gradient of out: gx (rows, width) that of x, gsaid (rows, width) of what narrow said, gwide (rows, inner) of
 * what widen said; sums (inner + 3 width) those of the biases of widen and narrow and of the norm's weight and bias. */
int think_back(const Thought *t, const float *g, const float *wide, float *gx, float *gsaid, float *gwide, float *sums) {
    const Around *a = &t->around;
    int64_t width = a->width, inner = t->inner, all = inner + 3 * width;
    float scale = 256.0f / (256 - t->dropped);
    int threads = omp_get_max_threads(), ran = 1, status = SUCCESS;
    float *shares = allocate_zeros(checked_mul(threads, all), sizeof(float), &status);
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
        float *gwiden = shares + omp_get_thread_num() * all, *gnarrow = gwiden + inner, *gnorm = gnarrow + width;
        OWN_ROWS(first, end, a->rows) {
            told_some(a, g, first, end, gsaid, gnarrow);
            multiply(gsaid + first * width, end - first, t->narrow, NULL, width, inner, inner, 0, gwide + first * inner);
            for (int64_t r = first; r < end; r++) {
                const float *kept = wide + r * inner;
                float *row = gwide + r * inner;
                for (int64_t i = 0; i < inner; i++) {
                    float each = kept[i] > 0 ? row[i] * scale : 0.0f;
                    row[i] = each;
                    gwiden[i] += each;
                }
            }
            multiply(gwide + first * inner, end - first, t->widen, NULL, inner, width, width, 0, gx + first * width);
            back_some(a, g, first, end, gx, gnorm);
        }
    }
    add_shares(shares, ran, all, sums);
    free(shares);
    return SUCCESS;
}

/* Attention of a sequence to itself, or to a source. */
typedef struct {
    Around around;
    const float *source;             /* (sources, width), or none: then x is its own */
    const float *ask, *recall, *tell; /* laid out, on the way back turned: query, key and value from x, or query from x and
                                         key and value from the source; what comes of it */
    const float *ask_bias, *recall_bias, *tell_bias;
    int64_t sources, sources_before;
    Asked attention;                 /* but for where queries, keys and values lie */
    int onto;                        /* the source's gradient is added to what stands there */
} Looked;

/* Where queries, keys and values lie: in `asked` (rows, 3 width), or (rows, width) and in `recalled` (sources, 2 width). */
static Asked laid(const Looked *l, const float *asked, const float *recalled) {
    Asked all = l->attention;
    int64_t width = l->around.width;
    all.qrow = l->source ? width : 3 * width, all.krow = all.vrow = l->source ? 2 * width : 3 * width;
    all.q = asked, all.k = l->source ? recalled : all.q + width, all.v = all.k + width;
    return all;
}

static Before before_of(const Looked *l) {
    return (Before){l->around.before, l->source ? l->sources_before : l->around.before};
}

/* out = x + dropout(tell(attention(norm(x)))). Kept for the way back: normed, asked, recalled, mixed (rows, width), norms. */
int look_there(const Looked *l, float *normed, float *asked, float *recalled, float *mixed, float *norms, float *out) {
    const Around *a = &l->around;
    int64_t width = a->width, wide = l->source ? width : 3 * width;
#pragma omp parallel
    {
        OWN_ROWS(first, end, a->rows) {
            norm_some(a, first, end, normed);
            multiply(normed + first * width, end - first, l->ask, l->ask_bias, width, wide, wide, 0, asked + first * wide);
        }
        OWN_ROWS(first, end, l->sources)
            multiply(l->source + first * width, end - first, l->recall, l->recall_bias, width, 2 * width, 2 * width, 0,
                     recalled + first * 2 * width);
    }
    Asked all = laid(l, asked, recalled);
    int status = attend_from(&all, before_of(l), mixed, norms);
    if (status) return status;
#pragma omp parallel
    OWN_ROWS(first, end, a->rows) {
        multiply(mixed + first * width, end - first, l->tell, l->tell_bias, width, width, width, 0, out + first * width);
        take_some(a, first, end, out);
    }
    return SUCCESS;
}

/* g is the gradient of out: gx that of x, gsource of the source; gsaid, gasked and grecalled of what tell, ask and recall
 * said; sums (3 width, then as many as ask says, then as recall) those of tell's bias, the norm's two, and their biases. */
int look_back(const Looked *l, const float *g, const float *asked, const float *recalled, const float *mixed, float *norms,
              float *gx, float *gsource, float *gsaid, float *gmixed, float *gasked, float *grecalled, float *sums) {
    const Around *a = &l->around;
    int64_t width = a->width, wide = l->source ? width : 3 * width, all = 3 * width + wide + (l->source ? 2 * width : 0);
    int threads = omp_get_max_threads(), ran = 1, ran_again = 1, status = SUCCESS;
    float *shares = allocate_zeros(checked_mul(threads, all), sizeof(float), &status);
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
        float *gtell = shares + omp_get_thread_num() * all;
        OWN_ROWS(first, end, a->rows) {
            told_some(a, g, first, end, gsaid, gtell);
            multiply(gsaid + first * width, end - first, l->tell, NULL, width, width, width, 0, gmixed + first * width);
        }
    }
    Asked with = laid(l, asked, recalled);
    float *gkeys = l->source ? grecalled : gasked + width;
    status = attend_back_from(&with, before_of(l), mixed, norms, gmixed, gasked, gkeys, gkeys + width, with.qrow, with.krow);
    if (status) {
        free(shares);
        return status;
    }
#pragma omp parallel num_threads(threads)
    {
        if (omp_get_thread_num() == 0) ran_again = omp_get_num_threads();
        float *gnorm = shares + omp_get_thread_num() * all + width, *gask = gnorm + 2 * width, *grecall = gask + wide;
        OWN_ROWS(first, end, a->rows) {
            for (int64_t r = first; r < end; r++)
                for (int64_t i = 0; i < wide; i++) gask[i] += gasked[r * wide + i];
            multiply(gasked + first * wide, end - first, l->ask, NULL, wide, width, width, 0, gx + first * width);
            back_some(a, g, first, end, gx, gnorm);
        }
        OWN_ROWS(first, end, l->sources) {
            for (int64_t r = first; r < end; r++)
                for (int64_t i = 0; i < 2 * width; i++) grecall[i] += grecalled[r * 2 * width + i];
            multiply(grecalled + first * 2 * width, end - first, l->recall, NULL, 2 * width, width, width,
                     l->onto ? ONTO : 0, gsource + first * width);
        }
    }
    add_shares(shares, ran > ran_again ? ran : ran_again, all, sums);
    free(shares);
    return SUCCESS;
}
