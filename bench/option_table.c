/* The table of options. A name may stand in two rows if no verb takes both. */
#include "option_table.h"

#include <stdint.h>
#include <string.h>

/* ---- choices ------------------------------------------------------------------------------------------------- */

/* The library's parsers; the field is the enumeration, or an int that holds its value. */
#define CHOICE(type)                                                                                                   \
    static const char *choose_##type(const char *text, void *field)                                                    \
    {                                                                                                                  \
        s4_##type value;                                                                                               \
        _Static_assert(sizeof value == sizeof(int), "enumerations are stored as int");                                 \
        if (s4_##type##_parse(text, &value)) return s4_last_error();                                                   \
        memcpy(field, &value, sizeof value);                                                                           \
        return NULL;                                                                                                   \
    }
CHOICE(mode)
CHOICE(direction)
CHOICE(algorithm)
CHOICE(step_mode)
CHOICE(discretisation)
CHOICE(transform)
CHOICE(layout)
CHOICE(init)

static const char *choose_dtype(const char *text, void *field)
{
    s4_dtype dtype;
    if (s4_dtype_parse(text, &dtype) || s4_dtype_size(dtype) == 0 || dtype == S4_I64) return "must be f32 or f64";
    *(s4_dtype *)field = dtype;
    return NULL;
}

/* Names of parameters, with commas between. */
static const char *choose_frozen(const char *text, void *field)
{
    unsigned mask = 0;
    for (const char *name = text; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
        char word[16];
        size_t length = strcspn(name, ",");
        s4_parameter which;
        snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : (int)sizeof word, name);
        if (s4_parameter_parse(word, &which)) return s4_last_error();
        mask |= 1u << which;
    }
    *(unsigned *)field = mask;
    return NULL;
}

static const char *choose_run_mode(const char *text, void *field)
{
    int step = strcmp(text, "step") == 0;
    if (!step && strcmp(text, "conv") != 0) return "must be conv or step";
    *(enum run_mode *)field = step ? RUN_STEP : RUN_CONV;
    return NULL;
}

