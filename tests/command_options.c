/*
 * What the command says of options, of its environment and of numbers in files: an option that cannot have an effect on what
 * is asked is refused and named; a number that is not finite is named together with its file.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "expect.h"
#include "layers.h"
#include "program.h"
#include "s4/s4.h"
#include "scratch.h"

enum { CHANNELS = 2, SAMPLES = 12 };

static void write_zeros(const char *path)
{
    const int64_t shape[] = {1, CHANNELS, SAMPLES};
    s4_array *array;
    must(s4_array_create(S4_F64, 3, shape, &array));
    must(s4_array_write_npy(path, array));
    s4_array_destroy(array);
}

static void make_layer(const char *path, const char *options)
{
    const program_result made =
        program_run("'%s' init -o '%s' --d-model %d --d-state 4 %s", command(), path, CHANNELS, options);
    check(made.code == 0, "exit code %d, not 0: %s", made.code, made.errors);
}

/* Exit code 2, nothing on standard output, and one line that has every word. */
static void expect_refusal(const program_result *result, const char *line, const char *const words[3])
{
    check(result->code == 2, "%s: exit code %d, not 2: %s%s", line, result->code, result->output, result->errors);
    check(*result->output == 0, "%s: %s", line, result->output);
    for (int i = 0; i < 3 && words[i]; i++)
        check(strstr(result->errors, words[i]) != NULL, "%s: not a word of %s: %s", line, words[i], result->errors);
}

#define RUN "run layer.safetensors u.npy -o y.npy "
#define KERNEL "kernel layer.safetensors -o k.npy --length 8 "
#define GRAD "grad layer.safetensors u.npy u.npy -o g.safetensors "
#define PLAN "plan --d-model 2 --d-state 4 "
#define TUNE "tune --d-model 2 --d-state 4 "
#define BENCH "bench --d-model 2 --d-state 4 --repeats 1 "

/* In the scratch folder, where the files are. */
static program_result run_there(const char *line)
{
    return program_run("cd '%s' && XDG_CACHE_HOME=. '%s' %s", scratch_folder(), command(), line);
}

static void make_files(void)
{
    make_layer(scratch_path("layer.safetensors"), "");
    make_layer(scratch_path("diagonal.safetensors"), "--mode diag");
    write_zeros(scratch_path("u.npy"));
}

Test(command_options, without_effect_are_refused)
{
    static const struct {
        const char *line, *words[3];
    } cases[] = {
        {RUN "--mode step --algorithm chunked", {"--algorithm 'chunked'", "--mode step", "convolve"}},
        {RUN "--mode step --kernel-dtype f32", {"--kernel-dtype 'f32'", "--mode step", "kernels"}},
        {RUN "--mode step --kernel-length 5", {"--kernel-length '5'", "--mode step", "kernel"}},
        {RUN "--mode step --rate-parity", {"--rate-parity", "--mode step", "C~"}},
        {RUN "--step-mode dense", {"--step-mode 'dense'", "--mode conv", "recurrence"}},
        {RUN "--chunk 4", {"--chunk '4'", "--mode conv", "recurrence"}},
        {RUN "--algorithm chunked --kernel-dtype f32", {"--kernel-dtype 'f32'", "--algorithm chunked"}},
        {RUN "--shadow", {"--shadow", "--placement cpu", "GPU"}},
        {RUN "--device-budget 1MiB", {"--device-budget '1MiB'", "--placement cpu", "GPU"}},
        {GRAD "--pinned-budget 1MiB --placement step=cpu", {"--pinned-budget '1MiB'", "--placement step=cpu", "GPU"}},
        {GRAD "--algorithm chunked --kernel-dtype f64", {"--kernel-dtype 'f64'", "--algorithm chunked"}},
        {GRAD "--kernel-dtype f32", {"--kernel-dtype 'f32'", "layer.safetensors", "plain C"}},
        {KERNEL "--shadow", {"--shadow", "--placement cpu"}},
        {"kernel diagonal.safetensors -o k.npy --length 8 --rate 2 --rate-parity", {"--rate-parity", "diagonal", "C~"}},
        {"run diagonal.safetensors u.npy -o y.npy --rate-parity", {"--rate-parity", "diagonal", "C~"}},
        {"run diagonal.safetensors u.npy -o y.npy --kernel-dtype f32", {"--kernel-dtype 'f32'", "diagonal", "dplr"}},
        {"plan diagonal.safetensors --length 8 --kernel-dtype f32", {"--kernel-dtype 'f32'", "diagonal", "dplr"}},
        {PLAN "--length 8 --direction step --algorithm fft", {"--algorithm 'fft'", "--direction step", "convolve"}},
        {PLAN "--length 8 --direction kernel --algorithm fft", {"--algorithm 'fft'", "--direction kernel"}},
        {PLAN "--length 8 --direction step --kernel-length 4", {"--kernel-length '4'", "--direction step"}},
        {PLAN "--length 8 --direction step --kernel-dtype f32", {"--kernel-dtype 'f32'", "--direction step"}},
        {PLAN "--length 8 --step-mode dense", {"--step-mode 'dense'", "--direction training", "recurrence"}},
        {PLAN "--length 8 --direction forward --frozen C", {"--frozen 'C'", "--direction forward", "trained"}},
        {PLAN "--length 8 --direction kernel --layout blh", {"--layout 'blh'", "--direction kernel", "u, y"}},
        {PLAN "--length 8 --direction kernel --batch 4", {"--batch '4'", "--direction kernel", "u, y"}},
        {PLAN "--length 8 --direction kernel --kernel-length 4", {"--length '8'", "--kernel-length", "u, y"}},
        {PLAN "--length 8 --prefix x.", {"--prefix 'x.'", "layer file"}},
        {PLAN "--length 8 --prefix ''", {"--prefix ''", "layer file"}},
        {"plan layer.safetensors --length 8 --direction step --algorithm fft", {"--algorithm 'fft'", "--direction step"}},
        {BENCH "--length 8 --direction kernel --step-mode dense", {"--step-mode 'dense'", "--direction kernel"}},
        {BENCH "--length 8 --direction step --algorithm chunked", {"--algorithm 'chunked'", "--direction step"}},
        {BENCH "--length 8 --direction forward --frozen C", {"--frozen 'C'", "--direction forward"}},
        {BENCH "--length 8 --placement cpu --placement step=cpu --shadow", {"--shadow", "--placement"}},
        {"bench layer.safetensors --length 8 --direction kernel --seed 3", {"--seed '3'", "--direction kernel", "u and dy"}},
        {TUNE "--length 8 --direction step", {"--direction 'step'", "FFT"}},
        {TUNE "--length 8 --direction kernel --batch 3", {"--batch '3'", "--direction kernel"}},
    };
    make_files();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const program_result result = run_there(cases[i].line);
        expect_refusal(&result, cases[i].line, cases[i].words);
    }
}

