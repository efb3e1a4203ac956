/*
 * What fft and chunked cost, and which of the two auto takes: one line of CSV for every problem of a grid. algorithms.sh
 * runs this and says what the lines mean.
 *
 *   algorithms [KEY=LIST]...   lists with commas; keys and defaults: see `grid`
 *   algorithms again           reads such lines and prints them with what auto takes now, but those of other chunk lengths
 *
 * Times are nanoseconds of CPU time of one thread, each the least of several runs, fft and chunked taking turns. A DPLR layer
 * stores what the algorithm trains; for forward, C~ of the problem's length.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "s4/s4.h"
#include "samples.h"

enum { MODE, DTYPE, DIRECTION, STATE, LENGTH, BATCH, KEYS };
#define VALUES_MAX 32
static struct {
    const char *key, *values;
    int count;
    char value[VALUES_MAX][12];
} grid[KEYS] = {
    [MODE] = {.key = "mode", .values = "dplr,diag"},
    [DTYPE] = {.key = "dtype", .values = "f32,f64"},
    [DIRECTION] = {.key = "direction", .values = "forward,training"},
    [STATE] = {.key = "state", .values = "4,16,64,256"},
    [LENGTH] = {.key = "length", .values = "64,256,1024,4096,16384,65536,262144,1048576"},
    [BATCH] = {.key = "batch", .values = "1,4,16,64"},
};

#define ROUNDS_MIN 3
#define ROUNDS_MAX 20
static const double enough_ns = 4e7;            /* of one algorithm, in all rounds */
static const int64_t samples_aimed_at = 1 << 18; /* of one call: more channels where rows are few and short */
static const int64_t samples_max = 1 << 24;      /* larger problems are left out */
enum { CHANNELS_MIN_DENSE = 2, CHANNELS_MAX = 32 };

static void must(s4_status status)
{
    if (!status) return;
    fprintf(stderr, "algorithms: %s\n", s4_last_error());
    exit(1);
}

static void *new_zeros(int64_t count, size_t size)
{
    void *data = calloc((size_t)(count > 0 ? count : 1), size);
    if (data) return data;
    fprintf(stderr, "algorithms: out of memory\n");
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- one algorithm of one problem -------------------------------------------------------------------------------- */

enum { REFRESH, FORWARD, BACKWARD, PHASES };

struct side {
    s4_plan *plan;
    s4_layer *layer;
    s4_workspace *workspace;
    double least[PHASES], total; /* backward is 0 in direction forward */
    int rounds;
};

static s4_layer *new_layer(s4_context *context, const s4_problem *p, int64_t stored_length)
{
    s4_layer_options options;
    s4_layer *layer;
    S4_INIT(&options);
    options.mode = p->mode;
    options.d_model = p->d_model;
    options.d_state = p->d_state;
    options.discretisation = p->discretisation;
    s4_init_options init;
    S4_INIT(&init);
    init.init = p->mode == S4_MODE_DPLR ? S4_INIT_LEGS : S4_INIT_DIAG_LIN;
    init.seed = 1;
    init.dt_spaced = 1;
    must(s4_layer_create(&options, &layer));
    must(s4_layer_init(context, layer, &init));
    if (p->mode != S4_MODE_DPLR || !stored_length) return layer;
    must(s4_layer_setup(context, layer, stored_length));
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_C)); /* as after training: no plain C is kept beside it */
    return layer;
}

static void open_side(s4_context *context, s4_problem problem, s4_algorithm algorithm, struct side *side)
{
    int plain = algorithm == S4_ALGORITHM_CHUNKED && problem.direction == S4_DIRECTION_TRAINING;
    problem.algorithm = algorithm;
    side->layer = new_layer(context, &problem, plain ? 0 : problem.length);
    must(s4_plan_create(&problem, &side->plan));
    must(s4_plan_prepare(side->plan, context));
    must(s4_workspace_create(side->plan, &side->workspace));
    for (int i = 0; i < PHASES; i++) side->least[i] = 0;
    side->total = 0;
    side->rounds = 0;
}

static void close_side(struct side *side)
{
    s4_workspace_destroy(side->workspace);
    s4_plan_destroy(side->plan);
    s4_layer_destroy(side->layer);
}

struct tensors {
    void *u, *y, *dy, *du;
    double *gradient[S4_PARAMETER_COUNT];
};

