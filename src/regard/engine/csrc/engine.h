/* Types and functions of the native engine: one packed (variable-length) Transformer stack for training and decoding.
 *
 * Float32, row-major. A packed batch holds the rows of its sequences one after another; `offsets` (sequences + 1) says where
 * each begins. Dropout rates are thresholds in 256ths. Functions that return int return a status of memory.c.
 *
 * src/regard/engine/header.py reads the structs and the functions marked EXPORT from this file, so that ctypes has no copy of
 * them: a field is declared alone or with others of its type, an array has a size that is a number or a constant of an enum.
 */
#ifndef REGARD_ENGINE_H
#define REGARD_ENGINE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_num_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_in_parallel(void) { return 0; }
static inline void omp_set_num_threads(int threads) { (void)threads; }
#endif

#define EXPORT __attribute__((visibility("default")))

#define DROPOUT_BLOCK 32   /* elements whose random bytes are drawn together */
#define PARALLEL_MIN 16384 /* elements below which a second thread costs more than it saves */
#define PANEL 16           /* outputs of a packed matrix that are computed together */
#define LANES 8            /* floats in a vector, */

typedef float f32x8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t i32x8 __attribute__((vector_size(32), aligned(4)));

#ifdef __AVX512F__ /* and in the widest vector of this processor */
#define WIDEST 16
#elif defined __AVX__
#define WIDEST 8
#else
#define WIDEST 4
#endif
typedef float wide_floats __attribute__((vector_size(4 * WIDEST), aligned(4)));
typedef int32_t wide_ints __attribute__((vector_size(4 * WIDEST), aligned(4)));

#define UNROLL(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

/* ---- memory.c: checked sizes and allocations. ---- */

enum { SUCCESS, OUT_OF_MEMORY, SIZES_OVERFLOW, ARENA_EXHAUSTED };

EXPORT void fail_allocation_after(int64_t count);
int64_t checked_mul(int64_t a, int64_t b);
int64_t checked_add(int64_t a, int64_t b);
void *allocate(int64_t count, int64_t size, int *status);
void *allocate_zeros(int64_t count, int64_t size, int *status);
void report_status(int *shared, int status);
int shared_status(const int *shared);

/* Consecutive parts of one allocation. Without memory (base is NULL) it only counts how much would be taken. */
typedef struct {
    float *base;
    int64_t used, capacity; /* floats */
    int exhausted;
} Arena;

Arena arena_of(float *memory, int64_t capacity);
Arena counting_arena(void);
float *take(Arena *arena, int64_t count);

/* ---- dropout.c ---- */

void dropout_bytes(uint64_t seed, uint64_t block, uint8_t *bytes);
/* out = x + dropout(y) for rows from `first_row` of the batch on; x may be NULL. Every row begins with a block of its own. The
 * backward pass is the same function with the gradient as y. */
void dropout_add(const float *x, const float *y, float *out, int64_t first_row, int64_t rows, int64_t columns, int threshold,
                 uint64_t seed);
/* x *= dropout mask of a row */
void dropout_row(float *x, int64_t row, int64_t columns, int threshold, uint64_t seed);

/* ---- activations.c ---- */

enum { RELU, GELU, GELU_TANH, SILU, SWIGLU };

/* out (rows, d_ff) = dropout(activation(hidden)); hidden (rows, d_ff), for SWIGLU (rows, 2 d_ff): gate and value. RELU may be
 * in place. */
void activation_forward(int activation, const float *hidden, float *out, int64_t first_row, int64_t rows, int64_t d_ff,
                        int threshold, uint64_t seed);
/* The gradient of `hidden` from the one of `out`; `out` is computed again, unless it is RELU: then `hidden` is what
 * activation_forward left in place. */
void activation_backward(int activation, const float *hidden, const float *grad_out, float *grad_hidden, float *out,
                         int64_t first_row, int64_t rows, int64_t d_ff, int threshold, uint64_t seed);

