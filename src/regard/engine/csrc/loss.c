/* Label-smoothed cross entropy and its gradient, computed while a row of logits is in the cache. */
#include "engine.h"

DEFINE_EXP_NONPOSITIVE(exp_wide, wide_floats, wide_ints)

float sum_exp(const float *x, int64_t n, float most) {
    wide_floats powers = {0};
    float sum = 0;
    int64_t i = 0;
    for (; i + WIDEST <= n; i += WIDEST) powers += exp_wide(*(const wide_floats *)(x + i) - most);
    for (; i < n; i++) sum += exp_nonpositive(x[i] - most);
    for (int l = 0; l < WIDEST; l++) sum += powers[l];
    return sum;
}

typedef struct {
    const float *bias;
    int64_t vocabulary, padding;
    float confidence, off_value, weight;
    int backward;
} Smoothing;

/* Add the bias; returns the largest logit, and in `sum` the sum of all. */
static float add_bias(const Smoothing *l, float *s, float *sum) {
    float most = -INFINITY, all = 0;
    const float *bias = l->bias;
    if (bias)
#pragma omp simd reduction(max : most) reduction(+ : all)
        for (int64_t i = 0; i < l->vocabulary; i++) {
            float logit = s[i] + bias[i];
            s[i] = logit;
            most = logit > most ? logit : most;
            all += logit;
        }
    else
#pragma omp simd reduction(max : most) reduction(+ : all)
        for (int64_t i = 0; i < l->vocabulary; i++) {
            most = s[i] > most ? s[i] : most;
            all += s[i];
        }
    *sum = all;
    return most;
}

/* The divergence without its constant part, from logits at the label and at padding, their sum, and log sum exp. */
static double divergence(const Smoothing *l, float at_label, float at_padding, float all, double log_sum_exp) {
    return -((double)(l->confidence - l->off_value) * (at_label - log_sum_exp) +
             (double)l->off_value * ((double)all - at_padding - (double)(l->vocabulary - 1) * log_sum_exp));
}

/* The loss of a row of logits, which is overwritten by its gradient. */
static double smoothed_row(const Smoothing *l, float *s, int64_t label) {
    float all, most = add_bias(l, s, &all), total = 0, at_label = s[label], at_padding = s[l->padding];
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < l->vocabulary; i++) {
        float power = exp_nonpositive(s[i] - most);
        s[i] = power;
        total += power;
    }
    if (l->backward) {
        float reciprocal = 1.0f / total, off_value = l->off_value;
#pragma omp simd
        for (int64_t i = 0; i < l->vocabulary; i++) s[i] = s[i] * reciprocal - off_value;
        s[l->padding] += off_value;
        s[label] -= l->confidence - off_value;
    }
    return divergence(l, at_label, at_padding, all, (double)most + log((double)total));
}

/* The R-Drop loss of two rows of logits, which are overwritten by their gradients. */
static double r_drop_row(const Smoothing *l, float *s, float *t, int64_t label) {
    float *both[2] = {s, t}, norms[2], forward = 0, backward = 0, weight = l->weight, off_value = l->off_value;
    double loss = 0;
    for (int pass = 0; pass < 2; pass++) {
        float *x = both[pass], all, most = add_bias(l, x, &all), total = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < l->vocabulary; i++) total += exp_nonpositive(x[i] - most);
        double log_sum_exp = (double)most + log((double)total);
        norms[pass] = (float)log_sum_exp;
        loss += 0.5 * divergence(l, x[label], x[l->padding], all, log_sum_exp);
    }
#pragma omp simd reduction(+ : forward, backward)
    for (int64_t i = 0; i < l->vocabulary; i++) {
        float a = s[i] - norms[0], b = t[i] - norms[1];
        forward += exp_nonpositive(a < 0 ? a : 0) * (a - b);
        backward += exp_nonpositive(b < 0 ? b : 0) * (b - a);
    }
    if (l->backward) {
#pragma omp simd
        for (int64_t i = 0; i < l->vocabulary; i++) {
            float a = s[i] - norms[0], b = t[i] - norms[1];
            float p = exp_nonpositive(a < 0 ? a : 0), q = exp_nonpositive(b < 0 ? b : 0), distance = a - b;
            s[i] = 0.5f * (p - off_value + weight * (p * (distance - forward) + p - q));
            t[i] = 0.5f * (q - off_value + weight * (q * (-distance - backward) + q - p));
        }
        for (int pass = 0; pass < 2; pass++) {
            both[pass][l->padding] += 0.5f * off_value;
            both[pass][label] -= 0.5f * (l->confidence - off_value);
        }
    }
    return loss + 0.5 * (double)weight * ((double)forward + (double)backward);
}

static void add_row(float *sum, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* Rows are divided among threads; each sums up its own bias gradient. */
static int loss_of_rows(const Smoothing *l, float *first, float *second, const int64_t *labels, int64_t rows, double *losses,
                        float *grad_bias) {
    int alone = rows * l->vocabulary <= PARALLEL_MIN || omp_in_parallel(), status = SUCCESS;
    int threads = alone ? 1 : omp_get_max_threads(), ran = 1;
    float *others = grad_bias && threads > 1 ? allocate_zeros(checked_mul(threads - 1, l->vocabulary), sizeof(float), &status) : NULL;
    if (status) return status;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int thread = omp_get_thread_num();
        float *sum = thread && grad_bias ? others + (thread - 1) * l->vocabulary : grad_bias;
        if (thread == 0) ran = omp_get_num_threads();
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            float *s = first + r * l->vocabulary, *t = second ? second + r * l->vocabulary : NULL;
            losses[r] = t ? r_drop_row(l, s, t, labels[r]) : smoothed_row(l, s, labels[r]);
            if (sum) add_row(sum, s, l->vocabulary);
            if (sum && t) add_row(sum, t, l->vocabulary);
        }
    }
    for (int t = 0; others && t < ran - 1; t++) add_row(grad_bias, others + t * l->vocabulary, l->vocabulary);
    free(others);
    return SUCCESS;
}

int smoothed_cross_entropy(float *logits, const float *bias, const int64_t *labels, int64_t rows, int64_t vocabulary,
                           int64_t padding, float confidence, float off_value, int backward, double *losses,
                           float *grad_bias) {
    Smoothing l = {bias, vocabulary, padding, confidence, off_value, 0, backward};
    return loss_of_rows(&l, logits, NULL, labels, rows, losses, backward ? grad_bias : NULL);
}

int r_drop_cross_entropy(float *first, float *second, const float *bias, const int64_t *labels, int64_t rows,
                         int64_t vocabulary, int64_t padding, float confidence, float off_value, float weight, int backward,
                         double *losses, float *grad_bias) {
    Smoothing l = {bias, vocabulary, padding, confidence, off_value, weight, backward};
    return loss_of_rows(&l, first, second, labels, rows, losses, backward ? grad_bias : NULL);
}
