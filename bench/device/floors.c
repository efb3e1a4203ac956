/*
 * s4_floors: a layer whose samples lie in device memory, in time and as a multiple of the floor: the time in which a
 * copy, measured in the same run, moves what cannot be left out. Forward reads u and writes y: 8 B H L bytes in single
 * precision; backward reads u and dy and writes du: 12 B H L.
 *
 *   s4_floors [--small] B H N L PLACEMENT[:ALGORITHM]...
 *
 * A line of name=value words for the copies, and one for each placement, by FFT or by the algorithm that it names. Under an
 * emulated GPU times are "emulated".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "s4/cuda.h"
#include "s4/s4.h"

/* More samples than this are not compared with the CPU's. */
static const int64_t compared_most = (int64_t)1 << 28;

struct floors {
    struct device device;
    struct bandwidth bandwidth;
    s4_context *context;
    s4_layer *layer;
    int64_t B, H, N, L, count;
    float *samples;        /* u, on the host */
    void *u, *dy, *y, *du; /* on the device */
};

/* What is in work for one placement. */
struct row {
    const struct floors *floors;
    s4_problem problem;
    s4_plan *plan;
    s4_workspace *workspace;
    double *gradient[S4_PARAMETER_COUNT];
    s4_backward_io backward;
    int gradients_on_device;
};

/* ---- samples ------------------------------------------------------------------------------------------------- */

static void fill(float *samples, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        samples[i] = (float)(seed >> 8) * (1.0f / 8388608.0f) - 1.0f;
    }
}

static int send(const struct floors *f, void *target, uint32_t seed)
{
    fill(f->samples, f->count, seed);
    return TRY_CUDA(cudaMemcpy(target, f->samples, (size_t)f->count * sizeof(float), cudaMemcpyHostToDevice));
}

static int make_samples(struct floors *f)
{
    const size_t bytes = (size_t)f->count * sizeof(float);
    f->samples = malloc(bytes);
    if (!f->samples) {
        fprintf(stderr, "s4_floors: no host memory for %zu bytes\n", bytes);
        return 0;
    }
    return TRY_CUDA(cudaMalloc(&f->u, bytes)) && TRY_CUDA(cudaMalloc(&f->dy, bytes)) &&
           TRY_CUDA(cudaMalloc(&f->y, bytes)) && TRY_CUDA(cudaMalloc(&f->du, bytes)) && send(f, f->dy, 2) &&
           send(f, f->u, 1);
}

/* ---- the work ------------------------------------------------------------------------------------------------ */

static int refresh(void *state)
{
    struct row *r = state;
    return !s4_layer_changed(r->floors->layer, S4_PARAMETER_ALL) &&
           !s4_plan_refresh(r->plan, r->floors->layer, r->workspace);
}

static int forward(void *state)
{
    struct row *r = state;
    s4_forward_io io;
    S4_INIT(&io);
    io.u = r->floors->u;
    io.y = r->floors->y;
    return !s4_plan_forward(r->plan, r->floors->layer, r->workspace, &io);
}

static int backward(void *state)
{
    struct row *r = state;
    return !s4_plan_backward(r->plan, r->floors->layer, r->workspace, &r->backward);
}

/* Of y, relative to the largest value, against the CPU place; negative: not compared. */
static double compare(const struct row *r)
{
    const struct floors *f = r->floors;
    if (f->count > compared_most) return -1;
    const size_t bytes = (size_t)f->count * sizeof(float);
    float *y = malloc(bytes), *right = malloc(bytes);
    s4_problem problem = r->problem;
    s4_plan *plan = NULL;
    s4_workspace *workspace = NULL;
    double most = 0, error = -1;
    memset(&problem.placement, 0, sizeof problem.placement);
    problem.tensors = S4_PLACE_CPU;
    s4_forward_io io;
    S4_INIT(&io);
    io.u = f->samples;
    io.y = right;
    if (y && right && TRY_CUDA(cudaMemcpy(y, f->y, bytes, cudaMemcpyDeviceToHost)) &&
        !s4_plan_create(&problem, &plan) && !s4_plan_prepare(plan, f->context) &&
        !s4_workspace_create(plan, &workspace) && !s4_plan_refresh(plan, f->layer, workspace) &&
        !s4_plan_forward(plan, f->layer, workspace, &io)) {
        error = 0;
        for (int64_t i = 0; i < f->count; i++) {
            const double difference = fabs((double)y[i] - (double)right[i]);
            if (!(difference <= error)) error = difference; /* a NaN stays */
            if (fabs((double)right[i]) > most) most = fabs((double)right[i]);
        }
        if (most > 0) error /= most;
    }
    s4_workspace_destroy(workspace);
    s4_plan_destroy(plan);
    free(y);
    free(right);
    return error;
}