static void run_round(struct side *side, int trains, const struct tensors *t)
{
    s4_forward_io forward;
    s4_backward_io backward;
    S4_INIT(&forward);
    S4_INIT(&backward);
    forward.u = backward.u = t->u;
    forward.y = t->y;
    backward.dy = t->dy;
    backward.du = t->du;
    memcpy(backward.gradients.parameter, t->gradient, sizeof t->gradient);

    double at[PHASES + 1];
    at[0] = cpu_ns();
    must(s4_plan_refresh(side->plan, side->layer, side->workspace));
    at[1] = cpu_ns();
    must(s4_plan_forward(side->plan, side->layer, side->workspace, &forward));
    at[2] = cpu_ns();
    at[3] = at[2];
    if (trains) {
        must(s4_plan_backward(side->plan, side->layer, side->workspace, &backward));
        at[3] = cpu_ns();
    }
    for (int i = 0; i < PHASES; i++) {
        double ns = at[i + 1] - at[i];
        if (side->rounds == 1 || ns < side->least[i]) side->least[i] = ns; /* round 0 warms up */
    }
    if (side->rounds++) side->total += at[3] - at[0];
}

static int wants_round(const struct side *side)
{
    return side->rounds <= ROUNDS_MIN || (side->rounds <= ROUNDS_MAX && side->total < enough_ns);
}

/* ---- one problem ------------------------------------------------------------------------------------------------- */

static int64_t channels_of(const s4_problem *p)
{
    int64_t channels = samples_aimed_at / (p->batch * p->length);
    if (p->mode == S4_MODE_DPLR && p->d_state >= 128 && channels > CHANNELS_MIN_DENSE) channels = CHANNELS_MIN_DENSE;
    return channels < 1 ? 1 : channels > CHANNELS_MAX ? CHANNELS_MAX : channels;
}

static s4_algorithm choice_of(const s4_problem *problem, int64_t *chunk)
{
    s4_problem asked = *problem;
    s4_plan *plan;
    s4_plan_info info;
    asked.algorithm = S4_ALGORITHM_CHUNKED;
    must(s4_plan_create(&asked, &plan));
    must(s4_plan_describe(plan, &info));
    *chunk = info.chunk;
    s4_plan_destroy(plan);
    asked.algorithm = S4_ALGORITHM_AUTO;
    must(s4_plan_create(&asked, &plan));
    must(s4_plan_describe(plan, &info));
    s4_plan_destroy(plan);
    return info.problem.algorithm;
}

static void print_line(const s4_problem *problem, const double *of_fft, const double *of_chunked)
{
    int64_t chunk;
    s4_algorithm choice = choice_of(problem, &chunk);
    double total[2] = {0};
    printf("%s,%s,%s,%lld,%lld,%lld,%lld,%lld", problem->mode == S4_MODE_DPLR ? "dplr" : "diag",
           s4_dtype_name(problem->dtype), s4_direction_name(problem->direction), (long long)problem->d_state,
           (long long)problem->length, (long long)problem->batch, (long long)problem->d_model, (long long)chunk);
    for (int i = 0; i < 2 * PHASES; i++) {
        double ns = i < PHASES ? of_fft[i] : of_chunked[i - PHASES];
        total[i / PHASES] += ns;
        printf(",%.0f", ns);
    }
    printf(",%s,%.3f\n", s4_algorithm_name(choice),
           total[choice == S4_ALGORITHM_CHUNKED] / (total[0] < total[1] ? total[0] : total[1]));
    fflush(stdout);
}

static void measure(s4_context *context, const s4_problem *problem)
{
    const int trains = problem->direction == S4_DIRECTION_TRAINING;
    int64_t samples = problem->batch * problem->d_model * problem->length;
    size_t size = s4_dtype_size(problem->dtype);
    struct tensors t = {.u = new_zeros(samples, size), .y = new_zeros(samples, size)};
    struct side fft, chunked;
    open_side(context, *problem, S4_ALGORITHM_FFT, &fft);
    open_side(context, *problem, S4_ALGORITHM_CHUNKED, &chunked);
    samples_fill(problem->dtype, t.u, samples, 1);
    if (trains) {
        t.dy = new_zeros(samples, size);
        t.du = new_zeros(samples, size);
        samples_fill(problem->dtype, t.dy, samples, 2);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
            s4_parameter_view view;
            must(s4_layer_parameter(fft.layer, (s4_parameter)p, &view));
            if (view.count) t.gradient[p] = new_zeros(view.count, sizeof(double));
        }
    }
    while (wants_round(&fft) || wants_round(&chunked)) {
        if (wants_round(&fft)) run_round(&fft, trains, &t);
        if (wants_round(&chunked)) run_round(&chunked, trains, &t);
    }
    print_line(problem, fft.least, chunked.least);
    close_side(&fft);
    close_side(&chunked);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) free(t.gradient[p]);
    free(t.u);
    free(t.y);
    free(t.dy);
    free(t.du);
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

