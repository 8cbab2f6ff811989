"""Losses over sequences, and losses with weights."""
import torch

from generate import Input, given, near, whole

F = torch.nn.functional
HOW = [{"reduction": r} for r in ("mean", "sum", "none")]


def ctc(x, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Behind a log_softmax, where PyTorch's gradient is the true one."""
    return F.ctc_loss(F.log_softmax(x, 2), targets.long(), input_lengths.long(), target_lengths.long(), blank, reduction, zero_infinity)


def nll(x, t, *weight, ignore_index=-100, reduction="mean"):
    return F.nll_loss(x, t.long(), *weight, ignore_index=ignore_index, reduction=reduction)


def bce(x, y, *weights, positive=False, weighted=False, reduction="mean"):
    weights = list(weights)
    return F.binary_cross_entropy_with_logits(x, y, weights.pop(0) if weighted else None, pos_weight=weights.pop(0) if positive else None, reduction=reduction)


def rows(every):
    def row(*call, derive=("empty",), **how):  # NaN and the like: the plain losses' rows
        every(*call, derive=derive, **how)

    lengths = [given([7, 5, 7], "i32"), given([3, 2, 0], "i32")]
    labels = given([[1, 1, 2], [3, 2, 9], [4, 4, 4]], "i32")
    labels.values[1][2] = 1
    row("ctc_loss", ctc, [[(7, 3, 5), labels, *lengths]], HOW, dtypes=("f32", "f16"))
    row("ctc_loss", ctc, [[(7, 3, 5), given([[0, 1, 2], [3, 2, 1], [0, 0, 0]], "i32"), *lengths]], [{"blank": 4, "reduction": "sum"}])
    row("ctc_loss", ctc, [[(12, 2, 4), given([[1, 2, 3, 2], [2, 2, 2, 1]], "i64"), given([12, 9], "i64"), given([4, 3], "i64")]], [{}])
    row("ctc_loss", ctc, [[(2, 2, 4), given([[1, 1], [1, 2]], "i32"), given([2, 2], "i32"), given([2, 2], "i32")]],
        [{"reduction": "none", "zero_infinity": True}])
    row("ctc_loss", ctc, [[(2, 2, 4), given([[1, 1], [1, 2]], "i32"), given([2, 2], "i32"), given([2, 2], "i32")]], [{"reduction": "none"}], grad=False)
    row("ctc_loss", ctc, [[(1, 2, 4), given([[1], [2]], "i32"), given([1, 1], "i32"), given([1, 0], "i32")]], [{"reduction": "none"}])
    plain = [near(-4, -0.1, 9, 5), whole((9,), 0, 5)]
    weight = near(0.2, 2, 5, grad=False)
    row("nll_loss", nll, [[*plain, weight]], HOW, dtypes=("f32", "f16"))
    row("nll_loss", nll, [[near(-4, -0.1, 2, 4, 3, 2), whole((2, 3, 2), 0, 4)],
        [near(-4, -0.1, 2, 5, 3), whole((2, 3), 0, 5, "i64"), weight]],
        [{"ignore_index": 2}, {"reduction": "none", "ignore_index": 1}])
    row("bce_with_logits", bce, [[(4, 6), near(0, 1, 4, 6), near(0.2, 2, 6, grad=False), near(0.2, 3, 6, grad=False)]],
        [{**h, "positive": True, "weighted": True} for h in HOW], dtypes=("f32", "f16"))
    row("bce_with_logits", bce, [[(4, 6), near(0, 1, 4, 6), near(0.2, 3, 4, 1, grad=False)]], [{"positive": True}, {"weighted": True}])
