/* Activations of the feed-forward network with dropout, a row at a time, and their gradients. */
#include "engine.h"

/* 1 / (1 + exp(-x)). */
static inline float sigmoid(float x) {
    float e = exp_nonpositive(x < 0 ? x : -x), reciprocal = 1.0f / (1.0f + e);
    return x < 0 ? e * reciprocal : reciprocal;
}

/* The standard normal distribution function and density at x (Abramowitz and Stegun 7.1.26; error below 1e-7). */
static inline float normal_cdf(float x, float *density) {
    float a = (x < 0 ? -x : x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * a), e = exp_nonpositive(-a * a);
    float tail = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    tail *= 0.5f * e;
    *density = 0.39894228f * e;
    return x < 0 ? tail : 1.0f - tail;
}

/* GELU by tanh is x times a sigmoid (Hendrycks and Gimpel 2016). */
static inline float gelu_tanh_gate(float x) { return sigmoid(1.5957691216f * (x + 0.044715f * x * x * x)); }

static void activate(int activation, const float *h, float *out, int64_t d_ff) {
    float density;
    switch (activation) {
    case RELU:
        for (int64_t i = 0; i < d_ff; i++) out[i] = h[i] > 0 ? h[i] : 0.0f;
        break;
    case GELU:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) out[i] = h[i] * normal_cdf(h[i], &density);
        break;
    case GELU_TANH:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) out[i] = h[i] * gelu_tanh_gate(h[i]);
        break;
    case SILU:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) out[i] = h[i] * sigmoid(h[i]);
        break;
    default: /* SWIGLU */
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) out[i] = h[i] * sigmoid(h[i]) * h[d_ff + i];
    }
}

/* From g, the gradient of the activation: grad, the gradient of h (for SWIGLU: gate and value), and out, the activation before
 * dropout. */
static void activate_backward(int activation, const float *h, const float *g, float *grad, float *out, int64_t d_ff) {
    switch (activation) {
    case GELU:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) {
            float density, x = h[i], cdf = normal_cdf(x, &density);
            out[i] = x * cdf;
            grad[i] = g[i] * (cdf + x * density);
        }
        break;
    case GELU_TANH:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) {
            float x = h[i], s = gelu_tanh_gate(x), slope = 1.5957691216f * (1.0f + 3 * 0.044715f * x * x);
            out[i] = x * s;
            grad[i] = g[i] * (s + x * s * (1.0f - s) * slope);
        }
        break;
    case SILU:
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) {
            float x = h[i], s = sigmoid(x);
            out[i] = x * s;
            grad[i] = g[i] * (s + x * s * (1.0f - s));
        }
        break;
    default: /* SWIGLU */
#pragma omp simd
        for (int64_t i = 0; i < d_ff; i++) {
            float x = h[i], value = h[d_ff + i], s = sigmoid(x), silu = x * s, upstream = g[i];
            out[i] = silu * value;
            grad[i] = upstream * value * (s + silu * (1.0f - s));
            grad[d_ff + i] = upstream * silu;
        }
    }
}

static int64_t hidden_units(int activation, int64_t d_ff) { return activation == SWIGLU ? 2 * d_ff : d_ff; }

void activation_forward(int activation, const float *hidden, float *out, int64_t first_row, int64_t rows, int64_t d_ff,
                        int threshold, uint64_t seed) {
    int64_t width = hidden_units(activation, d_ff);
#pragma omp parallel for schedule(static) if (rows * d_ff > PARALLEL_MIN && !omp_in_parallel())
    for (int64_t r = 0; r < rows; r++) {
        activate(activation, hidden + r * width, out + r * d_ff, d_ff);
        dropout_row(out + r * d_ff, first_row + r, d_ff, threshold, seed);
    }
}

void activation_backward(int activation, const float *hidden, const float *grad_out, float *grad_hidden, float *out,
                         int64_t first_row, int64_t rows, int64_t d_ff, int threshold, uint64_t seed) {
    int64_t width = hidden_units(activation, d_ff);
    if (activation == RELU) { /* `hidden` is 0 where it was dropped or negative */
        float scale = 256.0f / (256 - threshold);
        for (int64_t i = 0; i < rows * d_ff; i++) grad_hidden[i] = hidden[i] > 0 ? grad_out[i] * scale : 0.0f;
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        float *g = grad_hidden + r * width, *o = out + r * d_ff;
        dropout_add(NULL, grad_out + r * d_ff, g, first_row + r, 1, d_ff, threshold, seed);
        activate_backward(activation, hidden + r * width, g, g, o, d_ff);
        dropout_row(o, first_row + r, d_ff, threshold, seed);
    }
}
