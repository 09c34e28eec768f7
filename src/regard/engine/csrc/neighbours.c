/* ---- Neighbours: what was written at those places of remembered sentences that are nearest to this one. ---- */

typedef struct {
    const float *keys;    /* laid out */
    const float *offsets; /* minus half of each key's square */
    const int32_t *words; /* what was written there */
    int64_t places;
    int count; /* neighbours that are asked */
    float sharpness, weight;
} Remembered;

#define KEYS_AT_ONCE 1024 /* which stay near while rows are compared with them; whole panels for any product */
#define ROWS_COMPARED 36

/* The nearest so far (best first, of equal ones the first place), when some more fits have come. */
static int nearer(const float *fits, int64_t first, int64_t some, int count, int found, float *best, int64_t *which) {
    for (int64_t i = 0; i < some; i += BLOCK) {
        int64_t until = i + BLOCK < some ? i + BLOCK : some;
        if (found == count && until - i == BLOCK) { /* hardly any block has one */
            float least = best[count - 1];
            int any = 0;
            for (int l = 0; l < BLOCK; l++) any |= fits[i + l] > least;
            if (!any) continue;
        }
        for (int64_t j = i; j < until; j++) {
            if (found == count && !(fits[j] > best[count - 1])) continue;
            int at = found < count ? found++ : count - 1;
            for (; at > 0 && best[at - 1] < fits[j]; at--) best[at] = best[at - 1], which[at] = which[at - 1];
            best[at] = fits[j], which[at] = first + j;
        }
    }
    return found;
}

/* The `count` places nearest to each query (rows, width): which (rows, count), and how they fit, which is q.k - |k|^2 / 2,
 * half of |q|^2 less the squared distance. There must be as many places. */
int nearest(const Remembered *m, const float *query, int64_t rows, int64_t width, int count, float *best,
            int64_t *which) {
    int64_t groups = (rows + ROWS_COMPARED - 1) / ROWS_COMPARED;
    int status = SUCCESS;
#pragma omp parallel if (groups > 1)
    {
        int failed = SUCCESS;
        float *fits = allocate(ROWS_COMPARED * KEYS_AT_ONCE, sizeof(float), &failed);
        report(&status, failed);
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < groups; g++) {
            if (failed) continue;
            int64_t row = g * ROWS_COMPARED, many = rows - row < ROWS_COMPARED ? rows - row : ROWS_COMPARED;
            int found = 0, more = 0;
            for (int64_t first = 0; first < m->places; first += KEYS_AT_ONCE, found = more) {
                int64_t some = m->places - first < KEYS_AT_ONCE ? m->places - first : KEYS_AT_ONCE;
                multiply(query + row * width, many, m->keys + first * width, m->offsets + first, width, some, some, 0,
                         fits);
                for (int64_t r = 0; r < many; r++)
                    more = nearer(fits + r * some, first, some, count, found, best + (row + r) * count,
                                  which + (row + r) * count);
            }
        }
        free(fits);
    }
    return status;
}

/* A model's scores (rows, words) become log probabilities in which the neighbours of its queries (rows, width) have a
 * say: (1 - weight) softmax(scores) + weight * kernel regression over what stood there. */
int ask_neighbours(const Remembered *m, const float *query, int64_t rows, int64_t width, float *scores,
                   int64_t words) {
    int count = m->count, status = SUCCESS;
    int64_t *which = allocate(checked_mul(rows, count), sizeof(int64_t), &status);
    float *best = allocate(checked_mul(rows, count), sizeof(float), &status);
    if (!status) status = nearest(m, query, rows, width, count, best, which);
    if (status) {
        free(which), free(best);
        return status;
    }
    float kept = logf(1 - m->weight), sharp = m->sharpness * m->sharpness;
    for (int64_t r = 0; r < rows; r++) {
        float *s = scores + r * words, *near = best + r * count, most = -INFINITY, rest = 0, all = 0;
        const int64_t *at = which + r * count;
        int64_t i = 0;
        v8 powers = {0};
        for (int64_t j = 0; j < words; j++) most = s[j] > most ? s[j] : most;
        for (; i + 8 <= words; i += 8) powers += exponentials(*(const v8 *)(s + i) - most);
        for (; i < words; i++) rest += exponential(s[i] - most);
        float shift = kept - (most + logf(rest + added_up(powers))), nearest_one = near[0];
        for (i = 0; i < words; i++) s[i] += shift;
        for (i = 0; i < count; i++) all += near[i] = expf(sharp * (near[i] - nearest_one));
        for (i = 0; i < count; i++) {
            float *word = s + m->words[at[i]];
            *word = logf(expf(*word) + m->weight * near[i] / all);
        }
    }
    free(which), free(best);
    return SUCCESS;
}
