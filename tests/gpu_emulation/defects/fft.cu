/* Planted defects: cuFFT used against its rules. */
#include "defect.h"
#include <cufft.h>

namespace defects
{

namespace
{

/* Real to complex and back, out of place, `rows` rows of N, with no work area yet. */
struct Plans {
    cufftHandle forward = 0, inverse = 0;
    std::size_t work_size = 0;

    explicit Plans(int rows, cudaStream_t stream = nullptr)
    {
        int n[] = {N};
        std::size_t a = 0, b = 0;
        cufftCreate(&forward);
        cufftCreate(&inverse);
        cufftSetAutoAllocation(forward, 0);
        cufftSetAutoAllocation(inverse, 0);
        cufftMakePlanMany(forward, 1, n, nullptr, 1, 0, nullptr, 1, 0, CUFFT_R2C, rows, &a);
        cufftMakePlanMany(inverse, 1, n, nullptr, 1, 0, nullptr, 1, 0, CUFFT_C2R, rows, &b);
        cufftSetStream(forward, stream);
        cufftSetStream(inverse, stream);
        work_size = a > b ? a : b;
    }
    ~Plans()
    {
        cufftDestroy(forward);
        cufftDestroy(inverse);
    }
    Plans(const Plans &) = delete;
    void use(void *work) const
    {
        cufftSetWorkArea(forward, work);
        cufftSetWorkArea(inverse, work);
    }
};

__global__ void k_fill(float *x, int n, float value)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] = value;
}

int fill(float *x, int n, float value, cudaStream_t stream = nullptr)
{
    const cudaLaunchConfig_t c = configuration(dim3(unsigned(n + N - 1) / N), dim3(N), 0, stream);
    REQUIRE(cudaLaunchKernelEx(&c, k_fill, x, n, value));
    return 0;
}

cufftComplex *spectrum(float *x) { return reinterpret_cast<cufftComplex *>(x); }

/* The forward transform of ones, with the work area given. */
int transform_ones(const Plans &plans)
{
    const Buffer x(N), s(N + 2);
    REQUIRE(fill(x, N, 1.0f));
    REQUIRE(cufftExecR2C(plans.forward, x, spectrum(s)));
    return compare(s, N + 2, [](int i) { return i ? 0.0f : float(N); });
}

} // namespace

int fft_no_work_area()
{
    const Plans plans(1);
    return transform_ones(plans);
}

int fft_small_work_area()
{
    const Plans plans(1);
    const Buffer work(plans.work_size / sizeof(float) / 2);
    plans.use(work);
    return transform_ones(plans);
}

int fft_host_work_area()
{
    const Plans plans(1);
    const Pinned work(plans.work_size / sizeof(float));
    plans.use(work);
    return transform_ones(plans);
}

int fft_work_area_in_use()
{
    const Plans plans(1);
    const Buffer work(plans.work_size / sizeof(float));
    plans.use(work);
    REQUIRE(fill(work, N, 3.0f));
    REQUIRE(transform_ones(plans));
    return compare(work, N, [](int) { return 3.0f; });
}

int fft_input_reused()
{
    const Plans plans(1);
    const Buffer work(plans.work_size / sizeof(float)), x(N), y(N), s(N + 2);
    plans.use(work);
    REQUIRE(fill(x, N, 1.0f));
    REQUIRE(cufftExecR2C(plans.forward, x, spectrum(s)));
    REQUIRE(cufftExecC2R(plans.inverse, spectrum(s), y));
    REQUIRE(cufftExecC2R(plans.inverse, spectrum(s), y));
    return compare(y, N, [](int) { return float(N); });
}

int fft_output_too_short()
{
    const Plans plans(3);
    const Buffer work(plans.work_size / sizeof(float)), x(3 * N), s(2 * (N + 2));
    plans.use(work);
    REQUIRE(fill(x, 3 * N, 1.0f));
    REQUIRE(cufftExecR2C(plans.forward, x, spectrum(s)));
    return compare(s, N + 2, [](int i) { return i ? 0.0f : float(N); });
}

