/* Unit tests of the native engine, in C: compiled with the sources of the engine, and run by test_c_units.py; under
 * AddressSanitizer with leak detection by test_sanitizers.py. Prints what is wrong, and how many checks were made. */
#include "memory.c"
#include "dropout.c"
#include "activations.c"
#include "gemm.c"
#include "attention.c"
#include "stack.c"
#include "loss.c"
#include "train_step.c"
#include "decoder.c"
#include "knn.c"
#include "beam_search.c"
#include "token_merging.c"
#include "muon.c"
#include "fingerprint.c"
#include "kernels.c"

#include <stdio.h>

static int checks, failures;

#define CHECK(condition, ...)                                     \
    do {                                                          \
        checks++;                                                 \
        if (!(condition)) {                                       \
            failures++;                                           \
            printf("%s:%d: %s: ", __func__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                  \
            printf("\n");                                         \
        }                                                         \
    } while (0)

static uint32_t state = 12345;

/* Between -1 and 1. */
static float random_float(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1.0f;
}

/* Memory for a test; without any the tests end. */
static void *room_for(int64_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        fprintf(stderr, "out of memory: %lld bytes\n", (long long)bytes);
        exit(2);
    }
    return memory;
}

static float *random_floats(int64_t count) {
    float *x = room_for(sizeof(float) * count);
    for (int64_t i = 0; i < count; i++) x[i] = random_float();
    return x;
}

static double *doubles(int64_t count) { return room_for(sizeof(double) * count); }

static int close_to(double found, double expected, double tolerance) { return fabs(found - expected) <= tolerance; }

/* ---- Memory. ---- */

static void test_checked_sizes(void) {
    CHECK(checked_mul(3, 4) == 12 && checked_mul(0, INT64_MAX) == 0, "small");
    CHECK(checked_mul(INT64_MAX, 2) == INT64_MAX && checked_mul(1ll << 32, 1ll << 32) == INT64_MAX, "overflow");
    CHECK(checked_mul(-1, 5) == INT64_MAX && checked_add(-1, 5) == INT64_MAX, "negative");
    CHECK(checked_add(INT64_MAX, 1) == INT64_MAX && checked_add(2, 3) == 5, "sum");
    CHECK(checked_mul(checked_add(INT64_MAX, 1), 2) == INT64_MAX, "stays");
}

static void test_allocate(void) {
    int status = SUCCESS;
    float *x = allocate_zeros(100, sizeof(float), &status), *none = allocate(0, sizeof(float), &status);
    CHECK(!status && x && none && x[99] == 0, "success");
    CHECK(!allocate(INT64_MAX, 2, &status) && status == SIZES_OVERFLOW, "overflow: %d", status);
    CHECK(!allocate(1, 1, &status) && status == SIZES_OVERFLOW, "the first failure stays");
    status = SUCCESS;
    CHECK(!allocate(-1, 4, &status) && status == SIZES_OVERFLOW, "negative: %d", status);
    status = SUCCESS;
    fail_allocation_after(1);
    void *first = allocate(4, 4, &status);
    CHECK(first && !status, "the first succeeds");
    CHECK(!allocate(4, 4, &status) && status == OUT_OF_MEMORY, "the second fails: %d", status);
    status = SUCCESS;
    void *third = allocate(4, 4, &status);
    CHECK(third && !status, "only once");
    free(first), free(third), free(x), free(none);
}

static void test_arena(void) {
    float memory[64];
    Arena arena = arena_of(memory, 64);
    CHECK(take(&arena, 5) == memory && take(&arena, 16) == memory + 16, "parts begin at multiples");
    CHECK(take(&arena, 0) == memory + 32, "nothing");
    CHECK(take(&arena, 32) == memory + 32 && !arena.exhausted, "exactly what is left");
    CHECK(!take(&arena, 1) && arena.exhausted, "exhausted");
    CHECK(!take(&arena, 0), "it stays exhausted");
    arena = arena_of(memory, 20);
    CHECK(take(&arena, 17) == memory && !arena.exhausted, "the last part may end before a multiple");
    CHECK(!take(&arena, 1) && arena.exhausted, "nothing is left");
    arena = arena_of(memory, 64);
    CHECK(!take(&arena, INT64_MAX) && arena.exhausted, "no overflow");
    arena = arena_of(memory, 64);
    CHECK(!take(&arena, -1) && arena.exhausted, "negative");
    arena = counting_arena();
    CHECK(!take(&arena, 5) && !take(&arena, 16) && arena.used == 32 && !arena.exhausted, "without memory it counts");
    CHECK(!take(&arena, INT64_MAX) && arena.exhausted, "up to a limit");
}