/* exp(x) for x <= 0; the compiler vectorizes it. */
static inline float exp_nonpositive(float x) {
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

/* The same for all floats of a vector. */
#define DEFINE_EXP_NONPOSITIVE(NAME, FLOATS, INTS)                                                                          \
    static inline FLOATS NAME(FLOATS x) {                                                                                   \
        INTS low = (INTS)(x < -87.0f);                                                                                      \
        x = (FLOATS)((low & (INTS)((FLOATS){0} - 87.0f)) | (~low & (INTS)x));                                               \
        FLOATS shifted = x * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f; /* 3 * 2^22: rounds */               \
        FLOATS r = x - whole * 0.693359375f + whole * 2.12194440e-4f;                                                       \
        FLOATS y = r * 1.9875691500e-4f + 1.3981999507e-3f;                                                                 \
        y = y * r + 8.3334519073e-3f;                                                                                       \
        y = y * r + 4.1665795894e-2f;                                                                                       \
        y = y * r + 1.6666665459e-1f;                                                                                       \
        y = y * r + 5.0000001201e-1f;                                                                                       \
        y = y * r * r + r + 1.0f;                                                                                           \
        return y * (FLOATS)((__builtin_convertvector(whole, INTS) + 127) << 23);                                            \
    }

DEFINE_EXP_NONPOSITIVE(exp8_nonpositive, f32x8, i32x8)

static inline float sum8(f32x8 x) { return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7])); }

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (i32x8){__VA_ARGS__})
#endif

/* ---- gemm.c: the matrix product behind one interface. The result of a row is bit-identical in any batch. ---- */

enum { GEMM_RELU = 1, GEMM_ACCUMULATE = 2 };

/* Floats of a matrix (out, in) in panels of PANEL outputs: (panels, in, PANEL). */
EXPORT int64_t gemm_packed_floats(int64_t out, int64_t in);
/* matrix (out, in), or (in, out) if transposed. */
EXPORT void gemm_pack(const float *matrix, float *packed, int64_t out, int64_t in, int transposed);
/* A transposed matrix (in, out) as inputs `first` to first + in of a packed matrix with `depth` inputs. */
void gemm_pack_inputs(const float *matrix, float *packed, int64_t out, int64_t in, int64_t first, int64_t depth);
/* y (rows, out) = x (rows, in) times a packed matrix, plus bias if there is one; rows of y begin y_stride floats apart. */
EXPORT void gemm(const float *x, int64_t rows, const float *packed, const float *bias, int64_t in, int64_t out,
                 int64_t y_stride, int flags, float *y);
/* w (out, in) = g (rows, out) transposed times x (rows, in), the gradient of a weight matrix; rows of g begin g_stride apart. */
EXPORT int gemm_weight_grad(const float *g, int64_t g_stride, int64_t out, const float *x, int64_t in, int64_t rows, int flags,
                            float *w);
void gemm_symmetric(const float *x, int64_t rows, const float *packed, int64_t in, float *y);
/* c (m, n) = a (m, k) b (k, n) for small matrices that are not packed; n is a multiple of LANES. */
void small_gemm(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, float *c, int64_t c_row, int m,
                int k, int n);

/* ---- attention.c: scaled dot-product attention within the sequences of a packed batch. ---- */

typedef struct {
    const float *query, *key, *value;      /* a row a token, heads side by side */
    int64_t query_stride, key_stride, value_stride;
    const int32_t *query_offsets, *key_offsets;
    int64_t query_base, key_base;          /* rows of the whole batch before the first query and the first key given */
    int64_t sequences;
    int32_t heads, head_size, causal, dropout;
    uint64_t seed;
    const float *key_bias;                 /* (rows) added to the scores of each key, or NULL */
    float *received;                       /* (rows) receives the attention that each key gets, summed over heads, or NULL */
} VarlenAttention;

/* out (rows, heads * head_size); log_sum_exp (rows, heads) for the backward pass. */
int attention_forward(const VarlenAttention *a, float *out, float *log_sum_exp);
/* Gradients of query, key and value from that of `out`. */
int attention_backward(const VarlenAttention *a, const float *out, const float *log_sum_exp, const float *grad_out,
                       float *grad_query, float *grad_key, float *grad_value, int64_t grad_query_stride,
                       int64_t grad_key_stride);

int longest_sequence(const int32_t *offsets, int64_t sequences);
/* (rows, size), rows `stride` apart -> (size, padded rows), filled up with zeros. */
void transpose_padded(const float *x, int64_t stride, int rows, int size, float *out);

/* ---- stack.c: sublayers with their residual connections, forward and backward. ---- */

/* A linear layer: weight (out, in) and bias (out), which may be NULL; where their gradients begin in one array of all, -1 for
 * none. */
typedef struct {
    const float *weight, *bias;
    int64_t weight_grad, bias_grad;
} Linear;

typedef struct {
    const float *weight, *bias; /* (d_model); NULL: no norm */
    int64_t weight_grad, bias_grad;
    float epsilon;
} LayerNorm;

/* Linear layers with the same input side by side, packed for gemm.c; `transposed` is for the backward pass, or NULL. */
typedef struct {
    float *forward, *transposed, *bias;
} PackedLinears;