static int read_list(int key, const char *values)
{
    char text[VALUES_MAX * 12];
    if (strlen(values) >= sizeof text) return 0;
    strcpy(text, values);
    grid[key].count = 0;
    for (char *value = strtok(text, ","); value; value = strtok(NULL, ",")) {
        if (grid[key].count == VALUES_MAX || strlen(value) >= sizeof grid[key].value[0]) return 0;
        strcpy(grid[key].value[grid[key].count++], value);
    }
    return grid[key].count > 0;
}

static int read_argument(const char *argument)
{
    for (int key = 0; key < KEYS; key++) {
        size_t length = strlen(grid[key].key);
        if (!strncmp(argument, grid[key].key, length) && argument[length] == '=')
            return read_list(key, argument + length + 1);
    }
    return 0;
}

static void read_problem(char *const *value, s4_problem *p)
{
    S4_INIT(p);
    p->mode = strcmp(value[MODE], "diag") ? S4_MODE_DPLR : S4_MODE_DIAG;
    p->discretisation = p->mode == S4_MODE_DPLR ? S4_BILINEAR : S4_ZOH;
    must(s4_dtype_parse(value[DTYPE], &p->dtype));
    must(s4_direction_parse(value[DIRECTION], &p->direction));
    p->d_state = strtoll(value[STATE], NULL, 10);
    p->length = strtoll(value[LENGTH], NULL, 10);
    p->batch = strtoll(value[BATCH], NULL, 10);
    p->threads = 1;
    p->either_leaf = 1;
}

/* Value number i of the grid's product; batch fastest. 0 where i is beyond it. */
static int problem_at(int64_t i, s4_problem *p)
{
    char *value[KEYS];
    for (int key = KEYS - 1; key >= 0; key--) {
        value[key] = grid[key].value[i % grid[key].count];
        i /= grid[key].count;
    }
    if (i) return 0;
    read_problem(value, p);
    if (p->batch > 0 && p->length > 0) p->d_model = channels_of(p);
    return 1;
}

/* The columns of a line are the grid's keys, channels, chunk, and times. */
static void print_again(void)
{
    char line[1024];
    int others = 0;
    while (fgets(line, sizeof line, stdin)) {
        char *column[KEYS + 2 + 2 * PHASES];
        double ns[2 * PHASES];
        s4_problem problem;
        int count = 0;
        if (!strncmp(line, "mode,", 5)) continue;
        for (char *at = strtok(line, ","); at && count < KEYS + 2 + 2 * PHASES; at = strtok(NULL, ",")) column[count++] = at;
        if (count < KEYS + 2 + 2 * PHASES) continue;
        read_problem(column, &problem);
        problem.d_model = strtoll(column[KEYS], NULL, 10);
        int64_t chunk;
        (void)choice_of(&problem, &chunk);
        if (chunk != strtoll(column[KEYS + 1], NULL, 10)) {
            others++;
            continue;
        }
        for (int i = 0; i < 2 * PHASES; i++) ns[i] = strtod(column[KEYS + 2 + i], NULL);
        print_line(&problem, ns, ns + PHASES);
    }
    if (others) fprintf(stderr, "algorithms: %d lines are of other chunk lengths than the library's\n", others);
}

int main(int argc, char **argv)
{
    const int again = argc == 2 && !strcmp(argv[1], "again");
    for (int key = 0; key < KEYS; key++) read_list(key, grid[key].values);
    for (int i = 1; i < argc && !again; i++) {
        if (read_argument(argv[i])) continue;
        fprintf(stderr, "algorithms: %s: expected KEY=VALUE,VALUE,... with a key of", argv[i]);
        for (int key = 0; key < KEYS; key++) fprintf(stderr, " %s", grid[key].key);
        fprintf(stderr, ", or again\n");
        return 2;
    }
    printf("mode,dtype,direction,state,length,batch,channels,chunk,fft_refresh,fft_forward,fft_backward,chunked_refresh,"
           "chunked_forward,chunked_backward,choice,ratio\n");
    if (again) {
        print_again();
        return 0;
    }
    s4_context_options options;
    s4_context *context;
    S4_INIT(&options);
    options.threads = 1;
    must(s4_context_create(&options, &context));
    s4_problem problem;
    for (int64_t i = 0; problem_at(i, &problem); i++)
        if (problem.batch * problem.length <= samples_max) measure(context, &problem);
    s4_context_destroy(context);
    return 0;
}
