"""S4 layers in plain torch, as one would write the formulas down: the naive path that is always there to compare with.

Written for this comparison from the formulas, in single precision (complex64), on the whole tensors: Cauchy and Vandermonde
sums by broadcasting, C~ by a matrix power, step by einsum, convolution by padded FFTs, gradients by autograd. H d_model,
n stored modes, L length; a closed vector is the n modes, then their conjugates.
"""
import math

import torch


def convolve(u, k_spectrum, skip):
    """y = irfft(rfft(u) K^) + D u, padded to twice the length. u (B,H,L), k_spectrum (H,L+1), skip (H,1)."""
    length = u.shape[-1]
    spectrum = torch.fft.rfft(u, n=2 * length) * k_spectrum
    return torch.fft.irfft(spectrum, n=2 * length)[..., :length] + skip * u


def closed(x):
    return torch.cat([x, x.conj()], dim=-1)


class Layer(torch.nn.Module):
    """`parameters`: the raw ones, as arrays. C of a DPLR layer is C~ for `kernel`, plain for `set_up` and `step`."""

    def __init__(self, mode, parameters):
        super().__init__()
        self.diagonal = mode == "diagonal"
        for name, value in parameters.items():
            if value is not None:
                tensor = torch.tensor(value, dtype=torch.float32)
                self.register_parameter(name, torch.nn.Parameter(tensor))

    def effective(self):
        """dt (H,1); Lambda, B, C (H,n)."""
        eigenvalues = torch.complex(-torch.exp(self.A_REAL), -self.A_IMAG)
        b, c = torch.view_as_complex(self.B)[0], torch.view_as_complex(self.C)[0]
        return torch.exp(self.INV_DT), eigenvalues, b, c

    def kernel(self, length):
        return self.kernel_diagonal(length) if self.diagonal else self.kernel_dplr(length)

    def kernel_diagonal(self, length):
        """zoh: K[l] = 2 Re sum_n C B (e^a - 1)/Lambda e^(a l), a = dt Lambda."""
        dt, eigenvalues, b, c = self.effective()
        a = dt * eigenvalues
        powers = torch.exp(a.unsqueeze(-1) * torch.arange(length))
        return 2 * torch.einsum("hn,hnl->hl", c * b * (torch.exp(a) - 1) / eigenvalues, powers).real

    def kernel_dplr(self, length):
        """K^ = e^(i theta) [s00 - cos s01 (1 + cos s11)^-1 s10], rank 1; s = sum over closed modes of
        v / (2i sin - cos dt Lambda)."""
        dt, eigenvalues, b, c_tilde = self.effective()
        p = torch.view_as_complex(self.P)
        rows = closed(torch.cat([b.unsqueeze(0), p]))                 # (1+R,H,2n)
        columns = closed(torch.cat([c_tilde.unsqueeze(0), p.conj()])) # (1+R,H,2n)
        v = dt * rows.unsqueeze(1) * columns.unsqueeze(0)
        theta = math.pi / length * torch.arange(length // 2 + 1, dtype=torch.float64)
        sine, cosine = torch.sin(theta).float(), torch.cos(theta).float()
        if length % 2 == 0:
            cosine[-1] = 0
        denominator = 2j * sine - cosine * closed(dt * eigenvalues).unsqueeze(-1) # (H,2n,L/2+1)
        s = (v.unsqueeze(-1) / denominator).sum(dim=-2)                           # (1+R,1+R,H,L/2+1)
        correction = s[0, 1] * s[1, 0] / (1 + cosine * s[1, 1])
        return torch.fft.irfft(torch.exp(1j * theta).to(s.dtype) * (s[0, 0] - cosine * correction), n=length)

    def forward(self, u):
        length = u.shape[-1]
        spectrum = torch.fft.rfft(self.kernel(length), n=2 * length)
        return convolve(u, spectrum, self.D[0].unsqueeze(-1))

    @torch.no_grad()
    def discretise(self):
        """dA, dB; DPLR dense on the closed vector: dA (H,2n,2n), dB (H,2n). Diagonal (H,n)."""
        dt, eigenvalues, b, _ = self.effective()
        if self.diagonal:
            power = torch.exp(dt * eigenvalues)
            return power, b * (power - 1) / eigenvalues
        p = closed(torch.view_as_complex(self.P)[0])
        half = dt.unsqueeze(-1) / 2
        a = torch.diag_embed(closed(eigenvalues)) - p.unsqueeze(-1) * p.conj().unsqueeze(-2)
        one = torch.eye(a.shape[-1], dtype=a.dtype)
        backward = one - half * a
        return torch.linalg.solve(backward, one + half * a), torch.linalg.solve(backward, dt * closed(b))

    @torch.no_grad()
    def set_up(self, length):
        """C~ = C (I - dA^L), from plain C: (H,n)."""
        c = closed(self.effective()[3])
        power = torch.linalg.matrix_power(self.discretise()[0], length)
        return (c - torch.einsum("hm,hmn->hn", c, power))[..., :c.shape[-1] // 2]

    @torch.no_grad()
    def stepper(self):
        """The function (u (B,H), state) -> (y (B,H), state), and the modes of a state."""
        a, b = self.discretise()
        c, skip = self.effective()[3], self.D[0].clone()
        if self.diagonal:
            def step(u, state):
                state = torch.einsum("hn,bhn->bhn", a, state) + torch.einsum("hn,bh->bhn", b, u.to(b.dtype))
                return 2 * torch.einsum("hn,bhn->bh", c, state).real + skip * u, state
            return step, c.shape[-1]
        c = closed(c)

        def step(u, state):
            state = torch.einsum("hmn,bhn->bhm", a, state) + torch.einsum("hn,bh->bhn", b, u.to(b.dtype))
            return torch.einsum("hn,bhn->bh", c, state).real + skip * u, state
        return step, c.shape[-1]
