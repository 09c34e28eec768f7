/* Checked memory: sizes without overflow, allocations that report failure, and arenas. */
#include "engine.h"

/* Sizes that do not fit become INT64_MAX, which no allocation accepts; so do negative ones. */
int64_t checked_mul(int64_t a, int64_t b) {
    int64_t result;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

int64_t checked_add(int64_t a, int64_t b) {
    int64_t result;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

/* For tests: number of allocations that succeed before one fails; negative: none fails. */
static int64_t allocations_before_failure = -1;

void fail_allocation_after(int64_t count) { __atomic_store_n(&allocations_before_failure, count, __ATOMIC_RELAXED); }

static int fails_on_purpose(void) {
    if (__atomic_load_n(&allocations_before_failure, __ATOMIC_RELAXED) < 0) return 0;
    return __atomic_fetch_sub(&allocations_before_failure, 1, __ATOMIC_RELAXED) == 0;
}

/* The first failure stays in `status`, which may be read after several calls: once one has failed, the others return NULL,
 * which free() accepts. */
static void *allocate_with(int64_t count, int64_t size, int zeroed, int *status) {
    int64_t bytes = checked_mul(count, size);
    if (*status) return NULL;
    if (bytes > PTRDIFF_MAX / 2) {
        *status = SIZES_OVERFLOW;
        return NULL;
    }
    size_t wanted = bytes ? (size_t)bytes : 1; /* malloc(0) may return NULL */
    void *memory = fails_on_purpose() ? NULL : zeroed ? calloc(wanted, 1) : malloc(wanted);
    if (!memory) *status = OUT_OF_MEMORY;
    return memory;
}

void *allocate(int64_t count, int64_t size, int *status) { return allocate_with(count, size, 0, status); }
void *allocate_zeros(int64_t count, int64_t size, int *status) { return allocate_with(count, size, 1, status); }

/* Inside a parallel region each thread has its own status and reports it here; no thread leaves the region early. */
void report_status(int *shared, int status) {
    if (status) __atomic_store_n(shared, status, __ATOMIC_RELAXED);
}

int shared_status(const int *shared) { return __atomic_load_n(shared, __ATOMIC_RELAXED); }

#define ARENA_STEP 16 /* alignment of the parts, in floats */

Arena arena_of(float *memory, int64_t capacity) { return (Arena){memory, 0, capacity, 0}; }
Arena counting_arena(void) { return (Arena){NULL, 0, INT64_MAX / 2, 0}; }

/* Returns NULL if less is left than requested; the arena then stays exhausted. */
float *take(Arena *arena, int64_t count) {
    if (arena->exhausted || count < 0 || count > arena->capacity - arena->used) {
        arena->exhausted = 1;
        return NULL;
    }
    float *taken = arena->base ? arena->base + arena->used : NULL;
    int64_t left = arena->capacity - arena->used;
    arena->used += min64(left, count > left - ARENA_STEP ? left : round_up(count, ARENA_STEP));
    return taken;
}
