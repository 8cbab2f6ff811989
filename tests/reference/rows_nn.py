"""Softmax, attention, losses and convolutions."""
import torch

from generate import given, near, whole

F = torch.nn.functional
REAL = ("f32", "f16", "bf16")
HOW = [{"reduction": r} for r in ("mean", "sum", "none")]


def attention(q, k, v, causal=False, scale=None):
    groups, rest = divmod(q.shape[1], k.shape[1])
    if rest:
        raise ValueError("query heads are a multiple of key heads")
    return F.scaled_dot_product_attention(q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), is_causal=causal, scale=scale)


def convolution(f, transposed=False):
    def run(x, w, b, stride=1, padding=0, dilation=1, groups=1, output_padding=0):
        more = {"output_padding": output_padding} if transposed else {}
        return f(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups, **more)
    return run


def rows(row):
    for name in ("softmax", "log_softmax"):
        f = getattr(torch, name)
        row(name, lambda x, axis=-1, f=f: f(x, axis), [[(4, 33)], [(3, 5, 7)], [near(-60, 60, 4, 9)]], [{}, {"axis": 0}], dtypes=REAL)
    huge = given([[1e20, -3.0, 1e20], [-1e20, -1e20, -3e38], [3e9, 3e9, 2e9], [1e8, 0.5, 1e8]])  # what a logarithm adds to them is lost
    for name in ("softmax", "log_softmax"):
        row(name, getattr(torch, name), [[huge]], [{"axis": -1}], grad=False, derive=())
    row("scaled_dot_product_attention", attention, [[(2, 4, 7, 16), (2, 4, 7, 16), (2, 4, 7, 16)],
        [(1, 4, 5, 8), (1, 2, 5, 8), (1, 2, 5, 8)]], [{}, {"causal": True}, {"scale": 0.3}], dtypes=REAL)
    row("cross_entropy", lambda x, t, reduction: F.cross_entropy(x, t.long(), reduction=reduction),
        [[(9, 5), whole((9,), 0, 5)]], HOW, dtypes=("f32", "f16"), out="f32")
    row("nll_loss", lambda x, t, reduction: F.nll_loss(x, t.long(), reduction=reduction),
        [[near(-3, 0, 9, 5), whole((9,), 0, 5, "i64")]], HOW, dtypes=("f32", "f16"))
    for name, f in {"mse_loss": F.mse_loss, "l1_loss": F.l1_loss}.items():
        row(name, lambda x, t, reduction, f=f: f(x, t, reduction=reduction), [[(4, 9), (4, 9)]], HOW, dtypes=("f32", "f16"))
    row("bce_with_logits", lambda x, t, reduction: F.binary_cross_entropy_with_logits(x, t, reduction=reduction), [[near(-9, 9, 4, 9), near(0, 1, 4, 9)]], HOW)
    row("huber_loss", lambda x, t, delta, reduction: F.huber_loss(x, t, delta=delta, reduction=reduction),
        [[(4, 9), (4, 9)]], [{**how, "delta": d} for how in HOW for d in (1.0, 0.5)])
    row("kl_div", lambda x, t, reduction: F.kl_div(x, t, reduction=reduction), [[near(-3, 0, 4, 9), near(0.05, 1, 4, 9)]], HOW)
    row("conv1d", convolution(F.conv1d), [[(2, 4, 11), (6, 2, 3), (6,)], [(1, 3, 9), (4, 3, 2), (4,)]],
        [{"stride": [2], "padding": [1], "groups": 2}, {"dilation": [2]}], pairs=True)
    row("conv2d", convolution(F.conv2d), [[(2, 3, 7, 8), (4, 3, 3, 2), (4,)], [(1, 4, 6, 6), (4, 1, 3, 3), (4,)], [(2, 4, 5, 5), (3, 4, 1, 1), (3,)]],
        [{"stride": [2, 1], "padding": [1, 0]}, {"padding": [1, 1], "groups": 4}, {}], pairs=True, dtypes=("f32", "f16"))
    row("conv3d", convolution(F.conv3d), [[(1, 2, 4, 3, 5), (3, 2, 2, 3, 2), (3,)]], [{"stride": [1, 2, 1], "padding": [1, 1, 0]}])
    row("conv_transpose1d", convolution(F.conv_transpose1d, True), [[(2, 4, 5), (4, 3, 4), (6,)]],
        [{"stride": [3], "padding": [1], "dilation": [2], "groups": 2, "output_padding": [2]}])
    row("conv_transpose2d", convolution(F.conv_transpose2d, True), [[(1, 3, 4, 3), (3, 2, 3, 3), (2,)]],
        [{"stride": [2, 2], "padding": [1, 0], "output_padding": [1, 0]}, {}])
    row("conv_transpose3d", convolution(F.conv_transpose3d, True), [[(1, 2, 2, 3, 2), (2, 2, 2, 1, 3), (2,)]], [{"stride": [1, 2, 2], "padding": [0, 0, 1]}])