int fft_wrong_stream()
{
    const Stream stream;
    const Plans plans(1); /* on the default stream, for which `stream` does not wait */
    const Buffer work(plans.work_size / sizeof(float)), x(N), s(N + 2);
    plans.use(work);
    REQUIRE(fill(x, N, 1.0f, stream));
    REQUIRE(cufftExecR2C(plans.forward, x, spectrum(s)));
    REQUIRE(cudaStreamSynchronize(nullptr));
    return compare(s, N + 2, [](int i) { return i ? 0.0f : float(N); });
}

int fft_unscaled()
{
    const Plans plans(1);
    const Buffer work(plans.work_size / sizeof(float)), x(N), y(N), s(N + 2);
    plans.use(work);
    REQUIRE(fill(x, N, 1.0f));
    REQUIRE(cufftExecR2C(plans.forward, x, spectrum(s)));
    REQUIRE(cufftExecC2R(plans.inverse, spectrum(s), y));
    return compare(y, N, [](int) { return 1.0f; });
}

/* Three rows of length 5 in buffers with stride 2 and gaps between rows, by 64-bit
 * plans in double precision; the gaps must stay as they were. And 2-d, in place. */
int correct_fft()
{
    constexpr int n = 5, rows = 3, real_row = 13, complex_row = 4;
    const Stream stream;
    const Buffer x(2 * rows * real_row), s(4 * rows * complex_row), work(1024);
    std::vector<double> h(rows * real_row, -7.0), back(rows * real_row);
    for (int b = 0; b < rows; b++)
        for (int l = 0; l < n; l++) h[std::size_t(b * real_row + 2 * l)] = double((b + 2) * l * l % 7);
    cufftHandle forward, inverse;
    long long length[] = {n}, embed[] = {n};
    std::size_t a, b;
    REQUIRE(cufftCreate(&forward));
    REQUIRE(cufftCreate(&inverse));
    REQUIRE(cufftSetAutoAllocation(forward, 0));
    REQUIRE(cufftSetAutoAllocation(inverse, 0));
    REQUIRE(cufftMakePlanMany64(forward, 1, length, embed, 2, real_row, embed, 1, complex_row, CUFFT_D2Z, rows, &a));
    REQUIRE(cufftMakePlanMany64(inverse, 1, length, embed, 1, complex_row, embed, 2, real_row, CUFFT_Z2D, rows, &b));
    REQUIRE((a > b ? a : b) > 4096);
    REQUIRE(cufftSetWorkArea(forward, work));
    REQUIRE(cufftSetWorkArea(inverse, work));
    REQUIRE(cufftSetStream(forward, stream));
    REQUIRE(cufftSetStream(inverse, stream));
    auto *time = reinterpret_cast<double *>(static_cast<float *>(x));
    auto *frequency = reinterpret_cast<cufftDoubleComplex *>(static_cast<float *>(s));
    REQUIRE(cudaMemcpyAsync(time, h.data(), h.size() * sizeof(double), cudaMemcpyHostToDevice, stream));
    REQUIRE(cufftExecD2Z(forward, time, frequency));
    REQUIRE(cufftExecZ2D(inverse, frequency, time));
    REQUIRE(cudaMemcpyAsync(back.data(), time, h.size() * sizeof(double), cudaMemcpyDeviceToHost, stream));
    REQUIRE(cudaStreamSynchronize(stream));
    for (std::size_t i = 0; i < h.size(); i++) {
        const bool element = i % real_row % 2 == 0 && i % real_row < 2 * n;
        if (!(std::fabs(back[i] - (element ? n : 1) * h[i]) < 1e-12)) return 1;
    }
    REQUIRE(cufftDestroy(forward));
    REQUIRE(cufftDestroy(inverse));

    /* In place, 4 x 6, rows padded to 8 floats: the zero frequency is the sum. */
    cufftHandle plane;
    int size[] = {4, 6};
    std::vector<float> p(32, 1.0f);
    REQUIRE(cufftPlanMany(&plane, 2, size, nullptr, 1, 0, nullptr, 1, 0, CUFFT_R2C, 1));
    REQUIRE(cudaMemcpy(x, p.data(), p.size() * sizeof(float), cudaMemcpyHostToDevice));
    REQUIRE(cufftExecR2C(plane, x, spectrum(x)));
    REQUIRE(cufftDestroy(plane));
    return compare(x, 32, [](int i) { return i ? 0.0f : 24.0f; });
}

} // namespace defects