enum { SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD };
enum { QUERY, KEY, VALUE, OUTPUT, FC1 = 0, GATE = 1, FC2 = 3, LINEARS = 4 };
/* What reads the sublayer's input (query, key and value; query of cross-attention; fc1 and gate), what reads the source (key
 * and value of cross-attention), and what gives the result. */
enum { INPUT_LINEARS, SOURCE_LINEARS, OUTPUT_LINEARS, PACKED_GROUPS };

/* A residual connection around attention (linear: query, key, value, output) or a feed-forward network (fc1, gate, -, fc2). */
typedef struct {
    int32_t kind, pre_norm, heads, causal, activation;
    int32_t dropout, inner_dropout;  /* after the sublayer; of the attention weights or the hidden units */
    int64_t d_ff;
    uint64_t seed, inner_seed;
    const float *rotary;             /* (positions, head size): cosine and sine of each pair, or NULL */
    int64_t rotary_length;
    LayerNorm norm;
    Linear linear[LINEARS];
    PackedLinears packed[PACKED_GROUPS];
} Sublayer;

typedef struct {
    int64_t d_model, count;
    Sublayer *sublayers;
    LayerNorm norm;                  /* after the last block, if any */
    int32_t dropout;                 /* of the input */
    uint64_t seed;
} Stack;

/* Vectors of token ids, times `scale`, plus those of positions (NULL: none). */
typedef struct {
    const float *table, *positions;
    int64_t table_grad, positions_grad;
    float scale;
} Embedding;

/* A packed batch and what to compute. */
typedef struct {
    const Stack *stack;
    const int32_t *offsets, *source_offsets;
    int64_t sequences;
    const float *source;             /* (source rows, d_model): the encoder's output, for cross-attention */
    const int32_t *selected;         /* rows that the last block computes, in order; NULL: all */
    const int32_t *selected_offsets; /* how many of them come before each sequence */
    const float *key_bias;           /* as in VarlenAttention, for the self-attention of the first sublayer */
    float *received;
    float *mean_keys;                /* (rows, head size) receives the mean of the heads' keys of the first sublayer, or NULL */
    int64_t parameters;              /* floats in the gradient of all parameters */
    int32_t shares;                  /* parts of the batch that have a gradient of their own until these are added up */
    int32_t saves;                   /* whether activations are saved for the backward pass */
} StackRun;

/* Floats that the activations of a run take. */
EXPORT int stack_saved_floats(const StackRun *run, int64_t *floats);
/* x (rows, d_model) -> out (rows or selected rows, d_model). */
EXPORT int stack_forward(const StackRun *run, const float *x, float *saved, float *out);
/* grad_out -> grad_x, grad_source (NULL where there is no source) and the gradient of all parameters. */
EXPORT int stack_backward(const StackRun *run, const float *x, const float *saved, const float *grad_out, float *grad_x,
                          float *grad_source, float *gradient);
/* Floats that the packed matrices of a stack take, with `transposed` for the backward pass too. */
EXPORT int64_t stack_packed_floats(const Stack *stack, int transposed);
/* Pack all matrices into `memory`, to which the sublayers then point. */
EXPORT int stack_pack(const Stack *stack, int transposed, float *memory);

void layer_norm_forward(const LayerNorm *norm, const float *x, int64_t rows, int64_t width, float *out);
/* `grad` becomes the gradient of x; those of weight and bias are added to `gradient`. */
void layer_norm_backward(const LayerNorm *norm, const float *x, int64_t rows, int64_t width, float *grad, float *gradient);
/* Rows of sequences `first` to `end`. */
void embed(const Embedding *e, const int64_t *ids, const int32_t *offsets, int64_t first, int64_t end, int64_t d_model,
           float *x);
/* Rotate the heads of one row by its position, or back. */
void rotate(float *x, const float *table, int heads, int head_size, int64_t position, int inverse);
void rotate_rows(const Sublayer *s, float *x, int64_t stride, const int32_t *offsets, int64_t sequences, int heads, int64_t head_size,
                 int inverse);
/* LayerNorm(x) in `normed` for pre-norm, else x itself. */
const float *sublayer_input(const Sublayer *s, int64_t d_model, const float *x, int64_t rows, float *normed);
/* x through a group of linear layers side by side: y (rows, outputs of all). */
void project(const Sublayer *s, int64_t d_model, int group, const float *x, int64_t rows, int flags, float *y);
/* y is the result of the sublayer; pre-norm: out = x + dropout(y), y may be out; post-norm: y += x, out = LayerNorm(y). */
void sublayer_output(const Sublayer *s, int64_t d_model, const float *x, float *y, int64_t first_row, int64_t rows, float *out);
/* normed (rows, d_model), hidden (rows, hidden_width), active (FEED_FORWARD_ROWS, d_ff) unless the activation is RELU. */
void feed_forward(const Sublayer *s, int64_t d_model, const float *x, int64_t first_row, int64_t rows, float *normed,
                  float *hidden, float *active, float *out);
