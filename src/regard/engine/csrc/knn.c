/* kNN datastore: nearest neighbours of hidden states, and their tokens (Khandelwal et al. 2021). */
#include "engine.h"

#define KEY_BLOCK 1024 /* keys that stay in the cache while queries are compared with them: whole panels of gemm.c */
#define QUERY_ROWS 36

/* Insert the next `keys_now` keys with proximities `proximities` into the sorted list of the nearest; ties keep the first entry. */
static int insert_nearest(const float *proximities, int64_t first, int64_t keys_now, int count, int found, float *best,
                          int64_t *entries) {
    for (int64_t i = 0; i < keys_now; i += DROPOUT_BLOCK) {
        int64_t until = i + DROPOUT_BLOCK < keys_now ? i + DROPOUT_BLOCK : keys_now;
        if (found == count && until - i == DROPOUT_BLOCK) { /* few blocks contain one */
            float least = best[count - 1];
            int any = 0;
            for (int l = 0; l < DROPOUT_BLOCK; l++) any |= proximities[i + l] > least;
            if (!any) continue;
        }
        for (int64_t j = i; j < until; j++) {
            if (found == count && !(proximities[j] > best[count - 1])) continue;
            int at = found < count ? found++ : count - 1;
            for (; at > 0 && best[at - 1] < proximities[j]; at--) best[at] = best[at - 1], entries[at] = entries[at - 1];
            best[at] = proximities[j], entries[at] = first + j;
        }
    }
    return found;
}

int nearest_keys(const Datastore *store, const float *query, int64_t rows, int64_t d_model, int count, float *best,
                 int64_t *entries) {
    int64_t groups = (rows + QUERY_ROWS - 1) / QUERY_ROWS;
    int status = SUCCESS;
#pragma omp parallel if (groups > 1)
    {
        int failed = SUCCESS;
        float *proximities = allocate(QUERY_ROWS * KEY_BLOCK, sizeof(float), &failed);
        report_status(&status, failed);
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < groups; g++) {
            if (failed) continue;
            int64_t row = g * QUERY_ROWS, rows_now = rows - row < QUERY_ROWS ? rows - row : QUERY_ROWS;
            int found = 0, more = 0;
            for (int64_t first = 0; first < store->entries; first += KEY_BLOCK, found = more) {
                int64_t keys_now = store->entries - first < KEY_BLOCK ? store->entries - first : KEY_BLOCK;
                gemm(query + row * d_model, rows_now, store->keys + first * d_model, store->offsets + first, d_model, keys_now, keys_now, 0,
                         proximities);
                for (int64_t r = 0; r < rows_now; r++)
                    more = insert_nearest(proximities + r * keys_now, first, keys_now, count, found, best + (row + r) * count,
                                  entries + (row + r) * count);
            }
        }
        free(proximities);
    }
    return status;
}

int mix_neighbours(const Datastore *store, const float *query, int64_t rows, int64_t d_model, float *logits,
                   int64_t vocabulary) {
    int count = store->count, status = SUCCESS;
    int64_t *entries = allocate(checked_mul(rows, count), sizeof(int64_t), &status);
    float *best = allocate(checked_mul(rows, count), sizeof(float), &status);
    if (!status) status = nearest_keys(store, query, rows, d_model, count, best, entries);
    if (status) {
        free(entries), free(best);
        return status;
    }
    float kept = logf(1 - store->weight), sharp = store->sharpness * store->sharpness;
    for (int64_t r = 0; r < rows; r++) {
        float *s = logits + r * vocabulary, *near = best + r * count, most = -INFINITY, all = 0;
        const int64_t *at = entries + r * count;
        for (int64_t j = 0; j < vocabulary; j++) most = s[j] > most ? s[j] : most;
        float shift = kept - (most + logf(sum_exp(s, vocabulary, most))), nearest_one = near[0];
        for (int64_t j = 0; j < vocabulary; j++) s[j] += shift;
        for (int i = 0; i < count; i++) all += near[i] = expf(sharp * (near[i] - nearest_one));
        for (int i = 0; i < count; i++) {
            float *word = s + store->ids[at[i]];
            *word = logf(expf(*word) + store->weight * near[i] / all);
        }
    }
    free(entries), free(best);
    return SUCCESS;
}
