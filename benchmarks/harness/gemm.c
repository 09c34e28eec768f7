/* Matrix products by libxsmm, or by regard's engine, as a worker of gemm.py: "forward|gradient  rows  in  out" on each line
   of standard input, {"value": GFLOP/s} on standard output. Both are called from C: a call from Python takes 3 us, an eighth
   of the smallest product.

   With -DLIBXSMM: JIT kernels for small tiles that reduce over blocks of the inner dimension (BRGEMM), which is how
   libxsmm's own fully connected layers do it: weights lie in blocks, packed once for the forward product; the gradient's
   operand is packed within the measured time, as regard's is. Of some tiles the fastest is taken. libxsmm is column-major:
   y (rows, out) here is its C (out x rows). Without: the engine's library, whose path is the argument. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LIBXSMM
#include <libxsmm.h>
#else
#include <dlfcn.h>
#endif

typedef struct {
    int m, n, k;
} Tile;

typedef struct {
    int gradient, rows, in, out;
    float *x, *w, *y, *packed, *turned;
    Tile tile;
#ifdef LIBXSMM
    libxsmm_smmfunction_reducebatch_strd kernel;
#endif
} Work;

static float *numbers(size_t count, unsigned seed) {
    float *to = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    if (!to) exit(1);
    for (size_t i = 0; i < count; i++) to[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24) - 0.5f;
    return to;
}

static void run(Work *w);

static double seconds_of(Work *w, double at_least) {
    int calls = 0;
    double start = omp_get_wtime(), spent;
    do run(w), calls++;
    while ((spent = omp_get_wtime() - start) < at_least);
    return spent / calls;
}

#ifdef LIBXSMM

static const int WIDE[] = {64, 32, 16}, HIGH[] = {64, 32, 16}, DEEP[] = {64, 32};

/* from (deep, wide) with a row length, or turned (wide, deep) -> (wide / m, deep / k, k, m) */
static void pack(const float *from, int row, int turned, int wide, int deep, Tile t, float *to) {
#pragma omp parallel for collapse(2) schedule(static)
    for (int a = 0; a < wide / t.m; a++)
        for (int b = 0; b < deep / t.k; b++) {
            float *at = to + ((size_t)a * (deep / t.k) + b) * t.k * t.m;
            for (int k = 0; k < t.k; k++)
                for (int m = 0; m < t.m; m++) {
                    size_t d = (size_t)b * t.k + k, w = (size_t)a * t.m + m;
                    at[k * t.m + m] = turned ? from[w * row + d] : from[d * row + w];
                }
        }
}

static int dispatch(Work *w, Tile t) {
    int wide = w->gradient ? w->in : w->out, deep = w->gradient ? w->rows : w->in, high = w->gradient ? w->out : w->rows;
    if (wide % t.m || deep % t.k || high % t.n) return 0;
    float one = 1, zero = 0;
    libxsmm_blasint lda = t.m, ldb = w->gradient ? t.k : w->in, ldc = wide;
    libxsmm_blasint stride_b = w->gradient ? (libxsmm_blasint)sizeof(float) * t.k * high : (libxsmm_blasint)sizeof(float) * t.k;
    w->tile = t;
    w->kernel = libxsmm_smmdispatch_reducebatch_strd(t.m, t.n, t.k, (libxsmm_blasint)sizeof(float) * t.m * t.k, stride_b,
                                                     &lda, &ldb, &ldc, &one, &zero, NULL, NULL);
    return w->kernel != NULL;
}

static void run(Work *w) {
    Tile t = w->tile;
    int wide = w->gradient ? w->in : w->out, deep = w->gradient ? w->rows : w->in, high = w->gradient ? w->out : w->rows;
    const float *b = w->x;
    if (w->gradient) { /* x (rows, in) in blocks; g (rows, out), in w->w, in blocks of rows -> (rows / k, out, k) */
        pack(w->x, w->in, 0, wide, deep, t, w->packed);
#pragma omp parallel for collapse(2) schedule(static)
        for (int block = 0; block < deep / t.k; block++)
            for (int o = 0; o < high; o += 16)
                for (int k = 0; k < t.k; k++)
                    for (int i = o; i < o + 16; i++)
                        w->turned[((size_t)block * high + i) * t.k + k] = w->w[((size_t)block * t.k + k) * high + i];
        b = w->turned;
    }
    size_t row = w->gradient ? (size_t)t.k : (size_t)w->in;
    unsigned long long count = deep / t.k;
#pragma omp parallel for collapse(2) schedule(static)
    for (int a = 0; a < wide / t.m; a++)
        for (int n = 0; n < high / t.n; n++)
            w->kernel(w->packed + (size_t)a * t.m * deep, b + (size_t)n * t.n * row,
                      w->y + (size_t)n * t.n * wide + (size_t)a * t.m, &count);
}