int64_t hidden_width(const Sublayer *s);
#define FEED_FORWARD_ROWS 96 /* rows per block, so that the hidden units stay in the cache */

/* Some sequences of a batch, which go through a stack together. */
typedef struct {
    int64_t first, end;
} Range;

/* What a sublayer saves for its backward pass. */
typedef struct {
    const float *x;
    float *normed;                /* LayerNorm(x); post-norm: x + f(x) before the norm */
    float *projected;             /* query, key and value; query of cross-attention; hidden units */
    float *source;                /* key and value of the source */
    float *query;                 /* of selected rows */
    float *context, *log_sum_exp; /* what attention returned */
    float *active;                /* scratch of the feed-forward network */
    float *out;
} SavedSublayer;

/* Sequences of a batch (a, and a source b or NULL) are divided into shares of about as many tokens, and these into chunks. */
int64_t share_begin(const int32_t *a, const int32_t *b, int64_t sequences, int64_t share, int64_t shares);
Range next_chunk(const int32_t *a, const int32_t *b, int64_t first, int64_t end);
void add_gradients(float *gradient, const float *others, int64_t count, int64_t parameters);
int64_t inference_shares(int64_t tokens);

/* Allocate the activations of all sublayers in the arena; `saved` has one entry more than there are sublayers. */
int save_chunk(const StackRun *run, Range range, Arena *arena, SavedSublayer *saved);
/* x is changed by the dropout of the input; the result is saved[count].x, (rows, d_model), before the final norm. */
int chunk_forward(const StackRun *run, Range range, float *x, const float *source, SavedSublayer *saved);
int64_t chunk_backward_floats(const StackRun *run, Range range);
/* From the gradient of the final norm's output to that of x; they may be the same array. */
int chunk_backward(const StackRun *run, Range range, const float *source, const SavedSublayer *saved, const float *grad_out,
                   float *grad_x, float *grad_source, float *gradient, Arena scratch);

#define CHUNK 192 /* tokens per chunk, so that saved activations stay in the cache */

/* ---- loss.c ---- */

/* The sum of exp(x - most), where `most` is the largest of x (n). */
float sum_exp(const float *x, int64_t n, float most);
/* Label-smoothed cross entropy: `confidence` on the label, `off_value` on every other but padding. logits (rows, vocabulary) are
 * without bias, which may be NULL; with `backward` they become their own gradient, and its sum is added to grad_bias, if any. */
EXPORT int smoothed_cross_entropy(float *logits, const float *bias, const int64_t *labels, int64_t rows, int64_t vocabulary,
                                  int64_t padding, float confidence, float off_value, int backward, double *losses,
                                  float *grad_bias);
/* R-Drop: half of the loss of each of two passes, and `weight` times half of KL(p, q) + KL(q, p). */
EXPORT int r_drop_cross_entropy(float *first, float *second, const float *bias, const int64_t *labels, int64_t rows,
                                int64_t vocabulary, int64_t padding, float confidence, float off_value, float weight,
                                int backward, double *losses, float *grad_bias);

/* ---- train_step.c ---- */

enum { MAX_PASSES = 2 };

/* The token loss of an encoder-decoder, or of a decoder alone where encoder.count is 0. */
typedef struct {
    Stack encoder, decoder;
    Embedding source_embedding, target_embedding;
    const int64_t *source_ids, *target_ids, *labels;
    const int32_t *source_offsets, *target_offsets;
    int64_t sequences, passes;       /* with R-Drop all sequences are repeated, one pass after the other */
    Linear output;                   /* bias may be NULL */
    int64_t vocabulary, padding, parameters;
    float confidence, off_value, r_drop;
} TokenLoss;

/* The loss, summed over the labels, and its gradient (parameters), unless that is NULL. */
EXPORT int token_loss(const TokenLoss *task, double *loss, float *gradient);

/* ---- decoder.c: one step of a decoder with a KV cache. ---- */

typedef struct {
    Stack stack;                     /* packed, without dropout */
    Embedding embedding;
    const float *output, *output_bias; /* packed (vocabulary, d_model) and (vocabulary) or NULL; NULL for an encoder */
    int64_t vocabulary;
} Decoder;

