/* ---- The loss: scores (rows, words) without bias become their own gradient. ---- */

/* Divergence from targets that give `sure` to the gold word and `spread` to every other but padding. losses has
 * one place a row. With gbias, scores are replaced by the gradient and gbias receives its sum over rows. */
int smoothed_rows(float *scores, const float *bias, const int64_t *gold, int64_t rows, int64_t words,
                  int64_t padding, float sure, float spread, double *losses, float *gbias) {
    int threads = rows * words > SMALL ? omp_get_max_threads() : 1, ran = 1, status = SUCCESS;
    float *sums = gbias ? allocate_zeros(checked_mul(threads, words), sizeof(float), &status) : NULL;
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        float *sum = gbias ? sums + (size_t)omp_get_thread_num() * words : NULL;
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            float *s = scores + row * words;
            int64_t g = gold[row];
            float most = -INFINITY, all = 0, powers = 0;
#pragma omp simd reduction(max : most) reduction(+ : all)
            for (int64_t i = 0; i < words; i++) {
                float each = s[i] + bias[i];
                s[i] = each;
                most = each > most ? each : most;
                all += each;
            }
            float at_gold = s[g], at_padding = s[padding];
#pragma omp simd reduction(+ : powers)
            for (int64_t i = 0; i < words; i++) {
                float each = exponential(s[i] - most);
                s[i] = each;
                powers += each;
            }
            double norm = (double)most + log((double)powers);
            losses[row] = -((double)(sure - spread) * (at_gold - norm) +
                            (double)spread * ((double)all - at_padding - (double)(words - 1) * norm));
            if (!sum) continue;
            float share = 1.0f / powers;
#pragma omp simd
            for (int64_t i = 0; i < words; i++) {
                float each = s[i] * share - spread;
                s[i] = each;
                sum[i] += each;
            }
            s[padding] += spread;
            sum[padding] += spread;
            s[g] -= sure - spread;
            sum[g] -= sure - spread;
        }
    }
    for (int t = 0; gbias && t < ran; t++)
        for (int64_t i = 0; i < words; i++) gbias[i] += sums[(size_t)t * words + i];
    free(sums);
    return SUCCESS;
}

/* R-Drop: two passes over the same rows. What `smoothed_rows` does to each, by half, and `weight` times half of
 * KL(p, q) + KL(q, p) between them. With gbias, both become their gradients. */
int twin_rows(float *first, float *second, const float *bias, const int64_t *gold, int64_t rows, int64_t words,
              int64_t padding, float sure, float spread, float weight, double *losses, float *gbias) {
    int threads = rows * words > SMALL ? omp_get_max_threads() : 1, ran = 1, status = SUCCESS;
    float *sums = gbias ? allocate_zeros(checked_mul(threads, words), sizeof(float), &status) : NULL;
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        float *sum = gbias ? sums + (size_t)omp_get_thread_num() * words : NULL;
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            float *both[2] = {first + row * words, second + row * words}, norms[2];
            int64_t g = gold[row];
            double loss = 0;
            for (int side = 0; side < 2; side++) {
                float *s = both[side], most = -INFINITY, all = 0, powers = 0;
#pragma omp simd reduction(max : most) reduction(+ : all)
                for (int64_t i = 0; i < words; i++) {
                    float each = s[i] + bias[i];
                    s[i] = each;
                    most = each > most ? each : most;
                    all += each;
                }
#pragma omp simd reduction(+ : powers)
                for (int64_t i = 0; i < words; i++) powers += exponential(s[i] - most);
                double norm = (double)most + log((double)powers);
                norms[side] = (float)norm;
                loss -= 0.5 * ((double)(sure - spread) * (s[g] - norm) +
                               (double)spread * ((double)all - s[padding] - (double)(words - 1) * norm));
            }
            float *s = both[0], *t = both[1], ahead = 0, back = 0;
#pragma omp simd reduction(+ : ahead, back)
            for (int64_t i = 0; i < words; i++) {
                float a = s[i] - norms[0], b = t[i] - norms[1];
                ahead += exponential(a < 0 ? a : 0) * (a - b);
                back += exponential(b < 0 ? b : 0) * (b - a);
            }
            losses[row] = loss + 0.5 * (double)weight * ((double)ahead + (double)back);
            if (!sum) continue;
#pragma omp simd
            for (int64_t i = 0; i < words; i++) {
                float a = s[i] - norms[0], b = t[i] - norms[1];
                float p = exponential(a < 0 ? a : 0), q = exponential(b < 0 ? b : 0), apart = a - b;
                float of_s = 0.5f * (p - spread + weight * (p * (apart - ahead) + p - q));
                float of_t = 0.5f * (q - spread + weight * (q * (-apart - back) + q - p));
                s[i] = of_s;
                t[i] = of_t;
                sum[i] += of_s + of_t;
            }
            for (int side = 0; side < 2; side++) {
                both[side][padding] += 0.5f * spread;
                both[side][g] -= 0.5f * (sure - spread);
            }
            sum[padding] += spread;
            sum[g] -= sure - spread;
        }
    }
    for (int t = 0; gbias && t < ran; t++)
        for (int64_t i = 0; i < words; i++) gbias[i] += sums[(size_t)t * words + i];
    free(sums);
    return SUCCESS;
}