/* ---- Matrix products against sums in double. ---- */

static void test_gemm(void) {
    const int64_t all_rows[] = {0, 1, 2, 3, 4, 5, 11, 13, 25, 200}, all_in[] = {1, 7, 33, 513}, all_out[] = {1, 15, 16, 17, 50, 130};
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 6; c++)
                for (int transposed = 0; transposed < 2; transposed++) {
                    int64_t rows = all_rows[a], in = all_in[b], out = all_out[c], wrong = 0;
                    int how = (a + b + c) % 4;
                    float *x = random_floats(rows * in), *w = random_floats(in * out), *bias = random_floats(out);
                    float *y = random_floats(rows * out), *panels = room_for(sizeof(float) * (out + PANEL) * in);
                    double *expected = doubles(rows * out);
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t o = 0; o < out; o++) {
                            double sum = (how & GEMM_ACCUMULATE ? y[r * out + o] : 0.0) + bias[o];
                            for (int64_t i = 0; i < in; i++)
                                sum += (double)x[r * in + i] * (transposed ? w[i * out + o] : w[o * in + i]);
                            expected[r * out + o] = how & GEMM_RELU && sum < 0 ? 0 : sum;
                        }
                    gemm_pack(w, panels, out, in, transposed);
                    gemm(x, rows, panels, bias, in, out, out, how, y);
                    for (int64_t i = 0; i < rows * out; i++) wrong += !close_to(y[i], expected[i], 1e-5 * sqrt(in) + 1e-5);
                    CHECK(!wrong, "%ld of (%ld, %ld) x %ld, how %d", (long)wrong, (long)rows, (long)out, (long)in, how);
                    free(x), free(w), free(bias), free(y), free(panels), free(expected);
                }
}

static void test_weight_grad(void) {
    const int64_t all_rows[] = {1, 7, 257, 600}, sizes[] = {1, 12, 17, 48, 200};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 5; c++) {
                int64_t rows = all_rows[a], out = sizes[b], in = sizes[c], wrong = 0;
                int how = (a + b + c) % 2 ? GEMM_ACCUMULATE : 0;
                float *g = random_floats(rows * out), *x = random_floats(rows * in), *w = random_floats(out * in);
                double *expected = doubles(out * in);
                for (int64_t o = 0; o < out; o++)
                    for (int64_t i = 0; i < in; i++) {
                        expected[o * in + i] = how ? w[o * in + i] : 0;
                        for (int64_t r = 0; r < rows; r++) expected[o * in + i] += (double)g[r * out + o] * x[r * in + i];
                    }
                CHECK(!gemm_weight_grad(g, out, out, x, in, rows, how, w), "status");
                for (int64_t i = 0; i < out * in; i++) wrong += !close_to(w[i], expected[i], 1e-5 * sqrt(rows) + 1e-5);
                CHECK(!wrong, "%ld of (%ld, %ld) over %ld rows", (long)wrong, (long)out, (long)in, (long)rows);
                free(g), free(x), free(w), free(expected);
            }
}

static void test_small_gemm(void) {
    for (int m = 1; m < 10; m++)
        for (int n = 8; n <= 40; n += 8)
            for (int k = 0; k < 20; k += 3) {
                float *a = random_floats(m * k), *b = random_floats(k * n), *c = random_floats(m * n);
                int wrong = 0;
                small_gemm(a, k, 1, b, n, c, n, m, k, n);
                for (int i = 0; i < m; i++)
                    for (int j = 0; j < n; j++) {
                        double sum = 0;
                        for (int p = 0; p < k; p++) sum += (double)a[i * k + p] * b[p * n + j];
                        wrong += !close_to(c[i * n + j], sum, 1e-5);
                    }
                CHECK(!wrong, "%d of (%d, %d) x %d", wrong, m, n, k);
                free(a), free(b), free(c);
            }
}

/* ---- Curves, softmax and layer norm. ---- */

