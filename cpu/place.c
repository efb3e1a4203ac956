/*
 * The CPU place: its table of operations, and what it is (processor, libraries). Its memory comes from the context's
 * hooks, so it has no entries for allocation and copies.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/level.h"
#include "cpu/place.h"

const s4_host *cpu_host;

static s4_status cpu_open(const s4_open_options *options, s4_device **device)
{
    int level;
    *device = NULL;
    s4_status status = cpu_level_choose(options->cpu_level, &level);
    if (status) return status;
    *device = calloc(1, sizeof **device);
    if (!*device) return cpu_host->fail(S4_ERROR_MEMORY, "opening the CPU place needs %zu bytes", sizeof **device);
    (*device)->level = level;
    return S4_OK;
}

static void cpu_close(s4_device *device) { free(device); }

/* "model name : ..." of the first processor. */
void cpu_processor_name(char *text, size_t size)
{
    snprintf(text, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *colon = strchr(line, ':');
        if (!colon) continue;
        const char *name = colon + 1 + strspn(colon + 1, " \t");
        int length = (int)strcspn(name, "\n");
        if (length) snprintf(text, size, "%.*s", length, name);
        break;
    }
    fclose(file);
}

/* LAPACK is linked by its standard interface; which library serves it is asked where that library says. */
static void describe_lapack(char *text, size_t size)
{
    char *(*get_config)(void) = NULL;
    int (*get_threads)(void) = NULL;
    void *config_symbol = dlsym(RTLD_DEFAULT, "openblas_get_config");
    void *threads_symbol = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
    memcpy(&get_config, &config_symbol, sizeof get_config);
    memcpy(&get_threads, &threads_symbol, sizeof get_threads);
    if (get_config && get_threads)
        snprintf(text, size, "%s, %d threads", get_config(), get_threads());
    else if (get_config)
        snprintf(text, size, "%s", get_config());
    else
        snprintf(text, size, "LAPACKE");
}

static void cpu_describe(s4_device *device, s4_place_info *info)
{
    char fft[96], lapack[144];
    memset(info, 0, sizeof *info);
    info->available = 1;
    cpu_processor_name(info->name, sizeof info->name);
    if (device) snprintf(info->level, sizeof info->level, "%s", cpu_level_name(device->level));
    cpu_fft_describe(fft, sizeof fft);
    describe_lapack(lapack, sizeof lapack);
    snprintf(info->libraries, sizeof info->libraries, "%s; %s", fft, lapack);
}

static const s4_backend backend = {
    .version = S4_BACKEND_VERSION,
    .name = "cpu",

    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,

    .prepare = cpu_prepare,
    .unprepare = cpu_unprepare,

    .kernel = cpu_kernel,
    .spectrum = cpu_spectrum,
    .convolve = cpu_convolve,
    .convolve_backward = cpu_convolve_backward,
    .correlate = cpu_correlate,
    .kernel_backward = cpu_kernel_backward,

    .transform = cpu_transform,
    .read_out = cpu_read_out,
    .step_system = cpu_step_system,
    .step = cpu_step,
    .states = cpu_states,
    .states_backward = cpu_states_backward,
    .state_gradients = cpu_state_gradients,
    .chain = cpu_chain,

    .chunk_matrices = cpu_chunk_matrices,
    .chunk_forward = cpu_chunk_forward,
    .chunk_backward = cpu_chunk_backward,
    .chunk_gradient = cpu_chunk_gradient,

    .load_wisdom = cpu_load_wisdom,
    .tune = cpu_tune,

    .discrete = cpu_discrete,
    .convert_c = cpu_convert_c,
    .effective = cpu_effective,
    .hippo = cpu_hippo,

    .contract = cpu_contract,
};

const s4_backend *cpu_backend(const s4_host *host)
{
    cpu_host = host;
    return &backend;
}
