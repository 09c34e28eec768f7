/* ---- Checked memory: sizes that cannot overflow, allocations that can fail, and what an exported function returns. ---- */

/* Return codes; library.py raises MemoryError, ValueError and RuntimeError for them. */
enum { SUCCESS, OUT_OF_MEMORY, SIZES_OVERFLOW, ARENA_EXHAUSTED };

/* Sizes that do not fit become INT64_MAX, which no allocation accepts; so do negative ones. */
static int64_t checked_mul(int64_t a, int64_t b) {
    int64_t result;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

static int64_t checked_add(int64_t a, int64_t b) {
    int64_t result;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

/* For tests: allocations that still succeed before one fails; negative: none fails. */
static int64_t allocations_before_failure = -1;

void fail_allocation_after(int64_t count) { __atomic_store_n(&allocations_before_failure, count, __ATOMIC_RELAXED); }

static int is_made_to_fail(void) {
    if (__atomic_load_n(&allocations_before_failure, __ATOMIC_RELAXED) < 0) return 0;
    return __atomic_fetch_sub(&allocations_before_failure, 1, __ATOMIC_RELAXED) == 0;
}

/* The first failure stays in `status`. Several calls may follow each other before it is read: once something has failed,
 * nothing more is allocated, and free() takes the NULL that is returned. */
static void *allocate_with(int64_t count, int64_t size, int zeroed, int *status) {
    int64_t bytes = checked_mul(count, size);
    if (*status) return NULL;
    if (bytes > PTRDIFF_MAX / 2) {
        *status = SIZES_OVERFLOW;
        return NULL;
    }
    size_t wanted = bytes ? (size_t)bytes : 1; /* malloc(0) may return NULL */
    void *memory = is_made_to_fail() ? NULL : zeroed ? calloc(wanted, 1) : malloc(wanted);
    if (!memory) *status = OUT_OF_MEMORY;
    return memory;
}

static void *allocate(int64_t count, int64_t size, int *status) { return allocate_with(count, size, 0, status); }
static void *allocate_zeros(int64_t count, int64_t size, int *status) { return allocate_with(count, size, 1, status); }

/* Inside a parallel region each thread has a status of its own, and reports it here; no thread leaves the region early. */
static void report(int *shared, int status) {
    if (status) __atomic_store_n(shared, status, __ATOMIC_RELAXED);
}

static int reported(const int *shared) { return __atomic_load_n(shared, __ATOMIC_RELAXED); }

/* Consecutive parts of one allocation. Asked for more than is left, it returns NULL and remembers it. */
typedef struct {
    float *next, *end;
    int exhausted;
} Arena;

#define ARENA_STEP 16 /* floats: parts begin at multiples of it */

static Arena arena_of(float *memory, int64_t count) { return (Arena){memory, memory + count, 0}; }

static float *take(Arena *arena, int64_t count) {
    if (arena->exhausted || count < 0 || count > arena->end - arena->next) {
        arena->exhausted = 1;
        return NULL;
    }
    float *taken = arena->next;
    int64_t rounded = (count + ARENA_STEP - 1) / ARENA_STEP * ARENA_STEP;
    arena->next = rounded < arena->end - taken ? taken + rounded : arena->end;
    return taken;
}