/* Which levels there are, the CPU place knows. */
static const char *choose_cpu_level(const char *text, void *field)
{
    static s4_place_info cpu;
    s4_context_options wanted;
    s4_context *context;
    S4_INIT(&wanted);
    wanted.cpu_level = text;
    wanted.ignore_wisdom = 1;
    if (s4_context_create(&wanted, &context)) return s4_last_error();
    s4_status status = s4_context_place(context, S4_PLACE_CPU, &cpu);
    s4_context_destroy(context);
    if (status) return s4_last_error();
    if (!cpu.available) return cpu.reason;
    *(const char **)field = text;
    return NULL;
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

#define COMPUTE (VERB_KERNEL | VERB_RUN | VERB_GRAD | VERB_PLAN | VERB_BENCH)
#define SHAPE (VERB_PLAN | VERB_BENCH | VERB_TUNE) /* a layer file, or sizes */
#define SIZES (SHAPE | VERB_INIT)
#define MAKES (VERB_INIT | VERB_BENCH) /* parameters of a layer */
#define READS (VERB_INFO | VERB_KERNEL | VERB_RUN | VERB_SETUP | VERB_GRAD | SHAPE)
#define WRITES (VERB_INIT | VERB_KERNEL | VERB_RUN | VERB_SETUP | VERB_GRAD)
#define ALL (~0u)

#define FIELD(name) offsetof(struct options, name)
#define AT_LEAST_1 1, INT64_MAX
#define TRANSFORMS "none|exp|relu|sigmoid|softplus"

const struct option_row option_rows[] = {
    {"output", 'o', WRITES, KIND_TEXT, FIELD(output), 0, 0, NULL, "FILE",
     "file to write; an old file of that name is replaced only when all went well"},
    {"length", 0, VERB_KERNEL | VERB_SETUP | SHAPE, KIND_INTEGER, FIELD(length), AT_LEAST_1, NULL, "L",
     "samples of the kernel (kernel), of C~ (setup), of u and y (plan, bench, tune)"},
    {"undo", 0, VERB_SETUP, KIND_FLAG, FIELD(undo), 0, 0, NULL, NULL, "store plain C again"},
    {"mode", 0, VERB_RUN, KIND_CHOICE, FIELD(run_mode), 0, 0, choose_run_mode, "conv|step",
     "by convolution with the kernel (default), or by recurrence, sample after sample"},
    {"step-mode", 0, VERB_RUN | VERB_PLAN | VERB_BENCH, KIND_CHOICE, FIELD(step_mode), 0, 0, choose_step_mode,
     "linear|dense|diagonal", "how the recurrence multiplies by dA (default linear)"},
    {"chunk", 0, VERB_RUN, KIND_INTEGER, FIELD(chunk), AT_LEAST_1, NULL, "T",
     "samples per call of the recurrence (default 64); results do not depend on it, but for the rounding of diagonal steps"},
    {"state-in", 0, VERB_RUN, KIND_TEXT, FIELD(state_in), 0, 0, NULL, "TENSOR",
     "state before the first sample (B,H,N/2,2); default 0"},
    {"state-out", 0, VERB_RUN, KIND_TEXT, FIELD(state_out), 0, 0, NULL, "FILE.npy",
     "write the state after the last sample (B,H,N/2,2), f64"},
    {"lengths", 0, VERB_RUN | VERB_GRAD, KIND_TEXT, FIELD(lengths), 0, 0, NULL, "T,T,...",
     "samples that count in each batch row; what lies beyond is taken as absent"},
    {"compare", 0, VERB_RUN, KIND_FLAG, FIELD(compare), 0, 0, NULL, NULL,
     "run both ways; print samples per second of each and max abs(conv - step), also relative to max abs(y)"},

    {"mode", 0, SIZES, KIND_CHOICE, FIELD(layer_mode), 0, 0, choose_mode, "dplr|diag",
     "kind of layer (default dplr, or what --init says)"},
    {"d-model", 0, SIZES, KIND_INTEGER, FIELD(d_model), AT_LEAST_1, NULL, "H", "channels in"},
    {"d-state", 0, SIZES, KIND_INTEGER, FIELD(d_state), AT_LEAST_1, NULL, "N", "real state size, even (default 64)"},
    {"rank", 0, SIZES, KIND_INTEGER, FIELD(rank), AT_LEAST_1, NULL, "R",
     "columns of the low-rank part (default 1; 2 for --init legt)"},
    {"n-ssm", 0, SIZES, KIND_INTEGER, FIELD(n_ssm), AT_LEAST_1, NULL, "S",
     "independent copies of (Lambda, P, B), divides H (default H)"},
    {"channels", 0, SIZES, KIND_INTEGER, FIELD(channels), AT_LEAST_1, NULL, "M",
     "outputs per input channel (default 1)"},
    {"bidirectional", 0, SIZES, KIND_FLAG, FIELD(bidirectional), 0, 0, NULL, NULL,
     "a second kernel per output that runs backward"},
    {"disc", 0, SIZES, KIND_CHOICE, FIELD(discretisation), 0, 0, choose_discretisation, "bilinear|zoh|dss",
     "discretisation (default bilinear; zoh for diagonal layers)"},
    {"dt-untied", 0, SIZES, KIND_FLAG, FIELD(dt_untied), 0, 0, NULL, NULL, "a step size per mode, not per channel"},

    {"init", 0, MAKES, KIND_CHOICE, FIELD(init), 0, 0, choose_init, "FAMILY",
     "dplr: legs (default), legt, lagt, fourier, hippo; diagonal: diag-lin (default), diag-inv, diag-inv2, diag-quad, "
     "diag-real, diag-legs"},
    {"dt-min", 0, MAKES, KIND_REAL, FIELD(dt_min), 0, 0, NULL, "DT", "smallest step size (default 0.001)"},
    {"dt-max", 0, MAKES, KIND_REAL, FIELD(dt_max), 0, 0, NULL, "DT", "largest step size (default 0.1)"},
    {"dt-spaced", 0, MAKES, KIND_FLAG, FIELD(dt_spaced), 0, 0, NULL, NULL,
     "step sizes log-spaced over the channels, not random"},
    {"dt-transform", 0, MAKES, KIND_CHOICE, FIELD(dt_transform), 0, 0, choose_transform, TRANSFORMS,
     "from inv_dt to dt (default exp)"},
    {"real-transform", 0, MAKES, KIND_CHOICE, FIELD(real_transform), 0, 0, choose_transform, TRANSFORMS,
     "from A_real to -Re Lambda (default exp)"},
    {"imag-transform", 0, MAKES, KIND_CHOICE, FIELD(imag_transform), 0, 0, choose_transform, TRANSFORMS,
     "from A_imag to -Im Lambda (default none)"},
    {"bandlimit", 0, MAKES, KIND_REAL, FIELD(bandlimit), 0, 0, NULL, "ALPHA",
     "take C as 0 where dt |Im Lambda| / 2 pi >= ALPHA / 2 (default off)"},
    {"published-clamps", 0, MAKES, KIND_FLAG, FIELD(published_clamps), 0, 0, NULL, NULL,
     "clamp Lambda and clip Im B as the published code does"},
    {"seed", 0, MAKES, KIND_INTEGER, FIELD(seed), 0, INT64_MAX, NULL, "SEED",
     "of random parameters (bench: also of u and dy); default 1"},

    {"batch", 0, SHAPE, KIND_INTEGER, FIELD(batch), AT_LEAST_1, NULL, "B", "rows (default 1)"},
    {"layers", 0, VERB_PLAN, KIND_INTEGER, FIELD(layers), AT_LEAST_1, NULL, "K",
     "add the peak of a model of K such layers: parameters and their gradients, what is kept between forward and "
     "backward, one workspace"},
    {"repeats", 0, VERB_BENCH, KIND_INTEGER, FIELD(repeats), 1, 1000000, NULL, "R",
     "times are the median of so many runs (default 5)"},
    {"seconds", 0, VERB_TUNE, KIND_REAL, FIELD(seconds), 0, 0, NULL, "X",
     "longest time spent on each FFT (default 10)"},
    {"golden", 0, VERB_CHECK, KIND_TEXT, FIELD(golden), 0, 0, NULL, "DIR",
     "check the pairs NAME.in.safetensors, NAME.out.safetensors of this folder instead of the built-in properties"},

    {"direction", 0, SHAPE, KIND_CHOICE, FIELD(direction), 0, 0, choose_direction, "kernel|forward|training|step",
     "what is planned (default training)"},
    {"frozen", 0, VERB_PLAN | VERB_BENCH, KIND_CHOICE, FIELD(frozen), 0, 0, choose_frozen, "NAME,NAME,...",
     "parameters that are not trained: inv_dt, A_real, A_imag, B, P, C, D"},
    {"dtype", 0, COMPUTE | VERB_TUNE, KIND_CHOICE, FIELD(dtype), 0, 0, choose_dtype, "f32|f64",
     "of u, y and the products over the sequence (default f32)"},
    {"kernel-dtype", 0, COMPUTE, KIND_CHOICE, FIELD(kernel_dtype), 0, 0, choose_dtype, "f32|f64",
     "of the sums that make the kernels of dplr layers (default f64; f32 is right for legs, not where Lambda hardly decays: "
     "legt, fourier, hippo)"},
    {"layout", 0, VERB_RUN | VERB_GRAD | VERB_PLAN, KIND_CHOICE, FIELD(layout), 0, 0, choose_layout, "bhl|blh",
     "order of u, y and their gradients: (batch, channel, time), the default, or (batch, time, channel)"},
    {"placement", 0, COMPUTE | VERB_SETUP | VERB_CHECK, KIND_PLACEMENT, FIELD(placement), 0, 0, NULL, "P",
     "cpu, gpu, split, auto, or stage=place,stage=place (default cpu); bench and check take it several times"},
    {"algorithm", 0, COMPUTE & ~VERB_KERNEL, KIND_CHOICE, FIELD(algorithm), 0, 0, choose_algorithm, "auto|fft|chunked",
     "how to convolve (default auto)"},
    {"kernel-length", 0, VERB_RUN | VERB_GRAD | SHAPE, KIND_INTEGER, FIELD(kernel_length), AT_LEAST_1, NULL, "L",
     "cut the kernel (default: as long as the input; grad: the length of the stored C~)"},
    {"rate", 0, COMPUTE, KIND_REAL, FIELD(rate), 0, 0, NULL, "X", "multiplies the step size dt (default 1)"},
    {"rate-parity", 0, VERB_KERNEL | VERB_RUN, KIND_FLAG, FIELD(rate_parity), 0, 0, NULL, NULL,
     "as the published code: use the stored C~ as it is at another rate; the kernel is as long as that of C~ divided "
     "by the rate"},
    {"host-budget", 0, COMPUTE, KIND_BYTES, FIELD(host_budget), AT_LEAST_1, NULL, "BYTES",
     "most host memory of the workspace; KiB, MiB or GiB may follow the number"},
    {"device-budget", 0, COMPUTE, KIND_BYTES, FIELD(device_budget), AT_LEAST_1, NULL, "BYTES", "the same on the GPU"},
    {"pinned-budget", 0, COMPUTE, KIND_BYTES, FIELD(pinned_budget), AT_LEAST_1, NULL, "BYTES",
     "most of the host's memory that is pinned, for samples on their way to a GPU"},
    {"shadow", 0, COMPUTE & ~VERB_PLAN, KIND_FLAG, FIELD(shadow), 0, 0, NULL, NULL,
     "run every operation on the CPU, too, and name the first result of the GPU that differs or is not finite"},
    {"cpu-level", 0, ALL, KIND_CHOICE, FIELD(cpu_level), 0, 0, choose_cpu_level, "LEVEL",
     "most instructions of the CPU place: x86-64, x86-64-v3 or x86-64-v4 (default: all that there are); the environment "
     "variable S4_CPU_LEVEL caps it, too"},
    {"threads", 0, ALL, KIND_INTEGER, FIELD(threads), 1, 1024, NULL, "N", "CPU threads (default: all processors)"},
    {"set", 0, READS, KIND_SETTING, FIELD(setting), 0, 0, NULL, "KEY=VALUE,...",
     "read the layer file as if its metadata said so; keys: dt_transform, real_transform, imag_transform, disc, "
     "bidirectional, bandlimit"},
    {"prefix", 0, READS | VERB_INIT, KIND_TEXT, FIELD(prefix), 0, 0, NULL, "TEXT",
     "before the names of a layer's tensors in a file (default \"layer.\")"},
    {"json", 0, ALL, KIND_FLAG, FIELD(json), 0, 0, NULL, NULL, "print JSON"},
    {"help", 'h', ALL, KIND_FLAG, FIELD(help), 0, 0, NULL, NULL, "print this text"},
};

const int option_row_count = (int)(sizeof option_rows / sizeof *option_rows);
_Static_assert(sizeof option_rows / sizeof *option_rows <= OPTION_ROWS_MAX, "OPTION_ROWS_MAX is too small");