typedef struct {
    int32_t rows, step, steps;       /* number of rows; tokens before this step; maximum number of steps */
    int32_t capacity, span;          /* rows and steps that a piece of the cache holds */
    const int64_t *ids;              /* (rows) */
    const int32_t *parents;          /* (rows, steps): which row of each earlier step this one continues */
    const int32_t *sequence;         /* (rows): its source sequence */
    const int32_t *offsets;          /* of the source sequences */
    const float *memory;             /* (layers, source rows, 2 d_model): keys and values of cross-attention */
    int64_t source_rows;
    float *const *cache;             /* pieces (layers, 2, capacity, span, d_model) */
} DecoderStep;

int64_t decoder_step_floats(const Decoder *d, int64_t rows);
/* The first (rows, d_model) of scratch become the hidden states. */
int decoder_step(const Decoder *d, const DecoderStep *step, float *scratch);
void output_logits(const Decoder *d, const float *x, int64_t rows, float *logits);
/* The `count` highest logits of each row, highest first (of equal ones the first id), and log sum exp. */
EXPORT void top_of_rows(const float *logits, int64_t rows, int64_t vocabulary, int count, float *best, int64_t *ids,
                        float *log_sum_exp);
/* Ids (rows, length) through a decoder without cross-attention, which fills its cache: one piece of `capacity` rows. */
EXPORT int prefill(const Decoder *d, const int64_t *ids, int rows, int length, int capacity, int steps, float *cache);
EXPORT int next_token(const Decoder *d, const int64_t *ids, const int32_t *parents, int rows, int step, int capacity, int steps,
                      float *cache, float *logits);

/* ---- knn.c: a kNN datastore over hidden states. ---- */

typedef struct {
    const float *keys;               /* packed (entries, d_model) */
    const float *offsets;            /* minus half of each key's square */
    const int32_t *ids;              /* the token that followed each key */
    int64_t entries;
    int32_t count;                   /* neighbours of a query; 0: there is no datastore */
    float sharpness, weight;
} Datastore;

/* The nearest keys of each query (rows, d_model): entries and proximities q.k - |k|^2 / 2, both (rows, count). */
EXPORT int nearest_keys(const Datastore *store, const float *query, int64_t rows, int64_t d_model, int count, float *proximities,
                        int64_t *entries);
/* Logits become log probabilities: (1 - weight) softmax(logits) + weight * kernel regression over the neighbours' tokens. */
int mix_neighbours(const Datastore *store, const float *query, int64_t rows, int64_t d_model, float *logits,
                   int64_t vocabulary);

/* ---- beam_search.c ---- */

enum { MAX_FORBIDDEN = 8 };

typedef struct {
    int32_t beam, nbest, max_length, begin, end, forbidden_count;
    int64_t forbidden[MAX_FORBIDDEN];
    double length_penalty;
} SearchConfig;

/* The nbest hypotheses of each source sequence: ids (sequences, nbest, max_length), lengths -1 where there is none. Several
 * models of the same vocabulary are averaged; `datastores` has one entry for each. */
EXPORT int beam_search(const Decoder *encoders, const Decoder *decoders, const Datastore *datastores, int models,
                       const SearchConfig *config, const int64_t *source, const int32_t *offsets, int sequences, int32_t *ids,
                       int32_t *lengths, double *scores, double *log_probabilities);

/* ---- token_merging.c ---- */

/* The remaining token that each token is merged into: the `counts` most similar pairs of keys (rows, size) in each sequence merge. */
EXPORT int match_tokens(const float *keys, const int32_t *offsets, int sequences, int size, const int64_t *counts, int neighbors_only,
                        int first_stays, int64_t *into);
/* Weighted sum of the rows (rows, width) with the same target; `out` is initially zero. */
EXPORT void sum_rows(const float *x, const float *weight, const int64_t *into, const int32_t *offsets, int sequences,
                     int64_t width, float *out);

/* ---- muon.c ---- */

/* Newton-Schulz iterations x = a x + (b s + c s s) x with s = x x' on matrices (count, rows, columns), in place. */
EXPORT int orthogonalize(float *matrices, int64_t count, int64_t rows, int64_t columns, int rounds, float a, float b, float c);

/* ---- fingerprint.c ---- */

/* Two checksums of tensors, to detect any change. */
EXPORT void fingerprint(const void *const *tensors, const int64_t *sizes, int64_t count, uint64_t *result);

/* ---- kernels.c ---- */

/* Number of threads of the functions called by this thread. */
EXPORT void use_threads(int threads);
/* Whether this machine can run the library; called in a child process, which an illegal instruction may kill. */
EXPORT int self_test(void);

#endif
