/* ---- The layout of every struct that structs.py mirrors: a test compares offsets and sizes with those of ctypes. ---- */

typedef struct {
    const char *structure, *field;
    int64_t offset, size;
} FieldLayout;

#define FIELD(structure, field) {#structure, #field, offsetof(structure, field), sizeof(((structure *)NULL)->field)}
#define WHOLE(structure) {#structure, "", 0, sizeof(structure)} /* after its fields */

static const FieldLayout LAYOUTS[] = {
    FIELD(Asked, q), FIELD(Asked, k), FIELD(Asked, v), FIELD(Asked, qrow), FIELD(Asked, krow), FIELD(Asked, vrow),
    FIELD(Asked, qstart), FIELD(Asked, kstart), FIELD(Asked, sentences), FIELD(Asked, heads), FIELD(Asked, size),
    FIELD(Asked, causal), FIELD(Asked, dropped), FIELD(Asked, scale), FIELD(Asked, seed), FIELD(Asked, bias),
    FIELD(Asked, received), WHOLE(Asked),
    FIELD(Around, x), FIELD(Around, norm), FIELD(Around, norm_bias), FIELD(Around, rows), FIELD(Around, width),
    FIELD(Around, dropped), FIELD(Around, seed), FIELD(Around, epsilon), FIELD(Around, before), WHOLE(Around),
    FIELD(Thought, around), FIELD(Thought, widen), FIELD(Thought, narrow), FIELD(Thought, widen_bias),
    FIELD(Thought, narrow_bias), FIELD(Thought, inner), FIELD(Thought, dropped), FIELD(Thought, seed), WHOLE(Thought),
    FIELD(Looked, around), FIELD(Looked, source), FIELD(Looked, ask), FIELD(Looked, recall), FIELD(Looked, tell),
    FIELD(Looked, ask_bias), FIELD(Looked, recall_bias), FIELD(Looked, tell_bias), FIELD(Looked, sources),
    FIELD(Looked, sources_before), FIELD(Looked, attention), FIELD(Looked, onto), WHOLE(Looked),
    FIELD(Sublayer, kind), FIELD(Sublayer, inside), FIELD(Sublayer, around), FIELD(Sublayer, norm), FIELD(Sublayer, maps),
    FIELD(Sublayer, norm_at), FIELD(Sublayer, maps_at), WHOLE(Sublayer),
    FIELD(Side, ids), FIELD(Side, start), FIELD(Side, table), FIELD(Side, places), FIELD(Side, table_at),
    FIELD(Side, places_at), FIELD(Side, norm), FIELD(Side, norm_at), FIELD(Side, seed), FIELD(Side, count),
    FIELD(Side, sublayers), WHOLE(Side),
    FIELD(Lesson, read), FIELD(Lesson, write), FIELD(Lesson, gold), FIELD(Lesson, output), FIELD(Lesson, bias),
    FIELD(Lesson, output_at), FIELD(Lesson, bias_at), FIELD(Lesson, parameters), FIELD(Lesson, sentences),
    FIELD(Lesson, passes), FIELD(Lesson, width), FIELD(Lesson, heads), FIELD(Lesson, inner), FIELD(Lesson, words),
    FIELD(Lesson, padding), FIELD(Lesson, dropped), FIELD(Lesson, dropped_inside), FIELD(Lesson, dropped_weights),
    FIELD(Lesson, epsilon), FIELD(Lesson, scale), FIELD(Lesson, sure), FIELD(Lesson, spread), FIELD(Lesson, r_drop),
    WHOLE(Lesson),
    FIELD(Stack, layers), FIELD(Stack, width), FIELD(Stack, heads), FIELD(Stack, inner), FIELD(Stack, words),
    FIELD(Stack, post), FIELD(Stack, gelu), FIELD(Stack, scale), FIELD(Stack, epsilon), FIELD(Stack, table),
    FIELD(Stack, weights), FIELD(Stack, output), FIELD(Stack, bias), FIELD(Stack, places), WHOLE(Stack),
    FIELD(Remembered, keys), FIELD(Remembered, offsets), FIELD(Remembered, words), FIELD(Remembered, places),
    FIELD(Remembered, count), FIELD(Remembered, sharpness), FIELD(Remembered, weight), WHOLE(Remembered),
    FIELD(Wanted, beam), FIELD(Wanted, nbest), FIELD(Wanted, longest), FIELD(Wanted, begin), FIELD(Wanted, end),
    FIELD(Wanted, never_count), FIELD(Wanted, never), FIELD(Wanted, penalty), WHOLE(Wanted),
};

/* The table, and how many entries it has. */
int64_t struct_layouts(const FieldLayout **table) {
    *table = LAYOUTS;
    return sizeof(LAYOUTS) / sizeof(LAYOUTS[0]);
}
