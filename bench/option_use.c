/*
 * An option that cannot have an effect on what is asked is refused, whatever its value: who gives it expects one. One that
 * matters to a part of what is asked is taken. What only the layer file tells is checked where that is read.
 */
#include "option_use.h"

#include <string.h>

#include "exit_code.h"

/* What is asked: bits 1 << s4_direction of all that is computed or planned. */
struct asked {
    unsigned verb, directions;
    const struct options *options;
    char direction[48], placement[96]; /* "with --..." as given, or the default */
};

#define SHAPES (VERB_PLAN | VERB_BENCH | VERB_TUNE) /* of a file or of sizes, in one direction */
#define CONVOLVES (1u << S4_DIRECTION_FORWARD | 1u << S4_DIRECTION_TRAINING)
#define MAKES_KERNEL (CONVOLVES | 1u << S4_DIRECTION_KERNEL)
#define RECURS (1u << S4_DIRECTION_STEP)
#define TRAINS (1u << S4_DIRECTION_TRAINING)
#define HAS_SAMPLES (CONVOLVES | RECURS)

static unsigned directions_of(unsigned verb, const struct options *options)
{
    const unsigned direction = 1u << options->direction;
    switch (verb) {
    case VERB_KERNEL:
        return 1u << S4_DIRECTION_KERNEL;
    case VERB_RUN:
        if (options->compare) return 1u << S4_DIRECTION_FORWARD | RECURS;
        return options->run_mode == RUN_STEP ? RECURS : 1u << S4_DIRECTION_FORWARD;
    case VERB_BENCH: /* measures a step, too, but for kernels */
        return direction & HAS_SAMPLES ? direction | RECURS : direction;
    default:
        return direction;
    }
}

static struct asked describe(unsigned verb, const struct options *options)
{
    struct asked asked = {.verb = verb, .directions = directions_of(verb, options), .options = options};
    if (verb == VERB_RUN)
        snprintf(asked.direction, sizeof asked.direction, "with --mode %s",
                 options->run_mode == RUN_STEP ? "step" : "conv");
    else
        snprintf(asked.direction, sizeof asked.direction, "with --direction %s",
                 s4_direction_name(options->direction));
    if (options->placement_count == 1)
        snprintf(asked.placement, sizeof asked.placement, "with --placement %s", options->placement_text[0]);
    else
        snprintf(asked.placement, sizeof asked.placement, "with any --placement given");
    return asked;
}

/* ---- what is in the way: a text, or NULL ---------------------------------------------------------------------- */

static const char *not_in(const struct asked *asked, unsigned directions)
{
    return asked->directions & directions ? NULL : asked->direction;
}

static const char *no_convolution(const struct asked *asked) { return not_in(asked, CONVOLVES); }
static const char *no_kernel(const struct asked *asked) { return not_in(asked, MAKES_KERNEL); }
static const char *no_recurrence(const struct asked *asked) { return not_in(asked, RECURS); }
static const char *no_training(const struct asked *asked) { return not_in(asked, TRAINS); }
static const char *no_samples(const struct asked *asked) { return not_in(asked, HAS_SAMPLES); }

/* bench sets the layer up for that length even where only steps are measured. */
static const char *no_kernel_to_cut(const struct asked *asked)
{
    return asked->verb == VERB_BENCH ? NULL : no_kernel(asked);
}

static const char *no_kernel_sums(const struct asked *asked)
{
    if (asked->directions & CONVOLVES && asked->options->algorithm == S4_ALGORITHM_CHUNKED)
        return "with --algorithm chunked, which makes no kernel";
    return no_kernel(asked);
}

static const char *length_of_kernel(const struct asked *asked)
{
    if (!(asked->verb & SHAPES) || !asked->options->kernel_length || !no_samples(asked)) return NULL;
    return "with --direction kernel and --kernel-length";
}

static const char *no_random_numbers(const struct asked *asked)
{
    return asked->options->argument_count ? no_samples(asked) : NULL;
}

/* Only kernels and convolutions are by FFT. */
static const char *nothing_to_tune(const struct asked *asked)
{
    return asked->verb == VERB_TUNE && no_kernel(asked) ? "on FFTs" : NULL;
}

static const char *no_file(const struct asked *asked)
{
    return asked->verb & (SHAPES | VERB_INFO) && !asked->options->argument_count ? "without a layer file" : NULL;
}

static const char *no_gpu(const struct asked *asked)
{
    for (int i = 0; i < asked->options->placement_count; i++)
        for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
            if (asked->options->placement[i].stage[stage] != S4_PLACE_CPU) return NULL;
    return asked->placement;
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *(*obstacle)(const struct asked *asked);
    const char *purpose;
} uses[] = {
    {"algorithm", no_convolution, "it says how to convolve"},
    {"kernel-length", no_kernel_to_cut, "it cuts the kernel of a convolution"},
    {"kernel-dtype", no_kernel_sums, "it is for the sums that make kernels"},
    {"rate-parity", no_kernel, "it is for kernels, which are made from C~"},
    {"step-mode", no_recurrence, "it says how a recurrence multiplies by dA"},
    {"chunk", no_recurrence, "it says how many samples a call of the recurrence takes"},
    {"frozen", no_training, "it names parameters that are not trained"},
    {"layout", no_samples, "it is the order of u, y and their gradients"},
    {"batch", no_samples, "it counts rows of u, y and their gradients"},
    {"length", length_of_kernel, "it counts samples of u, y and their gradients"},
    {"seed", no_random_numbers, "it is for random parameters, u and dy"},
    {"direction", nothing_to_tune, "tuning is for kernel, forward and training, which need some"},
    {"set", no_file, "it says how to read one"},
    {"prefix", no_file, "it stands before the names of tensors in one"},
    {"device-budget", no_gpu, "it bounds the memory taken on a GPU"},
    {"pinned-budget", no_gpu, "it bounds the memory pinned for samples on their way to a GPU"},
    {"shadow", no_gpu, "it compares a GPU with the CPU"},
};

/* Row of an option that was given, or NULL. */
static const struct option_row *row_given(const char *name, unsigned verb, const char *const *given)
{
    for (int i = 0; i < option_row_count; i++)
        if (given[i] && option_rows[i].verbs & verb && strcmp(option_rows[i].name, name) == 0) return &option_rows[i];
    return NULL;
}

int option_use_check(const struct verb *verb, const struct options *options, const char *const *given)
{
    const struct asked asked = describe(verb->bit, options);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        const struct option_row *row = row_given(uses[i].name, verb->bit, given);
        const char *obstacle = row ? uses[i].obstacle(&asked) : NULL;
        if (!obstacle) continue;
        if (row->kind == KIND_FLAG)
            return fail_usage(verb->name, "--%s: has no effect %s; %s", row->name, obstacle, uses[i].purpose);
        return fail_usage(verb->name, "--%s '%s': has no effect %s; %s", row->name, given[row - option_rows], obstacle,
                          uses[i].purpose);
    }
    return CODE_FINE;
}