/* ---- lines --------------------------------------------------------------------------------------------------- */

static void print_time(const struct floors *f, const char *name, double us, int bytes_a_sample)
{
    const double floor_us = 1e-3 * bytes_a_sample * (double)f->count / f->bandwidth.device;
    if (us < 0)
        printf(" %s_us=failed", name);
    else if (f->device.emulated)
        printf(" %s_us=emulated", name);
    else
        printf(" %s_us=%.1f", name, us);
    if (!bytes_a_sample) return;
    if (f->device.emulated || us < 0 || f->bandwidth.device <= 0)
        printf(" %s_floor_us=%s %s_ratio=%s", name, f->device.emulated ? "emulated" : "failed", name,
               f->device.emulated ? "emulated" : "failed");
    else
        printf(" %s_floor_us=%.1f %s_ratio=%.2f", name, floor_us, name, us / floor_us);
}

static void print_bandwidth(const struct floors *f)
{
    const struct {
        const char *name;
        double value;
    } copies[] = {{"device_gb_s", f->bandwidth.device},
                  {"to_device_gb_s", f->bandwidth.to_device},
                  {"to_host_gb_s", f->bandwidth.to_host}};
    printf("copy");
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        if (f->device.emulated)
            printf(" %s=emulated", copies[i].name);
        else
            printf(" %s=%.1f", copies[i].name, copies[i].value);
    putchar('\n');
}

/* The work areas of cuFFT that the plan has; preparing it has asked cuFFT whether they do. */
static void print_work_areas(const s4_plan *plan, const s4_plan_info *info)
{
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info buffer;
        if (!s4_plan_buffer(plan, i, &buffer) && buffer.place == S4_PLACE_GPU && strstr(buffer.name, "fft_work"))
            printf(" planned_%s=%lld", buffer.name, (long long)buffer.bytes);
    }
    printf(" device_peak=%lld", (long long)info->device_peak);
}

/* Ends a line: its last value has many words. */
static void print_failure(const char *call, s4_status status)
{
    printf(" state=%s why=%s: %s\n", status == S4_ERROR_UNSUPPORTED ? "unsupported" : "failed", call, s4_last_error());
}

/* ---- a placement --------------------------------------------------------------------------------------------- */

static int make_gradients(struct row *r)
{
    r->gradients_on_device = r->problem.placement.stage[S4_STAGE_SETUP] == S4_PLACE_GPU;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view view;
        if (s4_layer_parameter(r->floors->layer, (s4_parameter)p, &view) || !view.count) continue;
        const size_t bytes = (size_t)view.count * sizeof(double);
        void *gradient = NULL;
        if (r->gradients_on_device) {
            if (!TRY_CUDA(cudaMalloc(&gradient, bytes))) return 0;
        } else {
            gradient = malloc(bytes);
        }
        r->gradient[p] = gradient;
        if (!gradient) return 0;
    }
    return 1;
}

static void row_close(struct row *r)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (r->gradients_on_device)
            (void)cudaFree(r->gradient[p]);
        else
            free(r->gradient[p]);
    s4_workspace_destroy(r->workspace);
    s4_plan_destroy(r->plan);
}

static void measure(struct row *r)
{
    const struct floors *f = r->floors;
    print_time(f, "refresh", device_time(&f->device, refresh, r), 0);
    const double forward_us = device_time(&f->device, forward, r);
    print_time(f, "forward", forward_us, 8);
    if (forward_us < 0) {
        print_failure("forward", S4_ERROR_DEVICE);
        return;
    }
    const double error = compare(r);
    if (error < 0)
        printf(" error=-");
    else
        printf(" error=%.2e", error);
    S4_INIT(&r->backward);
    r->backward.u = f->u;
    r->backward.dy = f->dy;
    r->backward.du = f->du;
    print_time(f, "backward_du", device_time(&f->device, backward, r), 12);
    memcpy(r->backward.gradients.parameter, r->gradient, sizeof r->gradient);
    const double backward_us = device_time(&f->device, backward, r);
    print_time(f, "backward", backward_us, 12);
    if (backward_us < 0)
        print_failure("backward", S4_ERROR_DEVICE);
    else
        printf(" state=%s\n", f->device.emulated ? "emulated" : "ok");
}