/* What matters to a part of what is asked stays: --compare runs both ways, bench steps besides what it measures, auto may
 * take a GPU, and the name of a default is no more than another value. */
Test(command_options, of_some_effect_are_taken)
{
    static const char *const lines[] = {
        RUN "--mode conv --algorithm chunked",
        RUN "--mode step --step-mode dense --chunk 4",
        RUN "--mode step --compare --algorithm chunked --kernel-length 12",
        RUN "--compare --step-mode dense --chunk 4 --kernel-dtype f32 --algorithm fft",
        RUN "--placement auto --device-budget 1GiB --shadow",
        GRAD "--algorithm chunked --layout bhl",
        KERNEL "--kernel-dtype f32 --rate 2",
        PLAN "--length 8 --algorithm auto --kernel-dtype f32 --kernel-length 8 --frozen C --batch 4",
        PLAN "--length 8 --direction step --step-mode dense --layout blh --batch 4",
        PLAN "--direction kernel --kernel-length 8 --kernel-dtype f32",
        PLAN "--length 8 --placement split --device-budget 1GiB --pinned-budget 1MiB",
        BENCH "--length 8 --step-mode dense --algorithm fft --frozen C",
        BENCH "--length 8 --direction step --step-mode dense --kernel-length 8",
        "bench layer.safetensors --repeats 1 --length 8 --seed 3 --prefix layer.",
        BENCH "--length 8 --direction kernel --seed 3",
    };
    make_files();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const program_result result = run_there(lines[i]);
        check(result.code == 0, "%s: exit code %d, not 0: %s", lines[i], result.code, result.errors);
    }
}

/* An unknown level is named with its variable and the levels there are; the help has the variable. */
Test(command_options, levels_of_the_environment)
{
    static const char *const words[] = {"S4_CPU_LEVEL", "\"nonsense\"", "x86-64, x86-64-v3, x86-64-v4"};
    program_result result = program_run("S4_CPU_LEVEL=nonsense '%s' init -o '%s' --d-model 2", command(),
                                        scratch_path("layer.safetensors"));
#if defined(__x86_64__)
    expect_refusal(&result, "init", words);
#else
    (void)words;
#endif
    result = program_run("'%s' --help", command());
    check(strstr(result.output, "S4_CPU_LEVEL") && strstr(result.output, "S4_GPU_MODULE"), "%s", result.output);
}

/* A number in a layer file that is not finite: whichever verb finds it names the file. */
Test(command_options, not_finite_in_a_file)
{
    static const char *const lines[] = {
        RUN,
        RUN "--mode step",
        KERNEL,
        GRAD,
        "setup layer.safetensors --length 8 -o s.safetensors",
        "bench layer.safetensors --length 8 --repeats 1",
    };
    make_files();
    const char *path = scratch_path("layer.safetensors");
    s4_layer *layer;
    must(s4_layer_load(path, NULL, NULL, &layer));
    layer_data(layer, S4_PARAMETER_C)[3] = NAN;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    must(s4_layer_save(layer, path, NULL));
    s4_layer_destroy(layer);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const program_result result = run_there(lines[i]);
        check(result.code == 3, "%s: exit code %d, not 3: %s", lines[i], result.code, result.errors);
        check(strstr(result.errors, ": layer.safetensors: kernel.C[3] = nan is not finite") != NULL, "%s: %s", lines[i],
              result.errors);
    }
}

/* Set-up of a file is the CPU's: what asks for another place is told so, and what to do. */
Test(command_options, set_up_on_the_gpu)
{
    static const char *const placements[] = {"setup=gpu", "gpu"};
    static const char *const words[] = {"set-up", "on the CPU", "leave --placement out"};
    make_files();
    for (int i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "setup layer.safetensors --length 8 -o s.safetensors --placement %s", placements[i]);
        const program_result result = run_there(line);
        expect_refusal(&result, placements[i], words);
    }
}
