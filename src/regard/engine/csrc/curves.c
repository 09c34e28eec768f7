/* ---- exp for arguments that are not positive; the compiler makes vectors of it. ---- */

static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    float whole = rintf(x * 1.44269504f);
    float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    union {
        int32_t bits;
        float value;
    } power = {(int32_t)((uint32_t)((int32_t)whole + 127) << 23)};
    return y * power.value;
}

/* The same for eight at once, where the compiler would not see it. */
static inline v8 exponentials(v8 x) {
    i8 low = (i8)(x < -87.0f);
    v8 lowest = {-87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f, -87.0f};
    x = (v8)((low & (i8)lowest) | (~low & (i8)x));
    v8 shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f; /* 3 * 2^22: rounds to whole numbers */
    v8 r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    v8 y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    return y * (v8)((__builtin_convertvector(whole, i8) + 127) << 23);
}

/* ---- GELU by the tanh that is close to it: x times a share, which is a logistic curve of x + 0.044715 x^3. ---- */

static inline float gelu_share(float x) {
    float u = 1.5957691216f * (x + 0.044715f * x * x * x);
    float e = exponential(u < 0 ? u : -u), all = 1.0f / (1.0f + e);
    return u < 0 ? e * all : all;
}

/* x (rows, columns) becomes x + bias, and out its GELU. */
void gelu(float *x, const float *bias, float *out, int64_t rows, int64_t columns) {
#pragma omp parallel for schedule(static) if (rows * columns > SMALL)
    for (int64_t row = 0; row < rows; row++) {
        float *xr = x + row * columns, *outr = out + row * columns;
#pragma omp simd
        for (int64_t i = 0; i < columns; i++) {
            float each = xr[i] + bias[i];
            xr[i] = each;
            outr[i] = each * gelu_share(each);
        }
    }
}

/* x is what `gelu` left there: gx = g times its slope; gbias is the sum of that over the rows. */
int gelu_backward(const float *g, const float *x, float *gx, float *gbias, int64_t rows, int64_t columns) {
    int threads = rows * columns > SMALL ? omp_get_max_threads() : 1, ran = 1, status = SUCCESS;
    float *sums = allocate_zeros(checked_mul(threads, columns), sizeof(float), &status);
    if (status) return status;
#pragma omp parallel num_threads(threads)
    {
        float *sum = sums + (size_t)omp_get_thread_num() * columns;
        if (omp_get_thread_num() == 0) ran = omp_get_num_threads();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            const float *gr = g + row * columns, *xr = x + row * columns;
            float *gxr = gx + row * columns;
#pragma omp simd
            for (int64_t i = 0; i < columns; i++) {
                float s = gelu_share(xr[i]), steep = 1.5957691216f * (1.0f + 3 * 0.044715f * xr[i] * xr[i]);
                float each = gr[i] * (s + xr[i] * s * (1.0f - s) * steep);
                gxr[i] = each;
                sum[i] += each;
            }
        }
    }
    memset(gbias, 0, columns * sizeof(float));
    for (int t = 0; t < ran; t++)
        for (int64_t i = 0; i < columns; i++) gbias[i] += sums[(size_t)t * columns + i];
    free(sums);
    return SUCCESS;
}

static inline float added_up(v8 x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}
