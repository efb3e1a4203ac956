/*
 * The one file that names the backends. The CPU's is linked in. The GPU's lives in a module of its own, so that the
 * library starts where there is no CUDA library at all; it is loaded when a GPU place is first asked for, and stays.
 *
 * Where the module is looked for: S4_GPU_MODULE (a path, or "off"), the folder of this library, the loader's path.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"

#define MODULE_NAME "libs4_gpu.so"

static const s4_host host_services = {s4_fail};

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static const s4_backend *module_backend;

static void *open_module(char *reason, size_t reason_size)
{
    const char *named = getenv("S4_GPU_MODULE");
    if (named && !strcmp(named, "off")) {
        snprintf(reason, reason_size, "the GPU module is switched off (S4_GPU_MODULE=off)");
        return NULL;
    }
    void *module = NULL;
    if (named && *named) {
        module = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    } else {
        Dl_info self;
        char path[4096];
        if (dladdr((void *)(uintptr_t)&s4_registry_backend, &self) && self.dli_fname) {
            const char *slash = strrchr(self.dli_fname, '/');
            int folder = slash ? (int)(slash - self.dli_fname) + 1 : 0;
            if (folder && snprintf(path, sizeof path, "%.*s" MODULE_NAME, folder, self.dli_fname) < (int)sizeof path)
                module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (!module) module = dlopen(MODULE_NAME, RTLD_NOW | RTLD_LOCAL);
    }
    if (!module) snprintf(reason, reason_size, "no GPU module: %s", dlerror());
    return module;
}

static const s4_backend *gpu_backend(char *reason, size_t reason_size)
{
    pthread_mutex_lock(&module_lock);
    if (!module_backend) {
        void *module = open_module(reason, reason_size);
        if (module) {
            s4_gpu_backend_function entry = NULL;
            *(void **)&entry = dlsym(module, S4_GPU_BACKEND_SYMBOL);
            const s4_backend *backend = entry ? entry(&host_services) : NULL;
            if (!backend)
                snprintf(reason, reason_size, "the GPU module has no " S4_GPU_BACKEND_SYMBOL);
            else if (backend->version != S4_BACKEND_VERSION)
                snprintf(reason, reason_size, "the GPU module has interface version %d, this library needs %d",
                         backend->version, S4_BACKEND_VERSION);
            else
                module_backend = backend;
            if (!module_backend) dlclose(module);
        }
    }
    const s4_backend *result = module_backend;
    pthread_mutex_unlock(&module_lock);
    return result;
}

const s4_backend *s4_registry_backend(s4_place place, char *reason, size_t reason_size)
{
    return place == S4_PLACE_GPU ? gpu_backend(reason, reason_size) : cpu_backend(&host_services);
}
