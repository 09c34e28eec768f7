/* ---- Products for decoding: a row's result has the same bits whatever rows stand beside it. ---- */

#define PANEL 16

/* A matrix (out, in), or (in, out) if turned, -> panels of sixteen outputs, (panels, in, 16), filled up with zeros. */
void lay_out(const float *matrix, float *panels, int64_t out, int64_t in, int turned) {
#pragma omp parallel for schedule(static) if (out * in > SMALL)
    for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++) {
        float *to = panels + p * in * PANEL;
        int64_t o = p * PANEL, some = out - o < PANEL ? out - o : PANEL;
        if (some < PANEL) memset(to, 0, sizeof(float) * in * PANEL);
        if (turned && some == PANEL)
            for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * PANEL);
        else if (turned)
            for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * some);
        else
            for (int64_t first = 0; first < in; first += PANEL)
                for (int64_t j = 0; j < some; j++)
                    for (int64_t k = first; k < first + PANEL && k < in; k++)
                        to[k * PANEL + j] = matrix[(o + j) * in + k];
    }
}

/* The widest vector of sums that this processor adds to at once; a panel is one of them, or two. */
#ifdef __AVX512F__
#define WIDE 16
#else
#define WIDE 8
#endif
#define SPANS (PANEL / WIDE)
typedef float wide_sums __attribute__((vector_size(4 * WIDE), aligned(4)));
typedef int32_t wide_bits __attribute__((vector_size(4 * WIDE), aligned(4)));

/* R rows by P panels. R and P are numbers where this is used, so that the sums stay in registers. */
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)
#define TILE_OF(R, P)                                                                                          \
    static void tile_##R##_##P(const float *x, int64_t xrow, const float *panel, int64_t in, const float *bias, \
                               int relu, float *y, int64_t yrow, int64_t valid) {                             \
        wide_sums sums[R][SPANS * P];                                                                         \
        EACH(r, R) EACH(j, SPANS * P) sums[r][j] = (wide_sums){0};                                            \
        for (int64_t k = 0; k < in; k++) {                                                                    \
            wide_sums w[SPANS * P];                                                                           \
            EACH(j, SPANS * P)                                                                                \
                w[j] = *(const wide_sums *)(panel + (j / SPANS * in + k) * PANEL + j % SPANS * WIDE);         \
            EACH(r, R) {                                                                                      \
                float each = x[r * xrow + k];                                                                 \
                EACH(j, SPANS * P) sums[r][j] += each * w[j];                                                 \
            }                                                                                                 \
        }                                                                                                     \
        EACH(r, R) {                                                                                          \
            float *to = y + r * yrow;                                                                         \
            if (valid >= PANEL * P) {                                                                         \
                EACH(j, SPANS * P) {                                                                          \
                    wide_sums row = sums[r][j];                                                               \
                    if (bias) row += *(const wide_sums *)(bias + WIDE * j);                                   \
                    if (relu) row = (wide_sums)((wide_bits)row & (wide_bits)(row > 0));                       \
                    *(wide_sums *)(to + WIDE * j) = row;                                                      \
                }                                                                                             \
            } else {                                                                                          \
                float row[PANEL * P];                                                                         \
                EACH(j, SPANS * P) *(wide_sums *)(row + WIDE * j) = sums[r][j];                               \
                for (int64_t j = 0; j < valid; j++) {                                                         \
                    float each = row[j] + (bias ? bias[j] : 0.0f);                                            \
                    to[j] = relu && each < 0 ? 0.0f : each;                                                   \
                }                                                                                             \
            }                                                                                                 \
        }                                                                                                     \
    }

typedef void Tile(const float *x, int64_t xrow, const float *panel, int64_t in, const float *bias, int relu, float *y,
                  int64_t yrow, int64_t valid);

/* As many sums as there are registers for: few rows take more panels at once. */
TILE_OF(1, 1)
TILE_OF(2, 1)
TILE_OF(3, 1)
TILE_OF(4, 1)
TILE_OF(5, 1)
TILE_OF(6, 1)
#ifdef __AVX512F__
#define TALL 12
#define FOR_MANY 2
#define FOR_FEW 4
#define FOR_ONE 8
TILE_OF(12, 1)
TILE_OF(1, 2)
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(4, 2)
TILE_OF(5, 2)
TILE_OF(6, 2)
TILE_OF(12, 2)
TILE_OF(2, 4)
TILE_OF(3, 4)
TILE_OF(1, 8)
static Tile *const MANY[] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, [TALL] = tile_12_2};
static Tile *const FEW[] = {NULL, NULL, tile_2_4, tile_3_4};
static Tile *const ONE[] = {NULL, tile_1_8};
static Tile *const LAST[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, [TALL] = tile_12_1};
#else
#define TALL 6
#define FOR_MANY 1
#define FOR_FEW 2
#define FOR_ONE 4
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(1, 4)
static Tile *const MANY[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};
static Tile *const FEW[] = {NULL, NULL, tile_2_2, tile_3_2};
static Tile *const ONE[] = {NULL, tile_1_4};
static Tile *const *const LAST = MANY;
#endif

#define ROWS_A_TASK 96

/* y (rows, out) = x (rows, in) times laid-out weights, plus bias if there is one, with ReLU if asked. */
void multiply(const float *x, int64_t rows, const float *panels, const float *bias, int64_t in, int64_t out,
              int64_t yrow, int relu, float *y) {
    int64_t count = (out + PANEL - 1) / PANEL, group = rows == 1 ? FOR_ONE : rows <= 3 ? FOR_FEW : FOR_MANY;
    Tile *const *tiles = rows == 1 ? ONE : rows <= 3 ? FEW : MANY;
    int64_t groups = (count + group - 1) / group, tasks = (rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
#pragma omp parallel for collapse(2) schedule(static) if (rows * in * out > 4 * SMALL)
    for (int64_t t = 0; t < tasks; t++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t last = (t + 1) * ROWS_A_TASK < rows ? (t + 1) * ROWS_A_TASK : rows;
            int64_t p = g * group, until = p + group < count ? p + group : count, whole = until - p == group;
            for (int64_t r = t * ROWS_A_TASK, many; r < last; r += many) {
                many = last - r >= TALL ? TALL : last - r >= 6 ? 6 : last - r;
                Tile *tile = whole ? tiles[many] : LAST[many];
                for (int64_t at = p; at < until; at += whole ? group : 1)
                    tile(x + r * in, in, panels + at * in * PANEL, in, bias ? bias + at * PANEL : NULL, relu,
                         y + r * yrow + at * PANEL, yrow, out - at * PANEL);
            }
        }
}
