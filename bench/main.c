/* The s4 command: the table of verbs, and what stands around them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "exit_code.h"
#include "memory.h"
#include "progress.h"
#include "verbs.h"

#define LAYER "LAYER.safetensors"
#define TENSORS                                                                                                        \
    "\nA tensor is FILE.npy, FILE.safetensors:NAME, FILE.wav or FILE.csv. With --layout blh time comes before "        \
    "channel."

static const struct verb verbs[] = {
    {"info", VERB_INFO, "[" LAYER "]", "version, processor, libraries, GPU; what a layer file holds",
     "Prints version and build, the CPU level in use, threads, FFT and BLAS libraries, and the GPU or why there is\n"
     "none. With a layer file also what the layer is: sizes, transforms, the stored leaf, and the ranges of dt and\n"
     "Lambda, both raw and transformed.",
     0, 1, verb_info},
    {"init", VERB_INIT, "-o " LAYER, "a fresh layer",
     "Writes a layer with freshly initialised parameters and plain C to the file that -o names. The same seed gives\n"
     "the same layer. An old file of that name is replaced.",
     0, 0, verb_init},
    {"setup", VERB_SETUP, LAYER, "from plain C to C~ of a length, and back",
     "Writes the layer with C~ of --length L to the file that -o names (from C~ of another length: doubling where it\n"
     "fits, else through C), or with plain C for --undo. Set-up is done on the CPU, in double precision. Diagonal\n"
     "layers need none.",
     1, 1, verb_setup},
    {"kernel", VERB_KERNEL, LAYER, "the convolution kernel",
     "Writes the kernels K to the .npy or .csv file that -o names: (M,H,L), or (2M,H,L) for a bidirectional layer.\n"
     "--length is needed unless the file stores C~.",
     1, 1, verb_kernel},
    {"run", VERB_RUN, LAYER " U", "a layer over a sequence, by convolution or recurrence",
     "Writes y for the input U, in the dtype of the computation, to the file that -o names: .npy or .csv, or .wav if "
     "U\n"
     "is one. U is (B,H,T), (H,T) or (T); a single sequence, (T) or (1,T), drives all H channels. y is (B,M*H,T) or\n"
     "(M*H,T): output c of channel h is channel c*H+h. The kernel is as long as the input unless --kernel-length cuts\n"
     "it. -o may be left out with --compare or --state-out." TENSORS,
     2, 2, verb_run},
    {"grad", VERB_GRAD, LAYER " U DY", "gradients of sum(y * dy)",
     "Writes the gradients of sum(y * dy) to the .safetensors file that -o names: grad.u in the dtype of the\n"
     "computation, and in double that of every raw parameter of the stored leaf, grad.layer.kernel.C and so on.\n"
     "U is (B,H,T) or (H,T), DY (B,M*H,T) or (M*H,T). A dplr layer trains the C~ or, in chunks, the plain C that it stores (see s4 setup)." TENSORS,
     3, 3, verb_grad},
    {"plan", VERB_PLAN, "[" LAYER "]", "where everything will run and lie; runs nothing",
     "Prints the plan for a layer file, or for the shape given by --d-model and its companions.", 0, 1, verb_plan},
    {"bench", VERB_BENCH, "[" LAYER "]", "time, memory and error, one row per placement",
     "Measures a layer file, or a seeded layer of the shape given by --d-model and its companions, for each\n"
     "--placement. Times: set-up; first call (prepare, workspace, refresh, forward); then the median of repeats.\n"
     "Memory: planned and measured peaks of the workspace. Error: against double precision on the CPU, relative to\n"
     "the largest value of each result (y and, for training, every gradient); for large problems of one row and\n"
     "some channels. Where GPU kernels are executed by the CPU (\"emulated\") times say nothing about speed:\n"
     "they are null in JSON. Exit code 0 if any row ran.",
     0, 1, verb_bench},
    {"tune", VERB_TUNE, "[" LAYER "]", "measures FFT plans and stores the wisdom",
     "Measures the FFTs that a layer file, or the shape given by --d-model and its companions, needs, and stores\n"
     "what was found where every later run reads it; prints the name of that file. Tuned FFTs may give other last\n"
     "bits than untuned ones.",
     0, 1, verb_tune},
    {"check", VERB_CHECK, "", "self-test",
     "Checks every place there is, or those that --placement names: by properties of seeded layers of every kind\n"
     "(convolution = recurrence, set-up and its undoing, gradients by finite differences, the same bits within the\n"
     "minimum budget ...), or against golden files. Exit code 1 if a check failed, or if nothing could be checked.",
     0, 0, verb_check},
};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void print_help(FILE *to)
{
    fputs("usage: s4 VERB ... [options]\n\nStructured state-space (S4) layers on the CPU and the GPU.\n\n", to);
    for (size_t i = 0; i < VERB_COUNT; i++) fprintf(to, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\ns4 VERB --help tells about one of them, s4 --version the version.\n"
          "Exit codes: 0 fine, 1 a check failed, 2 usage, 3 bad input file, 4 place not available, 5 out of budget,\n"
          "130 cancelled by Ctrl-C.\n"
          "Environment: S4_CPU_LEVEL=x86-64|x86-64-v3|x86-64-v4 caps the instructions of the CPU, as --cpu-level does;\n"
          "S4_GPU_MODULE=FILE|off names another GPU module; S4_GPU_DEBUG=1 waits after each launch on a GPU.\n"
          "The manual is s4(1).\n",
          to);
}

static int fail_verb(const char *name)
{
    fprintf(stderr, "s4: %s%s%s; the verbs are", name ? "unknown verb '" : "no verb given", name ? name : "",
            name ? "'" : "");
    for (size_t i = 0; i < VERB_COUNT; i++) fprintf(stderr, "%s %s", i ? "," : "", verbs[i].name);
    fputs("; see s4 --help\n", stderr);
    return CODE_USAGE;
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    struct options options;
    int code = options_parse(verb, argc, argv, &options);
    if (code) return code;
    if (options.help) {
        options_help(verb, stdout);
        return CODE_FINE;
    }
    return verb->run(&options);
}

static int run(int argc, char **argv)
{
    if (argc < 2) return fail_verb(NULL);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return CODE_FINE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("s4 %s\n", s4_version());
        return CODE_FINE;
    }
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(argv[1], verbs[i].name) == 0) return run_verb(&verbs[i], argc - 1, argv + 1);
    return fail_verb(argv[1]);
}

int main(int argc, char **argv)
{
    memory_begin();
    progress_begin();
    int code = run(argc, argv);
    progress_clear();
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "s4: standard output: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    return code;
}