/* PLACEMENT[:ALGORITHM]; the layer stores what that trains. */
static s4_status read_placement(const struct floors *f, const char *text, s4_problem *problem)
{
    char place[64];
    const size_t length = strcspn(text, ":");
    snprintf(place, sizeof place, "%.*s", (int)length, text);
    problem->algorithm = S4_ALGORITHM_FFT;
    s4_status status = s4_placement_parse(place, &problem->placement);
    if (!status && text[length]) status = s4_algorithm_parse(text + length + 1, &problem->algorithm);
    if (status) return status;
    return s4_layer_setup(f->context, f->layer, problem->algorithm == S4_ALGORITHM_CHUNKED ? 0 : f->L);
}

static void measure_placement(const struct floors *f, const char *text)
{
    struct row r = {.floors = f};
    s4_plan_info info;
    S4_INIT(&r.problem);
    r.problem.direction = S4_DIRECTION_TRAINING;
    r.problem.batch = f->B;
    r.problem.length = f->L;
    r.problem.d_model = f->H;
    r.problem.d_state = f->N;
    r.problem.tensors = S4_PLACE_GPU;
    printf("row placement=%s batch=%lld d_model=%lld d_state=%lld length=%lld", text, (long long)f->B, (long long)f->H,
           (long long)f->N, (long long)f->L);
    s4_status status = read_placement(f, text, &r.problem);
    if (!status) status = s4_plan_create(&r.problem, &r.plan);
    if (!status) status = s4_plan_describe(r.plan, &info);
    if (status) {
        print_failure("plan", status);
    } else {
        print_work_areas(r.plan, &info);
        status = s4_plan_prepare(r.plan, f->context);
        printf(" prepare=%s", s4_status_name(status));
        if (status)
            print_failure("prepare", status);
        else if ((status = s4_workspace_create(r.plan, &r.workspace)) ||
                 (status = s4_workspace_set_stream(r.workspace, f->device.stream)) ||
                 (status = s4_plan_refresh(r.plan, f->layer, r.workspace)))
            print_failure("workspace", status);
        else if (!make_gradients(&r))
            printf(" state=failed why=no memory for gradients\n");
        else
            measure(&r);
    }
    fflush(stdout);
    row_close(&r);
}

/* ---- the program --------------------------------------------------------------------------------------------- */

static int make_layer(struct floors *f)
{
    s4_layer_options sizes;
    S4_INIT(&sizes);
    sizes.d_model = f->H;
    sizes.d_state = f->N;
    if (!s4_layer_create(&sizes, &f->layer) && !s4_layer_init(f->context, f->layer, NULL)) return 1;
    fprintf(stderr, "s4_floors: layer: %s\n", s4_last_error());
    return 0;
}

static int open_place(struct floors *f, int *emulated)
{
    s4_place_info gpu = {0};
    if (s4_context_create(NULL, &f->context) || s4_context_place(f->context, S4_PLACE_GPU, &gpu)) {
        fprintf(stderr, "s4_floors: %s\n", s4_last_error());
        return 0;
    }
    *emulated = gpu.emulated;
    if (!gpu.available) fprintf(stderr, "s4_floors: no GPU: %s\n", gpu.reason);
    return gpu.available;
}

int main(int argc, char *argv[])
{
    const int small = argc > 1 && !strcmp(argv[1], "--small");
    char **words = argv + 1 + small;
    const int count = argc - 1 - small;
    struct floors f = {0};
    int emulated;
    int64_t *const sizes[] = {&f.B, &f.H, &f.N, &f.L};
    if (count < 5) {
        fprintf(stderr, "usage: s4_floors [--small] B H N L PLACEMENT[:ALGORITHM]...\n");
        return 2;
    }
    for (int i = 0; i < 4; i++)
        if ((*sizes[i] = strtoll(words[i], NULL, 10)) < 1) {
            fprintf(stderr, "s4_floors: size '%s' must be at least 1\n", words[i]);
            return 2;
        }
    f.count = f.B * f.H * f.L;
    if (!open_place(&f, &emulated)) {
        s4_context_destroy(f.context);
        return 4;
    }
    int made = device_open(&f.device, emulated);
    if (made) {
        f.bandwidth = copy_bandwidth(&f.device, small ? 1 << 16 : (int64_t)1 << 30);
        print_bandwidth(&f);
        fflush(stdout);
        made = make_layer(&f) && make_samples(&f);
    }
    for (int i = 4; made && i < count; i++) measure_placement(&f, words[i]);
    void *const on_device[] = {f.u, f.dy, f.y, f.du};
    for (int i = 0; i < 4; i++) (void)cudaFree(on_device[i]);
    free(f.samples);
    s4_layer_destroy(f.layer);
    s4_context_destroy(f.context);
    device_close(&f.device);
    return made ? 0 : 1;
}
