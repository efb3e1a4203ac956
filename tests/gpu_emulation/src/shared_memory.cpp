/* Shared variables are thread-locals of the module (see qualifiers.h), so clearing
 * them is overwriting the calling thread's zero-initialised thread-locals. That
 * harms nothing: this thread runs kernels only. Dynamic shared memory is one more
 * such variable, the one that every .cu file declares `extern`. */
#include "shared_memory.h"
#include "sanitizers.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <link.h>

/* Aligned to what CUDA promises and no better. */
alignas(16) thread_local unsigned char s4_shared[s4_emulation::shared_bytes_opt_in];

namespace s4_emulation
{

namespace
{

[[maybe_unused]] constexpr std::size_t canary_bytes = 1024;

/* Where things lie in the module's thread-local block, relative to s4_shared; the
 * same for every thread. */
struct Layout {
    bool known = false;
    std::ptrdiff_t first = 0, end = 0; /* of the zero-initialised part */
};

Layout find_layout()
{
    Layout layout;
    s4_shared[0] = 0; /* this thread's block exists from the first access on */
    dl_iterate_phdr(
        [](dl_phdr_info *module, std::size_t, void *result) {
            char *block = static_cast<char *>(module->dlpi_tls_data);
            char *shared = reinterpret_cast<char *>(s4_shared);
            for (int k = 0; block && k < module->dlpi_phnum; k++) {
                const auto &segment = module->dlpi_phdr[k];
                if (segment.p_type != PT_TLS || shared < block || shared >= block + segment.p_memsz) continue;
#if defined(__clang__) && (S4_EMULATION_ADDRESS_SANITIZER || S4_EMULATION_THREAD_SANITIZER)
                if (!module->dlpi_name[0])
                    return 1; /* the sanitizer is linked into the executable and keeps its state there */
#endif
                auto *found = static_cast<Layout *>(result);
                found->known = true;
                found->first = block + segment.p_filesz - shared;
                found->end = block + segment.p_memsz - shared;
                return 1;
            }
            return 0;
        },
        &layout);
    return layout;
}

} // namespace

void prepare_shared_memory(std::size_t dynamic_bytes)
{
    static const Layout layout = find_layout();
    unsigned char *dynamic = s4_shared;
    asm("" : "+r"(dynamic)); /* the compiler need not know that this goes beyond s4_shared */
    if (layout.known) {      /* all but s4_shared itself, of which little may be in use */
        if (layout.first < 0) std::memset(dynamic + layout.first, 0xff, std::size_t(-layout.first));
        if (layout.end > std::ptrdiff_t(shared_bytes_opt_in))
            std::memset(dynamic + shared_bytes_opt_in, 0xff, std::size_t(layout.end) - shared_bytes_opt_in);
    }
#if S4_EMULATION_ADDRESS_SANITIZER
    std::memset(dynamic, 0xff, dynamic_bytes);
    __asan_poison_memory_region(dynamic + dynamic_bytes, shared_bytes_opt_in - dynamic_bytes);
#else
    std::memset(dynamic, 0xff, std::min(dynamic_bytes + canary_bytes, shared_bytes_opt_in));
#endif
}

long damaged_shared_memory([[maybe_unused]] std::size_t dynamic_bytes)
{
#if S4_EMULATION_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(s4_shared, shared_bytes_opt_in); /* the C library frees it with the thread */
#else
    const volatile unsigned char *dynamic = s4_shared; /* volatile: not memcmp, which the race detector sees */
    const std::size_t end = std::min(dynamic_bytes + canary_bytes, shared_bytes_opt_in);
    std::size_t i = dynamic_bytes;
    const auto whole_words = [&] { /* this is done after every block: eight bytes at a time */
        while (i + 8 <= end && *reinterpret_cast<const volatile std::uint64_t *>(dynamic + i) == ~std::uint64_t(0))
            i += 8;
    };
    while (i < end && i % 8 && dynamic[i] == 0xff) i++;
    if (i % 8 == 0) whole_words();
    while (i < end && dynamic[i] == 0xff) i++;
    if (i < end) return long(i - dynamic_bytes);
#endif
    return -1;
}

} // namespace s4_emulation