static void test_exp(void) {
    double worst = 0, worst_of_eight = 0;
    for (float x = -87.0f; x <= 0; x += 0.0037f) {
        f32x8 eight = exp8_nonpositive((f32x8){0} + x);
        double exact = exp((double)x);
        worst = fmax(worst, fabs(exp_nonpositive(x) / exact - 1));
        for (int l = 0; l < 8; l++) worst_of_eight = fmax(worst_of_eight, fabs(eight[l] / exact - 1));
    }
    CHECK(worst < 3e-7, "relative error %g", worst);
    CHECK(worst_of_eight < 3e-7, "relative error %g", worst_of_eight);
    CHECK(exp_nonpositive(0) == 1.0f && exp_nonpositive(-1e30f) > 0 && exp_nonpositive(-1e30f) < 2e-38f, "ends");
    CHECK(exp8_nonpositive((f32x8){0} - INFINITY)[3] < 2e-38f, "minus infinity");
}

static void test_softmax(void) {
    for (int keys = 1; keys < 40; keys++) {
        int wide = padded(keys);
        float *w = random_floats(wide);
        double expected[64], sum = 0;
        for (int j = 0; j < keys; j++) w[j] *= 20, sum += expected[j] = exp((double)w[j]);
        float share = softmax_scale(w, keys, wide);
        for (int j = 0; j < keys; j++)
            CHECK(close_to(w[j] * share, expected[j] / sum, 1e-6), "%d of %d: %g", j, keys, w[j] * share);
        free(w);
    }
}