static void choose(Work *w) {
    Tile best = {0, 0, 0};
    double least = 1e9;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 2; k++) {
                Tile t = {WIDE[i], HIGH[j], DEEP[k]};
                if (!dispatch(w, t)) continue;
                if (!w->gradient) pack(w->w, w->in, 1, w->out, w->in, t, w->packed);
                run(w);
                double seconds = seconds_of(w, 0.005);
                if (seconds < least) least = seconds, best = t;
            }
    if (!best.m || !dispatch(w, best)) {
        printf("{\"absent\": \"libxsmm has no kernel for this processor\"}\n");
        exit(1);
    }
    if (!w->gradient) pack(w->w, w->in, 1, w->out, w->in, best, w->packed);
}

#else

typedef void Gemm(const float *, int64_t, const float *, const float *, int64_t, int64_t, int64_t, int, float *);
typedef int WeightGrad(const float *, int64_t, int64_t, const float *, int64_t, int64_t, int, float *);
static Gemm *gemm;
static WeightGrad *gemm_weight_grad;
static void (*gemm_pack)(const float *, float *, int64_t, int64_t, int);

static void run(Work *w) {
    if (w->gradient)
        gemm_weight_grad(w->w, w->out, w->out, w->x, w->in, w->rows, 0, w->y);
    else
        gemm(w->x, w->rows, w->packed, NULL, w->in, w->out, w->out, 0, w->y);
}

static void choose(Work *w) {
    if (!w->gradient) gemm_pack(w->w, w->packed, w->out, w->in, 0);
}

#endif

static int is_right(const Work *w) {
    int wide = w->gradient ? w->in : w->out, high = w->gradient ? w->out : w->rows;
    for (int n = 0; n < high; n += high / 7)
        for (int m = 0; m < wide; m += wide / 7) {
            double sum = 0;
            if (w->gradient)
                for (int r = 0; r < w->rows; r++) sum += (double)w->w[(size_t)r * w->out + n] * w->x[(size_t)r * w->in + m];
            else
                for (int i = 0; i < w->in; i++) sum += (double)w->x[(size_t)n * w->in + i] * w->w[(size_t)m * w->in + i];
            if (fabs(sum - w->y[(size_t)n * wide + m]) > 1e-3 * (1 + fabs(sum))) return 0;
        }
    return 1;
}

static void prepare(Work *w) {
    size_t rows = w->rows, in = w->in, out = w->out;
    w->x = numbers(rows * in, 1);
    w->w = numbers(w->gradient ? rows * out : out * in, 2);
    w->y = numbers(w->gradient ? out * in : rows * out, 3);
    w->packed = numbers(w->gradient ? rows * in : out * in, 4);
    w->turned = numbers(w->gradient ? rows * out : 1, 5);
    choose(w);
    run(w);
    if (!is_right(w)) {
        printf("{\"absent\": \"wrong result\"}\n");
        exit(1);
    }
}

static void start(int count, char **arguments) {
#ifdef LIBXSMM
    (void)count, (void)arguments;
    libxsmm_init();
#else
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library) {
        gemm = (Gemm *)dlsym(library, "gemm"), gemm_weight_grad = (WeightGrad *)dlsym(library, "gemm_weight_grad");
        gemm_pack = (void (*)(const float *, float *, int64_t, int64_t, int))dlsym(library, "gemm_pack");
    }
    if (!gemm || !gemm_weight_grad || !gemm_pack) {
        printf("{\"absent\": \"the engine's library cannot be opened\"}\n");
        exit(1);
    }
#endif
}

int main(int arguments_count, char **arguments) {
    static Work works[256];
    int count = 0;
    char line[128], name[32];
    start(arguments_count, arguments);
    printf("{\"ready\": true}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        Work asked = {0};
        if (sscanf(line, "%31s %d %d %d", name, &asked.rows, &asked.in, &asked.out) != 4) return 1;
        asked.gradient = !strcmp(name, "gradient");
        int i = 0;
        while (i < count && (works[i].gradient != asked.gradient || works[i].rows != asked.rows ||
                             works[i].in != asked.in || works[i].out != asked.out))
            i++;
        if (i == count) {
            if (count == 256) return 1;
            works[count] = asked;
            prepare(&works[count++]);
        }
        double seconds = seconds_of(&works[i], 0.1);
        printf("{\"value\": %.6g}\n", 2e-9 * asked.rows * asked.in * asked.out / seconds);
        fflush(stdout);
    }
    return 0;
}
