"""Fourier transforms and complex pairs."""
import torch

from generate import given, near

REAL = ("f32", "f16")
Z, R = torch.view_as_complex, torch.view_as_real
NORMS = [{}, {"norm": "ortho"}, {"norm": "forward"}]


def one(f, pairs_in=True, pairs_out=True):
    def run(x, axis=-1, n=None, norm=None):
        y = f(Z(x.contiguous()) if pairs_in else x, n, axis, norm)
        return R(y.resolve_conj()) if pairs_out else y
    return run


def many(f, pairs_in=True, pairs_out=True):
    def run(x, axes=None, sizes=None, norm=None):
        how = {"norm": norm, "s": sizes}
        if axes is not None:
            how["dim"] = axes
        y = f(Z(x.contiguous()) if pairs_in else x, **how)
        return R(y.resolve_conj()) if pairs_out else y
    return run


def stft(x, *window, n, hop=None, length=None, center=True, normalized=False, onesided=True):
    return R(torch.stft(x, n, hop, length, window[0] if window else torch.ones(length or n, dtype=x.dtype), center,
        "reflect", normalized, onesided, return_complex=True))


def istft(z, *window, n, hop=None, length=None, center=True, normalized=False, onesided=True, samples=None):
    return torch.istft(Z(z.contiguous()), n, hop, length, window[0] if window else torch.ones(length or n,
        dtype=z.dtype), center, normalized, onesided, samples)


def rows(every):
    def row(*call, derive=("empty",), **how):  # a NaN or an infinity reaches all elements, or those that an order of products gives it to
        every(*call, derive=derive, **how)

    for name in ("fft", "ifft", "hfft"):
        f = one(getattr(torch.fft, name), pairs_out=name != "hfft")
        row(name, f, [[(3, 8, 2)]], NORMS + [{"axis": 0}, {"n": 5}], dtypes=REAL)
        if name == "fft":  # one factor, two, three, a large prime (Bluestein)
            row(name, f, [[(2, n, 2)] for n in (1, 131, 240, 540, 263)], [{"axis": -1}], derive=())
            row(name, f, [[(2, 150, 3, 2)], [(271, 2, 2)]], [{"axis": 1}, {"axis": 0}], pairs=True, derive=())
    for name in ("rfft", "ihfft"):
        f = one(getattr(torch.fft, name), pairs_in=False)
        row(name, f, [[(3, 8)]], NORMS + [{"axis": 0}, {"n": 5}], dtypes=REAL)
        if name == "rfft":
            row(name, f, [[(2, n)] for n in (1, 9, 240, 521)], [{"axis": -1}], derive=())
            row(name, f, [[(2, 144, 3)]], [{"axis": 1}], derive=())
    f = one(torch.fft.irfft, pairs_out=False)
    row("irfft", f, [[(3, 5, 2)]], NORMS + [{"n": 9}, {"n": 4}, {"n": 13, "axis": -2}], dtypes=REAL)
    row("irfft", f, [[(2, n, 2)] for n in (2, 121, 262)], [{"axis": -1}], derive=())
    row("irfft", f, [[(2, 73, 3, 2)]], [{"axis": 1}], derive=())
    ways = [{}, {"axes": [0, 2], "norm": "ortho"}]
    for name in ("fft2", "ifft2", "fftn", "ifftn"):
        row(name, many(getattr(torch.fft, name)), [[(2, 6, 9, 2)]],
            ways if name != "fftn" else ways + [{"sizes": [4, 12], "axes": [1, 2]},
            {"axes": [-1, 1], "norm": "forward"}])
    for name in ("rfft2", "rfftn"):
        row(name, many(getattr(torch.fft, name), pairs_in=False), [[(2, 6, 9)]], ways)
    for name in ("irfft2", "irfftn"):
        row(name, many(getattr(torch.fft, name), pairs_out=False), [[(2, 6, 5, 2)]], ways if name != "irfftn" else [{}, {"sizes": [4, 9], "axes": [1, 2]}])
    for name in ("fftshift", "ifftshift"):
        row(name, lambda x, axes=None, f=getattr(torch.fft, name): f(x, axes), [[(4, 5, 2)]], [{}, {"axes": [0]}, {"axes": [0, -2]}], dtypes=("f32", "i32"))
    row("complex_pair", lambda a, b: torch.stack(torch.broadcast_tensors(a, b), -1), [[(3, 4), (4,)], [(), ()]], dtypes=REAL)
    row("real_part", lambda z: Z(z).real, [[(3, 4, 2)]])
    row("imaginary_part", lambda z: Z(z).imag, [[(3, 4, 2)]])
    row("complex_conj", lambda z: R(Z(z).conj().resolve_conj()), [[(3, 4, 2)]], dtypes=("f32",))
    row("complex_mul", lambda a, b: R(Z(a) * Z(b)), [[(3, 4, 2), (4, 2)], [(2,), (3, 2)]])
    row("complex_abs", lambda z: Z(z).abs(), [[(3, 4, 2)], [given([[3.0, -4.0], [0.0, 2.0]])]])
    row("complex_abs", lambda z: Z(z).abs(), [[given([[0.0, 0.0], [1e30, 1e30], [1e-30, 0.0]])]], grad=False)
    row("complex_angle", lambda z: Z(z).angle(), [[(3, 4, 2)]])
    row("polar", lambda r, t: R(torch.polar(*torch.broadcast_tensors(r, t))), [[near(0.1, 2, 3, 4), (3, 4)]])
    window = near(0.2, 1, 8)
    row("stft", stft, [[(40,)], [(2, 33)]], [{"n": 8}, {"n": 8, "hop": 3, "center": False}, {"n": 9, "normalized": True, "onesided": False}])
    row("stft", stft, [[(2, 40), near(0.2, 1, 6)]], [{"n": 9, "length": 6, "hop": 4}], dtypes=REAL)
    row("istft", istft, [[(5, 7, 2)], [(2, 5, 7, 2)]], [{"n": 8}, {"n": 8, "hop": 3, "normalized": True, "samples": 20}])
    row("istft", istft, [[(8, 6, 2), window]], [{"n": 8, "onesided": False, "hop": 4}])