static void test_layer_norm(void) {
    for (int width = 1; width < 130; width += 13) {
        float *x = random_floats(3 * width), *weight = random_floats(width), *bias = random_floats(width);
        float *y = random_floats(3 * width);
        LayerNorm norm = {weight, bias, -1, -1, 1e-5f};
        layer_norm_forward(&norm, x, 3, width, y);
        for (int r = 0; r < 3; r++) {
            double mean = 0, variance = 0, worst = 0;
            for (int i = 0; i < width; i++) mean += x[r * width + i] / (double)width;
            for (int i = 0; i < width; i++) variance += (x[r * width + i] - mean) * (x[r * width + i] - mean) / width;
            for (int i = 0; i < width; i++) {
                double exact = (x[r * width + i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
                worst = fmax(worst, fabs(y[r * width + i] - exact));
            }
            CHECK(worst < 1e-5, "width %d: %g", width, worst);
        }
        free(x), free(weight), free(bias), free(y);
    }
}

/* ---- Attention of packed sequences against loops in double. ---- */

static void test_attention(int causal) {
    enum { HEADS = 2, SIZE = 8, WIDTH = HEADS * SIZE };
    int32_t qstart[] = {0, 3, 4, 21, 29, 70}, kstart[] = {0, 5, 6, 15, 55, 63};
    const int32_t *kat = causal ? qstart : kstart;
    int queries = qstart[5], keys = kat[5];
    float *q = random_floats(queries * WIDTH), *k = random_floats(keys * WIDTH), *v = random_floats(keys * WIDTH);
    float *out = random_floats(queries * WIDTH), *norms = random_floats(queries * HEADS);
    VarlenAttention a = {.query = q, .key = k, .value = v, .query_stride = WIDTH, .key_stride = WIDTH, .value_stride = WIDTH,
                         .query_offsets = qstart, .key_offsets = kat, .sequences = 5, .heads = HEADS, .head_size = SIZE,
                         .causal = causal};
    CHECK(!attention_forward(&a, out, norms), "status");
    double worst = 0;
    for (int s = 0; s < 5; s++)
        for (int i = qstart[s]; i < qstart[s + 1]; i++)
            for (int h = 0; h < HEADS; h++) {
                double mixed[SIZE] = {0}, sum = 0;
                int seen = causal ? i + 1 : kat[s + 1];
                for (int j = kat[s]; j < seen; j++) {
                    double score = 0;
                    for (int c = 0; c < SIZE; c++) score += (double)q[i * WIDTH + h * SIZE + c] * k[j * WIDTH + h * SIZE + c];
                    score = exp(score / sqrt(SIZE)), sum += score;
                    for (int c = 0; c < SIZE; c++) mixed[c] += score * v[j * WIDTH + h * SIZE + c];
                }
                for (int c = 0; c < SIZE; c++) worst = fmax(worst, fabs(out[i * WIDTH + h * SIZE + c] - mixed[c] / sum));
            }
    CHECK(worst < 1e-5, "causal %d: %g", causal, worst);

    /* The same when only the last three sequences are given, found by where they begin in the batch. */
    int64_t first_q = qstart[2], first_k = kat[2];
    float *some = random_floats((queries - first_q) * WIDTH), *some_norms = random_floats((queries - first_q) * HEADS);
    a.query = q + first_q * WIDTH, a.key = k + first_k * WIDTH, a.value = v + first_k * WIDTH;
    a.query_offsets = qstart + 2, a.key_offsets = kat + 2, a.sequences = 3, a.query_base = first_q, a.key_base = first_k;
    CHECK(!attention_forward(&a, some, some_norms), "status");
    CHECK(!memcmp(some, out + first_q * WIDTH, sizeof(float) * (queries - first_q) * WIDTH), "part of a batch");
    free(q), free(k), free(v), free(out), free(norms), free(some), free(some_norms);
}

static void test_attention_without_keys(void) {
    int32_t qstart[] = {0, 4}, kstart[] = {0, 0};
    float *q = random_floats(32), out[32], norms[4];
    VarlenAttention a = {.query = q, .key = q, .value = q, .query_stride = 8, .key_stride = 8, .value_stride = 8,
                         .query_offsets = qstart, .key_offsets = kstart, .sequences = 1, .heads = 1, .head_size = 8};
    CHECK(!attention_forward(&a, out, norms), "status");
    for (int i = 0; i < 32; i++) CHECK(out[i] == 0, "%g", out[i]);
    free(q);
}

/* ---- Activations against their formulas in double, and slopes against differences. ---- */

static double exact_activation(int activation, double x) {
    switch (activation) {
    case RELU: return x > 0 ? x : 0;
    case GELU: return 0.5 * x * erfc(-x / sqrt(2));
    case GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x / (1 + exp(-x));
    }
}

static void test_activations(void) {
    enum { N = 1600 };
    float hidden[2 * N], out[N], grad_out[N], grad[2 * N], again[N];
    for (int activation = GELU; activation <= SWIGLU; activation++) {
        double worst = 0, worst_slope = 0;
        for (int i = 0; i < N; i++) hidden[i] = (i - N / 2) * 0.0125f, hidden[N + i] = 1.5f, grad_out[i] = 1;
        activation_forward(activation, hidden, out, 0, 1, N, 0, 0);
        activation_backward(activation, hidden, grad_out, grad, again, 0, 1, N, 0, 0);
        for (int i = 0; i < N; i++) {
            double x = hidden[i], step = 1e-4, scale = activation == SWIGLU ? 1.5 : 1;
            double slope = (exact_activation(activation, x + step) - exact_activation(activation, x - step)) / (2 * step);
            worst = fmax(worst, fabs(out[i] - scale * exact_activation(activation, x)));
            worst_slope = fmax(worst_slope, fabs(grad[i] - scale * slope));
            CHECK(out[i] == again[i], "the backward pass computes %g again as %g", out[i], again[i]);
        }
        CHECK(worst < (activation == SWIGLU ? 3e-6 : 2e-6) && worst_slope < 3e-6, "activation %d: %g, slope %g", activation, worst, worst_slope);
    }
}

/* ---- Rotary positions turn back. ---- */

static void test_rotate(void) {
    enum { HEADS = 2, SIZE = 8 };
    float table[5 * SIZE], *x = random_floats(HEADS * SIZE), before[HEADS * SIZE];
    for (int p = 0; p < 5; p++)
        for (int i = 0; i < SIZE; i += 2) table[p * SIZE + i] = cosf(p * 0.3f + i), table[p * SIZE + i + 1] = sinf(p * 0.3f + i);
    memcpy(before, x, sizeof(before));
    rotate(x, table, HEADS, SIZE, 3, 0);
    CHECK(fabs(x[0] - before[0]) > 1e-3, "it rotates");
    rotate(x, table, HEADS, SIZE, 3, 1);
    for (int i = 0; i < HEADS * SIZE; i++) CHECK(close_to(x[i], before[i], 1e-6), "%g", x[i] - before[i]);
    free(x);
}

/* ---- Dropout. ---- */

static void test_dropout_bytes(void) {
    enum { BLOCKS = 100000 };
    int64_t counts[256] = {0};
    for (int64_t block = 0; block < BLOCKS; block++) {
        uint8_t bytes[DROPOUT_BLOCK];
        dropout_bytes(0x123456789abcdefull, block, bytes);
        for (int i = 0; i < DROPOUT_BLOCK; i++) counts[bytes[i]]++;
    }
    double expected = BLOCKS * DROPOUT_BLOCK / 256.0;
    for (int value = 0; value < 256; value++)
        CHECK(close_to(counts[value], expected, 6 * sqrt(expected)), "%d comes %ld times", value, (long)counts[value]);
}

/* Rows from one on get what they get in the whole batch. */
static void test_dropout_offsets(void) {
    enum { ROWS = 25, COLUMNS = 40, N = ROWS * COLUMNS };
    float *x = random_floats(N), *y = random_floats(N), *whole = random_floats(N), *part = random_floats(N);
    for (int with_x = 0; with_x < 2; with_x++)
        for (int row = 0; row < ROWS; row += 3) {
            int at = row * COLUMNS;
            dropout_add(with_x ? x : NULL, y, whole, 0, ROWS, COLUMNS, 77, 99);
            dropout_add(with_x ? x + at : NULL, y + at, part + at, row, ROWS - row, COLUMNS, 77, 99);
            CHECK(!memcmp(whole + at, part + at, sizeof(float) * (N - at)), "from row %d", row);
        }
    free(x), free(y), free(whole), free(part);
}

/* ---- Search. ---- */

static void test_insert_ranked(void) {
    enum { ROOM = 5, LONGEST = 4 };
    Finished best[ROOM + 1];
    int32_t texts[ROOM + 1][LONGEST], written[LONGEST];
    for (int i = 0; i <= ROOM; i++) best[i].ids = texts[i];
    Ranking ranking = {best, 0, ROOM, LONGEST};
    double highest[ROOM];
    for (int i = 0; i < ROOM; i++) highest[i] = -INFINITY;
    for (int n = 0; n < 300; n++) {
        double score = (int)(20 * random_float());
        for (int i = 0; i < LONGEST; i++) written[i] = (int)(4 + 2 * random_float());
        insert_ranked(&ranking, score, 2 * score, written, 3, n % 2 ? 7 : 1, 1);
        double last = score;
        for (int i = 0; i < ROOM; i++)
            if (last > highest[i]) {
                double swap = highest[i];
                highest[i] = last, last = swap;
            }
        CHECK(ranking.count == (n < ROOM ? n + 1 : ROOM), "count %d", ranking.count);
        for (int i = 0; i < ranking.count; i++) {
            CHECK(best[i].score == highest[i] && best[i].total == 2 * highest[i], "place %d after %d", i, n);
            CHECK(best[i].length == 3 || (best[i].length == 4 && best[i].ids[3] == 7), "length %d", best[i].length);
            CHECK(!i || !ranks_before(&best[i], &best[i - 1]), "order at %d", i);
        }
    }
}

static void test_top_of_rows(void) {
    for (int words = 1; words < 300; words += 23)
        for (int wanted = 1; wanted <= words && wanted <= 80; wanted += 13) {
            float *s = random_floats(words), *best = random_floats(wanted), norm;
            int64_t *tokens = room_for(sizeof(int64_t) * wanted);
            double sum = 0;
            for (int i = 0; i < words; i++) s[i] = floorf(s[i] * 50) / 4, sum += exp((double)s[i]);
            top_of_rows(s, 1, words, wanted, best, tokens, &norm);
            CHECK(close_to(norm, log(sum), 1e-4), "norm %g", norm);
            for (int n = 0; n < wanted; n++) { /* as many are before it as its place says */
                int before = 0;
                for (int i = 0; i < words; i++) before += s[i] > best[n] || (s[i] == best[n] && i < tokens[n]);
                CHECK(s[tokens[n]] == best[n] && before == n, "place %d of %d words: %d before", n, words, before);
            }
            free(s), free(best), free(tokens);
        }
}

/* ---- Whole models, all of whose weights are the same numbers: every allocation fails once, and nothing leaks. ---- */

enum { TINY = 32, TINY_WORDS = 24, TINY_FLOATS = 8192, TINY_SEQUENCES = 3 };
static const int64_t TINY_IDS[] = {4, 5, 6, 2, 9, 2, 7, 8, 2, 4, 5, 6, 2, 9, 2, 7, 8, 2};
static const int32_t TINY_OFFSETS[] = {0, 4, 6, 9, 13, 15, 18};

/* An encoder of two sublayers and a decoder of three; they must stay where they are. */
typedef struct {
    Sublayer encoder[2], decoder[3];
    TokenLoss loss;
} Tiny;

static void make_tiny(Tiny *tiny, const float *floats, int passes, int dropout, int activation, int pre_norm) {
    *tiny = (Tiny){0};
    LayerNorm norm = {floats, floats, 0, 0, 1e-5f};
    for (int n = 0; n < 3; n++) {
        Sublayer *s = &tiny->decoder[n];
        *s = (Sublayer){.kind = n == 2 ? FEED_FORWARD : n ? CROSS_ATTENTION : SELF_ATTENTION, .pre_norm = pre_norm, .heads = 4,
                        .causal = n == 0, .activation = activation, .dropout = dropout, .inner_dropout = dropout, .d_ff = TINY,
                        .seed = 3 + n, .inner_seed = 7 + n, .norm = norm};
        for (int i = 0; i < LINEARS; i++) s->linear[i] = (Linear){floats, floats, 0, 0};
    }
    tiny->encoder[0] = tiny->decoder[0], tiny->encoder[1] = tiny->decoder[2], tiny->encoder[0].causal = 0;
    Stack encoder = {.d_model = TINY, .count = 2, .sublayers = tiny->encoder, .norm = norm, .dropout = dropout, .seed = 5};
    Stack decoder = {.d_model = TINY, .count = 3, .sublayers = tiny->decoder, .norm = norm, .dropout = dropout, .seed = 6};
    Embedding embedding = {floats, floats, 0, 0, 1};
    tiny->loss = (TokenLoss){.encoder = encoder, .decoder = decoder, .source_embedding = embedding, .target_embedding = embedding,
                             .source_ids = TINY_IDS, .target_ids = TINY_IDS, .labels = TINY_IDS, .source_offsets = TINY_OFFSETS,
                             .target_offsets = TINY_OFFSETS, .sequences = TINY_SEQUENCES, .passes = passes,
                             .output = {floats, floats, 0, 0}, .vocabulary = TINY_WORDS, .parameters = TINY_FLOATS,
                             .confidence = 0.9f, .off_value = 0.1f / (TINY_WORDS - 2), .r_drop = passes - 1};
}

static int tiny_loss(const float *floats, int passes, int activation, double *loss, float *gradient) {
    Tiny tiny;
    make_tiny(&tiny, floats, passes, 26, activation, activation % 2);
    return token_loss(&tiny.loss, loss, gradient);
}

static int tiny_search(const float *floats, int threads) {
    enum { NBEST = 2, LONGEST = 20 };
    Tiny tiny;
    make_tiny(&tiny, floats, 1, 0, GELU, 1);
    float *packed[2], offsets[PANEL] = {0};
    int32_t tokens[PANEL] = {5, 6, 7};
    Stack *stacks[] = {&tiny.loss.encoder, &tiny.loss.decoder};
    for (int i = 0; i < 2; i++) {
        packed[i] = room_for(sizeof(float) * stack_packed_floats(stacks[i], 0));
        CHECK(!stack_pack(stacks[i], 0, packed[i]), "packs");
    }
    Decoder encoder = {tiny.loss.encoder, tiny.loss.source_embedding, NULL, NULL, 0};
    Decoder decoder = {tiny.loss.decoder, tiny.loss.target_embedding, floats, floats, TINY_WORDS};
    Decoder encoders[] = {encoder, encoder}, decoders[] = {decoder, decoder};
    Datastore stores[] = {{.keys = floats, .offsets = offsets, .ids = tokens, .entries = PANEL, .count = 2, .sharpness = 0.1f,
                           .weight = 0.3f}, {0}};
    SearchConfig config = {.beam = 3, .nbest = NBEST, .max_length = LONGEST, .begin = 1, .end = 2, .length_penalty = 1};
    int32_t ids[TINY_SEQUENCES * NBEST * LONGEST], lengths[TINY_SEQUENCES * NBEST];
    double scores[TINY_SEQUENCES * NBEST], totals[TINY_SEQUENCES * NBEST];
    use_threads(threads);
    int status = beam_search(encoders, decoders, stores, 2, &config, TINY_IDS, TINY_OFFSETS, TINY_SEQUENCES, ids, lengths, scores,
                             totals);
    free(packed[0]), free(packed[1]);
    return status;
}

/* A chunk with too little memory is refused, wherever it ends; AddressSanitizer would see a write beyond the end. */
static void test_exhausted_step(int passes, int activation, int pre_norm) {
    float *floats = random_floats(TINY_FLOATS), *gradient = random_floats(TINY_FLOATS);
    SavedSublayer saved[MAX_PASSES * 7];
    Pass passed[MAX_PASSES] = {{.encoder = saved, .decoder = saved + 3}, {.encoder = saved + 7, .decoder = saved + 10}};
    Tiny tiny;
    make_tiny(&tiny, floats, passes, 26, activation, pre_norm);
    const TokenLoss *t = &tiny.loss;
    Stack *stacks[] = {&tiny.loss.encoder, &tiny.loss.decoder};
    float *packed[2], *output = room_for(sizeof(float) * gemm_packed_floats(TINY_WORDS, TINY));
    float *output_t = room_for(sizeof(float) * gemm_packed_floats(TINY, TINY_WORDS));
    for (int i = 0; i < 2; i++) {
        packed[i] = room_for(sizeof(float) * stack_packed_floats(stacks[i], 1));
        CHECK(!stack_pack(stacks[i], 1, packed[i]), "packs");
    }
    gemm_pack(floats, output, TINY_WORDS, TINY, 0), gemm_pack(floats, output_t, TINY, TINY_WORDS, 1);
    StackRun run = {.sequences = TINY_SEQUENCES * passes, .saves = 1};
    Step step = {t, run, run, output, output_t, 1};
    step.encoder.stack = &t->encoder, step.decoder.stack = &t->decoder;
    step.encoder.offsets = step.decoder.offsets = step.decoder.source_offsets = TINY_OFFSETS;
    Range range = {0, TINY_SEQUENCES};
    Arena counted = counting_arena();
    CHECK(!allocate_chunk(&step, range, passed, &counted), "counts");
    int64_t enough = counted.used + scratch_floats(&step, range);
    int succeeded = 0;
    for (int64_t count = 0; count <= enough; count += count + 397 > enough && count < enough ? enough - count : 397) {
        double loss = 0;
        float *some = random_floats(count);
        int status = step_chunk(&step, passed, range, arena_of(some, count), gradient, &loss);
        CHECK(status == (succeeded ? SUCCESS : ARENA_EXHAUSTED) || !status, "%ld of %ld: %d", (long)count, (long)enough, status);
        succeeded = !status;
        free(some);
    }
    CHECK(succeeded, "what is computed to be needed is enough");
    free(floats), free(gradient), free(output), free(output_t), free(packed[0]), free(packed[1]);
}

static void test_failing_allocations(void) {
    float *floats = random_floats(TINY_FLOATS), *gradient = random_floats(TINY_FLOATS), *again = random_floats(TINY_FLOATS);
    for (int threads = 1; threads <= 3; threads++)
        for (int which = 0; which < 5; which++) { /* search, then one and two passes with different activations */
            double loss = 0, undisturbed = 0;
            int status = OUT_OF_MEMORY, count = 0, passes = 1 + which % 2, activation = which > 2 ? SWIGLU : RELU;
            use_threads(threads);
            if (which) CHECK(!tiny_loss(floats, passes, activation, &undisturbed, gradient) && isfinite(undisturbed), "learns");
            for (; status == OUT_OF_MEMORY && count < 10000; count++) {
                fail_allocation_after(count);
                status = which ? tiny_loss(floats, passes, activation, &loss, again) : tiny_search(floats, threads);
            }
            fail_allocation_after(-1);
            CHECK(!status && count > 10, "status %d after %d allocations", status, count);
            if (which) CHECK(loss == undisturbed && !memcmp(again, gradient, sizeof(float) * TINY_FLOATS), "%g", loss);
        }
    free(floats), free(gradient), free(again);
}

int main(void) {
    test_checked_sizes();
    test_allocate();
    test_arena();
    test_gemm();
    test_weight_grad();
    test_small_gemm();
    test_exp();
    test_softmax();
    test_layer_norm();
    test_attention(0);
    test_attention(1);
    test_attention_without_keys();
    test_activations();
    test_rotate();
    test_dropout_bytes();
    test_dropout_offsets();
    test_insert_ranked();
    test_top_of_rows();
    test_failing_allocations();
    for (int activation = RELU; activation <= SWIGLU; activation++)
        for (int passes = 1; passes <= MAX_PASSES; passes++) test_exhausted_step(passes, activation, activation % 2);
    printf("%d checks, %d failures\n", checks, failures);
    return failures > 0;
}
